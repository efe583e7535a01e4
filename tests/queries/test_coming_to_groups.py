"""Queries that began with plans of their own come to their group between epochs, once it is there."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.queries.coming_and_going import STREAMS, TEXTS, answers, answers_so_far, feed
from tests.queries.coming_to_groups import gather

import millstream as ms
from millstream.engine.admitter import Admitter
from millstream.queries import sharing_choice

# Where the process is killed: in the commit by which queries are rows of the group, while their past is run for them,
# when the group has it, and when their own plans are to be forgotten.
FAULTS = [
    "segment-half-written:1",
    pytest.param("catalog-renamed:1", marks=pytest.mark.slow),
    pytest.param("manifest-half-written:1", marks=pytest.mark.slow),
    "manifest-counts:1",
    pytest.param("segment-half-written:4", marks=pytest.mark.slow),
    pytest.param("changes-half-written:1", marks=pytest.mark.slow),
    "change-counts:1",
    pytest.param("changes-half-written:2", marks=pytest.mark.slow),
    pytest.param("change-counts:2", marks=pytest.mark.slow),
]


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing_choice, "ENOUGH_TO_SHARE", 2)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("text", TEXTS)
def test_they_come_between_epochs_with_the_same_answers(text: str, shards: int, tmp_path: Path) -> None:
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(f"SET shards = {shards}; SET replan = 'off'; {STREAMS}")
        own = [db.register(text.format(c=0), name="own0")]
        feed(db, 0, 10)
        own.append(db.register(text.format(c=1), name="own1"))
        feed(db, 10, 20)
        others = [db.register(text.format(c=c), name=f"other{c}") for c in range(2, 6)]
        feed(db, 20, 30)
        assert others[-1].number is not None
        apart = [query for query in own if query.number is None]
        assert apart
        followed = apart[0].follow(timeout=0.01)
        before = [row for table in followed for row in table.to_pylist()]
        assert gather(db) == len(apart)
        assert {query.edge for query in own} == {others[-1].edge}
        assert "replan: moved since epoch" in apart[0].explain()
        feed(db, 30, 40)
        known = {query.name: answers(query) for query in db.queries()}
        after = [row for table in apart[0].follow(before[-1]["_ts"], timeout=0.01) for row in table.to_pylist()]
        assert sorted(map(str, before + after)) == known[apart[0].name][-1]
    with ms.connect(tmp_path, engine="inprocess") as db:
        assert {query.name: answers(query) for query in db.queries()} == known
        db.execute("SET sharing = 'off'")
        for query in [*db.queries()]:
            assert answers(db.register(query.cql)) == known[query.name]


def test_epochs_bring_them() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        db._queries.replanning.least_rows = 1
        own = [db.register(TEXTS[0].format(c=c)) for c in range(2)]
        feed(db, 0, 20)
        others = [db.register(TEXTS[0].format(c=c)) for c in range(2, 6)]
        feed(db, 20, 30)
        until = time.monotonic() + 60
        while any(query.number is None for query in (*own, *others)) and time.monotonic() < until:
            feed(db, 30, 31)
            time.sleep(0.02)
        assert {query.edge for query in own} == {others[-1].edge}


def test_those_stay_whose_past_is_not_kept() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET replan = 'off'; {STREAMS.replace('TIMESTAMP BY ts', 'TIMESTAMP BY ts RETAIN 5')}")
        own = [db.register(TEXTS[0].format(c=c)) for c in range(2)]
        feed(db, 0, 30)
        for c in range(2, 6):
            db.register(TEXTS[0].format(c=c))
        feed(db, 30, 40)
        assert gather(db) == 0
        assert all(query.number is None for query in own)


@pytest.mark.parametrize("step", ["gather", "admit", "hide"])
def test_what_fails_on_the_way_takes_nothing(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(f"SET replan = 'off'; {STREAMS}")
        for c in range(2):
            db.register(TEXTS[0].format(c=c), name=f"own{c}")
        feed(db, 0, 20)
        for c in range(2, 6):
            db.register(TEXTS[0].format(c=c), name=f"other{c}")
        feed(db, 20, 30)

        usual = Admitter.hide

        def full(admitter: Admitter, *given: Any) -> None:
            if step == "hide" and not given[0]:  # what comes, comes by the same call
                usual(admitter, *given)
            else:
                raise OSError(28, "no space left on device")

        with monkeypatch.context() as patching:
            patching.setattr(Admitter, step, full)
            with pytest.raises(OSError, match="no space"):
                gather(db)
        if step != "gather":
            assert db.query("own0").number is not None
        known = {query.name: answers_so_far(query) for query in db.queries()}
    with ms.connect(tmp_path, engine="inprocess") as db:
        assert {query.name: answers_so_far(query) for query in db.queries()} == known
        feed(db, 30, 40)
        db.execute("SET sharing = 'off'")
        for query in [*db.queries()]:
            assert answers(db.register(query.cql)) == answers(query)


PROGRAM = """
import sys
from pathlib import Path
from tests.queries.coming_to_groups import come_and_go_on
come_and_go_on(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
"""


def run(path: Path, text: str, fault: str = "") -> int:
    arguments = [sys.executable, "-c", PROGRAM, str(path), text, fault]
    return subprocess.run(arguments, check=False).returncode


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("text", [TEXTS[0], pytest.param(TEXTS[2], marks=pytest.mark.slow)])
def test_a_process_that_is_killed_leaves_them_alone_or_in_the_group(text: str, fault: str, tmp_path: Path) -> None:
    assert run(tmp_path / "db", text, fault) == -signal.SIGKILL
    assert run(tmp_path / "db", text) == 0
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        queries = [*db.queries()]
        assert [query.number is None for query in queries] == [query.name == "stays" for query in queries]
        assert len(queries) == 7
        assert len({query.number for query in queries}) == 7
        assert db.engine.snapshot.results.keys() == {query.edge for query in queries}
        known = {query.name: answers(query) for query in queries}
        db.execute("SET sharing = 'off'")
        assert {query.name: answers(db.register(query.cql)) for query in queries} == known
