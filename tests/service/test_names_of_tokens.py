"""Tokens that end, that are made anew, and that may write to some names only; and who changed what."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.serving import served
from typer.testing import CliRunner

import millstream as ms
from millstream.cli import app
from millstream.client.database import RemoteDatabase
from millstream.service.audit import AuditLog
from millstream.service.limits import ServiceLimits
from millstream.service.tokens import Role, Tokens, expiry_of, granted

Served = tuple[str, Tokens, Path]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("service")
    tokens, log = Tokens(directory / "tokens.json"), directory / "audit.jsonl"
    tokens.add("root", Role.ADMIN)
    with ms.connect(engine="inprocess") as db, served(db, tokens, ServiceLimits(), audit=AuditLog(log)) as url:
        db.execute("CREATE STREAM alerts_in (k INT) TIMESTAMP BY ts; CREATE STREAM Trades (k INT) TIMESTAMP BY ts")
        db.execute("CREATE TABLE alerts_t (k INT); CREATE TABLE t (k INT)")
        db.register("SELECT k FROM Trades", "other")
        db.register_many("SELECT k FROM Trades WHERE k = ?", [(1,)], ["foreign"], template="alerts_of_others")
        yield url, tokens, log


def test_writing_to_some_names(service: Served) -> None:
    url, tokens, _ = service
    secret = tokens.add("alerter", "write:Alerts_*, x?")
    select = "SELECT k FROM Trades"
    may: list[Callable[[RemoteDatabase], object]] = [
        lambda db: db.execute("SELECT k FROM Trades; SHOW QUERIES; EXPLAIN QUERY other"),
        lambda db: db.query("other").result(),
        lambda db: db.insert("ALERTS_in", [(1, 1)]),
        lambda db: db.execute("INSERT INTO alerts_in VALUES (1, 2); INSERT INTO Alerts_T VALUES (1)"),
        lambda db: db.execute("INSERT INTO alerts_in SELECT k, 900 FROM Trades [RANGE 5] WHERE k < 0"),
        lambda db: db.execute("UPDATE alerts_t SET k = 2; DELETE FROM alerts_t"),
        lambda db: db.advance("alerts_in", to=5),
        lambda db: db.register(select, "alerts_q").drop(),
        lambda db: db.execute(f"REGISTER QUERY x1 AS {select}; DROP QUERY x1"),
        lambda db: db.register_many(f"{select} WHERE k = ?", [(1,)], ["xa"])[0].drop(),
        lambda db: db.register_many(f"{select} WHERE k = ?", [(1,)], ["xb"], template="alerts_m").drop(),
    ]
    may_not: list[Callable[[RemoteDatabase], object]] = [
        lambda db: db.insert("Trades", [(1, 1)]),
        lambda db: db.execute("INSERT INTO alerts_in VALUES (1, 800); INSERT INTO Trades VALUES (1, 1)"),
        lambda db: db.execute("INSERT INTO Trades SELECT k, 9 FROM alerts_in [RANGE 5]"),
        lambda db: db.execute("UPDATE t SET k = 2"),
        lambda db: db.execute("DELETE FROM t"),
        lambda db: db.advance(to=5),
        lambda db: db.advance("Trades", to=5),
        lambda db: db.execute("ADVANCE TO 5"),
        lambda db: db.register(select, "q"),
        lambda db: db.register(select),
        lambda db: db.query("other").drop(),
        lambda db: db.execute("DROP QUERY other"),
        lambda db: db.execute(f"REGISTER OR REPLACE QUERY other AS {select}"),
        lambda db: db.register_many(f"{select} WHERE k = ?", [(1,)]),
        lambda db: db.register_many(f"{select} WHERE k = ?", [(1,)], ["xa", "q"][1:]),
        lambda db: db.register_many(f"{select} WHERE k = ?", [(1,)], template="alerts_m"),
        lambda db: db.register_many(f"{select} WHERE k = ?", [(1,)], ["xb"], template="m"),
        lambda db: db.template("alerts_of_others").drop(),
        lambda db: db.execute("DROP TEMPLATE alerts_of_others"),
    ]
    with ms.connect(url, token=secret) as db:
        for attempt in may:
            attempt(db)
        for refused in may_not:
            with pytest.raises(ms.AccessError, match=r"not for this token|without a name"):
                refused(db)
        with pytest.raises(ms.AccessError, match="needs a token for admin"):
            db.execute("CREATE VIEW alerts_v AS SELECT k FROM Trades")
        assert db.stats()["streams"]["Trades"]["arrived"] == 0
        assert db.stats()["streams"]["alerts_in"]["arrived"] == 2  # nothing of a text in which one was refused


@pytest.mark.parametrize("role", ["king", "read:a*", "admin:a*", "write:", "write:a b", "write:a,", "write:[a]"])
def test_what_is_no_role(role: str) -> None:
    with pytest.raises(ms.InputError):
        granted(role)


def test_tokens_end(service: Served) -> None:
    url, tokens, _ = service
    now = datetime.now(UTC)
    secret = tokens.add("brief", "read", expires=(now - timedelta(seconds=1)).isoformat())
    with pytest.raises(ms.AccessError, match="the token brief has expired"):
        ms.connect(url, token=secret)
    ms.connect(url, token=tokens.add("long", "read", expires=expiry_of("1h", now))).close()
    assert expiry_of("90d", now) == (now + timedelta(days=90)).isoformat(timespec="seconds")
    assert expiry_of("2999-01-31T12:00+02:00", now) == "2999-01-31T10:00:00+00:00"
    for wrong in ("", "soon", "-1d", "0d", "2001-01-01", "999999d9", "9999999d"):
        with pytest.raises(ms.InputError):
            expiry_of(wrong, now)


def test_tokens_are_made_anew(service: Served) -> None:
    url, tokens, _ = service
    first = tokens.add("worker", "read", expires=expiry_of("90d", datetime.now(UTC)))
    second = tokens.rotate("worker", timedelta(hours=1))
    with ms.connect(url, token=first) as before, ms.connect(url, token=second):
        third = tokens.rotate("worker")  # at once
        with pytest.raises(ms.AccessError):
            before.queries()
        for gone in (first, second):
            with pytest.raises(ms.AccessError):
                ms.connect(url, token=gone)
    ms.connect(url, token=third).close()
    own = [token for token in tokens.all() if token.name == "worker"]
    assert [token.role for token in own] == ["read"]
    assert own[0].expires
    with pytest.raises(ms.NameError, match="no token called"):
        tokens.rotate("nobody")
    tokens.revoke("worker")
    with pytest.raises(ms.AccessError):
        ms.connect(url, token=third)


def test_by_the_command_line(tmp_path: Path) -> None:
    def token(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["token", *arguments])
        return done.exit_code, done.output

    path = str(tmp_path / "db")
    Path(path).mkdir()
    assert token("add", path, "--name", "a", "--role", "write:alerts_*", "--expires", "90d")[0] == 0
    code, output = token("rotate", "a", path, "--overlap", "2h")
    assert code == 0
    assert Tokens(tmp_path / "db" / "tokens.json").find(output.split()[-1]) is not None
    assert token("list", path)[1].count("write:alerts_*") == 2
    assert token("rotate", "b", path)[0] == token("rotate", "a", path, "--overlap", "soon")[0] == 1
    assert token("add", path, "--name", "c", "--expires", "2001-01-01")[0] == 1
    assert token("revoke", "a", path)[0] == 0
    lines = [json.loads(line) for line in (tmp_path / "db" / "audit.jsonl").read_text().splitlines()]
    assert [(line["did"], line["names"]) for line in lines] == [
        ("add token", ["a"]),
        ("rotate token", ["a"]),
        ("revoke token", ["a"]),
    ]
    ms.connect(path, engine="inprocess").close()


def test_who_changed_what(service: Served) -> None:
    url, tokens, log = service
    secret = tokens.add("changer", Role.ADMIN)
    before = len(log.read_text().splitlines()) if log.exists() else 0
    with ms.connect(url, token=secret) as db:
        db.execute("CREATE STREAM c (k INT) TIMESTAMP BY ts; SET max_rstream_rows = 77")
        db.insert("c", [(1, 1)], key="k1")
        db.execute("INSERT INTO c VALUES (424242, 2)")
        db.register("SELECT k FROM c", "of_c")
        db.execute("SELECT k FROM c; SHOW QUERIES")
        with pytest.raises(ms.Error):
            db.execute("INSERT INTO c VALUES (3, 3); INSERT INTO nothing VALUES (1)")
        with pytest.raises(ms.Error):
            db.insert("c", [("x", 1)])
        db.execute("DROP STREAM c CASCADE")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in log.read_text().splitlines()[before:]]
    assert {(line["who"], line["from"]) for line in lines} == {("token changer", "127.0.0.1")}
    assert [(line["did"], line["names"], line.get("failed")) for line in lines] == [
        ("create stream", ["c"], None),
        ("set", ["max_rstream_rows"], None),
        ("insert", ["c"], None),
        ("insert", ["c"], None),
        ("register", ["of_c"], None),
        ("insert", ["c"], "NameError"),
        ("insert", ["nothing"], "NameError"),
        ("drop stream", ["c"], None),
    ]
    assert lines[2]["accepted"] == 1
    assert "424242" not in log.read_text()
    assert secret not in log.read_text()


def test_a_full_log_begins_anew(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", most=1000)
    for number in range(200):
        log.note("a", "insert", ["s"], number=number)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["audit.jsonl", *(f"audit.jsonl.{number}" for number in range(1, 10))]
    lines: list[Any] = []
    for name in files:
        lines += [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
    assert sorted(line["number"] for line in lines)[-1] == 199
    with pytest.raises(ms.SetupError, match="cannot be written"):
        AuditLog(tmp_path / "no" / "audit.jsonl")
