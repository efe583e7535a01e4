"""A step at which a process ended is tried in a child process first; only what ends that one too is put aside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from hashlib import blake2b
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import polars as pl
import pytest
from tests.support.serving import served

import millstream as ms
from millstream.engine.epochs.precautions import Precautions, _named
from millstream.state.running import RUNNING, SUSPECTS, RunningSteps, Suspects, forget_all


def _made(directory: Path) -> list[str]:
    """A database with a deadly query, and its steps."""
    with ms.connect(directory, engine="inprocess") as db:
        db.execute("CREATE STREAM s (a INT) TIMESTAMP BY ts")

        def deadly(values: pl.Series) -> pl.Series:
            if 13 in values.to_list():
                os.abort()
            return values

        db.create_function("deadly", deadly, returns="INT")
        db.register("SELECT a FROM s [RANGE 10]", "good")
        db.register("SELECT deadly(a) AS a FROM s [RANGE 10]", "bad")
        steps = [step.name for step in db.engine.pipeline.steps]
    assert not (directory / RUNNING).exists()
    return steps


def _died_at(directory: Path, steps: list[str]) -> None:
    """As a process leaves it that was killed."""
    running = RunningSteps(directory / RUNNING)
    places = [running.place() for _ in steps]
    for place, step in zip(places, steps, strict=True):
        place.__enter__()(step)
    running.close()


def test_a_culprit_is_put_aside_and_the_rest_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _died_at(tmp_path, _made(tmp_path))
    with ms.connect(tmp_path, engine="inprocess") as db:
        assert db.insert("s", [(1, 1), (13, 2)]).accepted == 2
        assert db.insert("s", [(2, 3)]).accepted == 1
        assert db.query("good").result(at=2)["a"].to_pylist() == [1, 13]
        with pytest.raises(ms.EvaluationError, match="ends the process that runs it"):
            db.query("bad").result()
    assert any('the query "bad" was put aside' in message for message in caplog.messages)


def test_nothing_is_put_aside_for_a_death_that_does_not_come_again(tmp_path: Path) -> None:
    steps = _made(tmp_path)
    _died_at(tmp_path, steps)
    with ms.connect(tmp_path, engine="inprocess") as db:
        assert json.loads((tmp_path / SUSPECTS).read_text()) == dict.fromkeys(steps, 1)
        for instant in range(10):
            db.insert("s", [(instant, instant)])
        assert db.query("bad").result(at=8)["a"].to_pylist() == [*range(9)]
    assert not (tmp_path / SUSPECTS).exists()


def test_a_second_death_is_remembered_longer(tmp_path: Path) -> None:
    steps = _made(tmp_path)
    for _ in range(2):
        _died_at(tmp_path, steps)
        with ms.connect(tmp_path, engine="inprocess") as db:
            db.insert("s", [(db.engine.snapshot.epoch, db.engine.snapshot.epoch)])
    assert json.loads((tmp_path / SUSPECTS).read_text()) == dict.fromkeys(steps, 2)


def test_what_is_noted_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    _made(tmp_path)
    (tmp_path / RUNNING).write_bytes(b"\xff\xfe junk" + bytes(100))
    (tmp_path / SUSPECTS).write_text("{")
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.insert("s", [(1, 1)])
        assert db.query("bad").result(at=0).num_rows == 0


def _noted(directory: Path, times: int, what: str, text: str = "") -> None:
    """So many processes have ended at something."""
    for _ in range(times):
        _died_at(directory, [_named(what, text)])
        opened = Precautions(directory)
        opened.open()
        opened.close()


def test_what_is_no_step_is_refused_after_three_deaths_in_a_row(tmp_path: Path) -> None:
    _made(tmp_path)
    for times in (1, 2, 3):
        _noted(tmp_path, 1, "this")
        caution = Precautions(tmp_path)
        caution.open()
        with caution.guarded("that"), caution.guarded("this", "of another text"):
            pass
        if times == 3:
            with pytest.raises(ms.EvaluationError, match="this ends the process"), caution.guarded("this"):
                raise AssertionError("it is not done")
            caution.forgive("this")
            with caution.guarded("this"):
                pass
        caution.close()
    _noted(tmp_path, 2, "this")
    caution = Precautions(tmp_path)
    caution.open()
    with pytest.raises(ms.InputError), caution.guarded("this"):
        raise ms.InputError("wrong, and so it did not end the process")
    caution.close()
    assert not (tmp_path / SUSPECTS).exists()


def test_a_process_that_is_left_on_purpose_leaves_no_suspects(tmp_path: Path) -> None:
    caution = Precautions(tmp_path)
    caution.open()
    with caution.guarded("this"):
        assert (tmp_path / RUNNING).exists()
        forget_all()
        assert not (tmp_path / RUNNING).exists()
    caution.close()


def test_suspects_do_not_grow_for_ever(tmp_path: Path) -> None:
    (tmp_path / SUSPECTS).write_text(json.dumps({f"step-{number}": 1 for number in range(5_000)}))
    _died_at(tmp_path, ["step-3"])
    found = Suspects(tmp_path).deaths
    assert len(found) == 1_000
    assert found["step-3"] == 2


def test_rows_that_end_one_process_after_the_other_are_refused(tmp_path: Path) -> None:
    """Clients send them again: three times, and no more."""
    _made(tmp_path)
    body = json.dumps([[1, 1]]).encode()
    _noted(tmp_path, 3, "rows for s", blake2b(body).hexdigest())

    def sent(url: str, content: bytes) -> tuple[int, str]:
        with closing(HTTPConnection(urlsplit(url).netloc, timeout=300)) as connection:
            connection.request("POST", "/v1/streams/s/rows", content, {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    with ms.connect(tmp_path, engine="inprocess") as db, served(db) as url:
        status, said = sent(url, body)
        assert (status, "rows for s ends the process" in said) == (422, True)
        assert sent(url, json.dumps([[2, 2]]).encode())[0] == 200
        assert db.stats()["streams"]["s"]["arrived"] == 1


# What a process does with a database, until it is ended by doing it.
DEADLY = {
    "merge": """
from millstream.engine.epochs import merging
merging._merged = lambda *_: os.abort()
for instant in range(first, first + 40):
    db.insert("s", [(instant, instant)])
""",
    "sink": """
def taken(number, changes):
    os.abort()
db.create_sink("deadly", "good", taken)
db.insert("s", [(first, first), (first + 1, first + 1)])
db.advance("s", to=first + 2)
""",
    "past": """
db.execute("SET background_rows = 1")
if "late" not in {query.name for query in db.queries()}:
    db.insert("s", [(k, first) for k in range(3000)])
    db.register("SELECT a + 1 AS a FROM s [RANGE 1000]", "late")
try:
    db.query("late").result()
except ms.Error as error:
    print(error)
""",
    "opening": "db.register('SELECT a + 77 AS a FROM s [RANGE 5]', 'bad')",
}
# In what way the process is ended where nothing above does it.
PATCHED = """
from millstream.queries.registration import Registration
recover = Registration.recover
Registration.recover = lambda self, entry: os.abort() if "77" in entry["text"] else recover(self, entry)
"""
ENDED = {"merge": "merge of", "sink": "delivery 1 of the sink", "past": "takes part by", "opening": "opening query"}


@pytest.mark.slow
@pytest.mark.parametrize("what", DEADLY)
def test_processes_that_are_ended_outside_of_steps(tmp_path: Path, what: str) -> None:
    """They come back without it after three of them at most, and everything else goes on."""
    directory = tmp_path / "db"
    with ms.connect(directory, engine="inprocess") as db:
        db.execute("CREATE STREAM s (a INT) TIMESTAMP BY ts")
        db.register("SELECT a FROM s [RANGE 3]", "good")
        if what == "opening":
            db.register("SELECT a + 77 AS a FROM s [RANGE 5]", "bad")
        db.insert("s", [(1, 1)])
    code = f"""
import os, sys
import millstream as ms
{PATCHED if what == "opening" else ""}
with ms.connect(sys.argv[1], engine="inprocess") as db:
    first = db.stats()["streams"]["s"]["heartbeat"] + 1
    {"".join(f"{line}{chr(10)}    " for line in DEADLY[what].splitlines()) if what != "opening" else "pass"}
"""
    environment = {**os.environ, **({"MILLSTREAM_FAULT": "backfill-finished"} if what == "past" else {})}
    deaths, said = 0, ""
    while True:
        command = [sys.executable, "-c", code, str(directory)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode == 0:
            break
        assert done.returncode < 0, done.stderr
        deaths, said = deaths + 1, done.stderr
        assert deaths <= 3, said
    assert deaths == (2 if what == "merge" else 3)
    assert any(ENDED[what] in step for step in json.loads((directory / SUSPECTS).read_text()))
    with ms.connect(directory, engine="inprocess") as db:
        reached = db.stats()["streams"]["s"]["heartbeat"]
        db.insert("s", [(70, reached + 1), (71, reached + 3)])
        assert 70 in db.query("good").result()["a"].to_pylist()
        if what == "sink":
            taken: list[int] = []
            db.create_sink("deadly", "good", lambda number, changes: taken.append(number))
            assert (db.stats()["sinks"]["deadly"]["state"], taken) == ("paused", [])
            db.resume_sink("deadly")
            assert (db.stats()["sinks"]["deadly"]["state"], taken[0]) == ("active", 1)
            assert not (directory / SUSPECTS).exists()
        elif what == "past":
            assert "ends the process" in done.stdout
            with pytest.raises(ms.EvaluationError, match="takes part by"):
                db.query("late").result()
            db.query("late").drop()
            assert db.register("SELECT a + 1 AS a FROM s [RANGE 1000]", "late").result().num_rows > 3000
        elif what == "opening":
            with pytest.raises(ms.EvaluationError, match=r'opening query "bad" ends the process'):
                db.query("bad").result()
            db.query("bad").drop()
            bad = db.register("SELECT a + 77 AS a FROM s [RANGE 5]", "bad")
            assert bad.result().num_rows > 0
    if what in ("past", "opening"):
        assert not (directory / SUSPECTS).exists()
