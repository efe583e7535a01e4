"""The shell: on a terminal by keys, and without one."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from typer.testing import CliRunner

import millstream as ms
from millstream.answers.aligned import aligned
from millstream.cli import app
from millstream.shell.completing import NameCompleter, names_of
from millstream.shell.console import converse, is_finished, read_all
from millstream.shell.session import COMMANDS, HELP, ShellSession
from millstream.shell.splitting import statements

SETUP = "CREATE STREAM Trades (symbol STRING, price INT) TIMESTAMP BY ts;"


def shown(db: Any, text: str) -> tuple[str, str]:
    out, errors = io.StringIO(), io.StringIO()
    read_all(ShellSession(db, out, errors), io.StringIO(text))
    return out.getvalue(), errors.getvalue()


def test_a_conversation(db: Any) -> None:
    out, errors = shown(
        db,
        SETUP
        + r"""
        REGISTER QUERY dear AS SELECT symbol, price FROM Trades [RANGE 10]
           WHERE price > 100;                    -- a comment; with a semicolon
        INSERT INTO Trades VALUES ('a;b', 150, 1), ('xyz', 90, 2), (NULL, 1000, 3); ADVANCE TO 3;
        SELECT * FROM Trades [RANGE 100];
        \d
        \d dear
        \d trades
        \plan dear
        \watch dear 0.05
        """,
    )
    assert errors == ""
    assert "symbol | price\n-------+------\nNULL   |  1000\na;b    |   150\nxyz    |    90\n(3 rows)\n" in out
    assert "query dear: a relation, eager, final is 3" in out
    assert "stream Trades (symbol STRING, price INT)" in out
    assert "Window [RANGE 10]" in out
    assert out.endswith("symbol | price\n-------+------\nNULL   |  1000\na;b    |   150\n(2 rows)\n")


def test_errors_have_carets_and_do_not_end_it(db: Any) -> None:
    out, errors = shown(db, f"{SETUP} SELECT spede FROM Trades;\n\\x\n\\plan\nSHOW STREAMS")
    assert "  SELECT spede FROM Trades\n         ^^^^^\n" in errors
    assert r"there is no command \x" in errors
    assert r"\plan needs a name" in errors
    assert out.endswith("(1 row)\n")


def test_timing_files_and_leaving(db: Any, tmp_path: Path) -> None:
    file = tmp_path / "setup.cql"
    file.write_text(SETUP + "\nSHOW STREAMS")
    out, errors = shown(db, f"\\timing\n\\i {file}\n\\run\n\\?\n\\q\nnever reached;")
    assert errors == ""
    assert re.search(r"stream Trades created\n(.|\n)*\(1 row\)\ntime: [\d.]+ ms\n(done|no sources to read)\n", out)
    assert HELP in out
    assert all(command in HELP for command in COMMANDS)
    assert "cannot read" in shown(db, "\\i /nowhere")[1]


@pytest.mark.parametrize(
    ("text", "finished", "rest"),
    [
        ("SELECT 1; SELECT ';' ; ", ["SELECT 1", "SELECT ';' "], " "),
        ("SELECT 'it''s; so", [], "SELECT 'it''s; so"),
        ("-- a; b\nSELECT `x;y`;--", ["-- a; b\nSELECT `x;y`"], "--"),
        ("/* ; */;;", [], ""),
        ("SELECT /* ; ", [], "SELECT /* ; "),
        ("SELECT '\\'; '; x", ["SELECT '\\'; '"], " x"),
    ],
)
def test_statements_are_told_apart(text: str, finished: list[str], rest: str) -> None:
    assert statements(text) == (finished, rest)


def test_what_enter_sends() -> None:
    assert [is_finished(text) for text in ("SELECT 1;", "\\d", "", "SELECT", "SELECT ';", "SELECT 1; S")] == [
        *(True, True, True),
        *(False, False, False),
    ]


def test_commands_are_heard_in_the_middle_of_a_statement(db: Any) -> None:
    out, _ = shown(db, f"{SETUP} SELECT symbol\n\\d\n")
    assert "what stands before it has no semicolon at its end, and was not run\nstreams\n" in out
    assert is_finished("SELECT symbol\n\\d")
    assert not is_finished("SELECT 'a\n\\d")
    assert not is_finished("SELECT a\n\\nothing")


def test_words_of_other_shells(db: Any) -> None:
    assert shown(db, "help\n;") == (f"{HELP}\n", "")
    assert is_finished("exit")
    session = ShellSession(db, io.StringIO(), io.StringIO())
    session.take("quit;")
    assert session.is_over
    for command in ("\\help", "\\h", "\\HELP;"):
        assert shown(db, f"{command}\n") == (f"{HELP}\n", "")
        assert is_finished(command)
    session = ShellSession(db, io.StringIO(), io.StringIO())
    session.take("\\quit")
    assert session.is_over


def test_rows_that_are_not_in_an_answer_yet_are_told_of_once(db: Any) -> None:
    asked = "SELECT symbol FROM Trades [RANGE 100];"
    out, errors = shown(db, f"{SETUP} {asked} INSERT INTO Trades VALUES ('a', 1, 3), ('b', 2, 4); {asked} {asked}")
    assert errors == ""
    told = (
        "final up to 3: Trades has rows up to 4, which count when later rows have come, or after ADVANCE Trades TO 4\n"
    )
    assert out.endswith(f"symbol\n------\na\n(1 row)\n{told}symbol\n------\na\n(1 row)\n")
    assert told not in shown(db, f"ADVANCE Trades TO 4; {asked}")[0]


def test_what_rows_wait_for(db: Any) -> None:
    db.execute(
        "CREATE STREAM a (x INT) TIMESTAMP BY ts; CREATE STREAM b (x INT) TIMESTAMP BY ts; CREATE TABLE t (x INT)"
    )
    db.execute("CREATE STREAM c (x INT, at TIMESTAMP) TIMESTAMP BY at")
    assert db.execute("SELECT * FROM a").waiting == db.execute("SELECT * FROM t").waiting == ""
    db.insert("a", [(1, 5)])
    both = "SELECT a.x FROM a [RANGE 9], b [RANGE 9]"
    (after,) = (db.execute(both).waiting,)
    assert after.startswith("nothing is final yet: a has rows up to 5, which count when later rows of b have come")
    assert after.endswith("ADVANCE b TO 5")
    db.execute("ADVANCE b TO 5; ADVANCE a TO 5")
    assert db.execute(both).waiting == ""
    db.execute("INSERT INTO c VALUES (1, '2026-01-01 10:00:00')")
    assert db.execute("SELECT * FROM c").waiting.endswith("ADVANCE c TO '2026-01-01 10:00:00'")


def test_what_is_said_beside_rows(db: Any) -> None:
    asked = "COMMENT ON STREAM Trades IS 'of one day'; DESCRIBE Trades; SHOW CREATE STREAM Trades;"
    out, errors = shown(db, f"{SETUP} {asked}\n\\d Trade\n\\run")
    assert "of one day\ncolumn | type" in out
    assert "CREATE STREAM Trades (symbol STRING, price INT) TIMESTAMP BY ts" in out
    assert "(1 row)" not in out
    assert out.endswith(("no sources to read\n", "done\n"))
    assert errors == 'there is nothing called "Trade"\nhint: did you mean "Trades"?\n'


def test_by_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    out = io.StringIO()
    with ms.connect(engine="inprocess") as db, create_pipe_input() as keys:
        keys.send_text(SETUP + "\r")
        keys.send_text("SELECT price\rFROM Tradex\x7fs [RANGE 5];\r")  # two lines, and a key that takes one back
        keys.send_text("SELECT nothing\x03")  # left by Ctrl-C
        keys.send_text("SHOW QUERIES\x1b\r")  # sent by Alt-Enter, without a semicolon
        keys.send_text("\\q\r")
        converse(ShellSession(db, out, out), input=keys, output=DummyOutput())
    assert out.getvalue().startswith("stream Trades created\nprice\n-----\n(0 rows)\n")
    listed = "name | kind | mode | state | error | cql\n-----+------+------+-------+-------+----\n(0 rows)\n"
    assert out.getvalue().endswith(listed)
    assert "FROM Trades [RANGE 5];" in (tmp_path / "millstream" / "history").read_text()


def test_the_end_of_the_input_leaves() -> None:
    out = io.StringIO()
    with ms.connect(engine="inprocess") as db, create_pipe_input() as keys:
        keys.send_text("\x04")
        converse(ShellSession(db, out, out), input=keys, output=DummyOutput())


def test_completion(db: Any) -> None:
    shown(db, SETUP + "REGISTER QUERY dear AS SELECT price FROM Trades;")
    names = NameCompleter(lambda: names_of(db))

    def after(text: str) -> list[str]:
        return [found.text for found in names.get_completions(Document(text), CompleteEvent())]

    assert after("SELECT sy") == ["symbol"]
    assert after("SELECT price FROM tr") == ["Trades"]
    assert after("sel") == ["select"]
    assert after("IST") == ["ISTREAM"]
    assert after("\\plan de") == ["dear", "decimal", "default", "delay", "delete", "describe"]
    assert after("\\wa") == ["\\watch"]
    assert after("SELECT ") == []


def test_aligned_tables() -> None:
    table = pa.table(
        {"wide": ["日本", "e\u0301", "a\nb", None], "n": [1, -10, None, 1000], "b": [b"\x00", b"", None, b"a"]}
    )
    assert aligned(table).split("\n") == [
        "wide | n    | b",
        "-----+------+------",
        "日本 |    1 | x'00'",
        "e\u0301    |  -10 | x''",
        "a\\nb | NULL | NULL",
        "NULL | 1000 | x'61'",
        "(4 rows)",
    ]
    assert aligned(pa.table({"n": range(9)}), most=2).endswith("(9 rows, 2 shown)")


def test_the_command_without_a_terminal() -> None:
    done = CliRunner().invoke(app, ["shell", "--in-process"], input=f"{SETUP}\nSHOW STREAMS;")
    assert (done.exit_code, done.output.count("Trades")) == (0, 2)
    failed = CliRunner().invoke(app, ["shell", "--in-process"], input="SELECT x FROM y;")
    assert failed.exit_code == 1
    assert 'there is no stream, table or view called "y"' in failed.output
    nowhere = CliRunner().invoke(app, ["shell", "http://127.0.0.1:9"], input="")
    assert nowhere.exit_code == 1
    assert "cannot be reached" in nowhere.output


def test_notices_stand_below_the_rows(db: Any) -> None:
    db.execute("CREATE STREAM r (k INT) TIMESTAMP BY t RETAIN 10")
    db.insert("r", [(tick, tick) for tick in range(50)])
    out, errors = shown(db, "SELECT COUNT(*) AS n FROM r;")
    assert errors == ""
    assert "(1 row)\nnotice: the history of r begins at 38 (RETAIN)" in out
