"""A step at which a process ended is tried in a child process first; only what ends that one too is put aside."""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest

import millstream as ms
from millstream.state.running import RUNNING, SUSPECTS, RunningSteps


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
