"""What belongs together is one commit: queries that come to a group later, the parts of a query of mode LAZY."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import millstream as ms
from millstream.errors import StateError
from millstream.state.manifest import Manifests

STREAM = "CREATE STREAM s (a INT, b INT) TIMESTAMP BY ts"
ROWS = [(number % 10, number % 7, number) for number in range(40)]
# Matches, and a guard for what can fail.
SEVERAL = "SELECT a.a, a.b / (b.b + 1) AS x FROM s [RANGE 9] a, s [RANGE 9] b WHERE a.a = b.b"


def selection(number: int) -> str:
    """Of many shapes."""
    second = ("", "AND b <> 3", "AND b < 5", "AND b >= 2 AND a <> 7")[number % 4]
    return f"SELECT a, b FROM s [RANGE 9] WHERE a > {number % 9} {second}"


def answer(query: ms.Query) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in query.result().to_pylist())


@contextmanager
def commits(monkeypatch: pytest.MonkeyPatch, allowed: int | None = None) -> Iterator[list[int]]:
    """The commits within the block, of which the disk has room for some."""
    made, usual = list[int](), Manifests.commit

    def counted(manifests: Manifests, *given: object) -> None:
        if allowed is not None and len(made) >= allowed:
            raise StateError("the disk is full")
        made.append(1)
        usual(manifests, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patching:
        patching.setattr(Manifests, "commit", counted)
        yield made


@pytest.mark.parametrize("is_full", [False, True])
def test_queries_come_to_a_group_by_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAM)
        for number in range(8):
            db.register(selection(number), f"q{number}")
        if is_full:
            with commits(monkeypatch, allowed=0), pytest.raises(StateError):
                db.register(selection(8), "q8")
            assert {query.number for query in db.queries()} == {None}
        with commits(monkeypatch) as made:
            db.register(selection(8), "q8")
        assert len(made) == 1
        assert all(query.number is not None for query in db.queries())
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.insert("s", ROWS)
        for number in range(9):
            assert answer(db.query(f"q{number}")) == answer_alone(selection(number))


@pytest.mark.parametrize("is_full", [False, True])
def test_the_parts_of_a_query_come_and_go_by_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAM)
        db.insert("s", ROWS[:20])
        if is_full:
            with commits(monkeypatch, allowed=0), pytest.raises(StateError):
                db.register(SEVERAL, "several", "lazy")
            assert not db.queries()
            assert not db.engine.shared_plan.shown
        with commits(monkeypatch) as made:
            query = db.register(SEVERAL, "several", "lazy")
        assert len(query.materialization.edges) == 2
        assert len(made) == 1
        db.insert("s", ROWS[20:])
        assert answer(query) == answer_alone(SEVERAL)
        if is_full:
            with commits(monkeypatch, allowed=0), pytest.raises(StateError):
                query.drop()
            assert answer(query) == answer_alone(SEVERAL)
        with commits(monkeypatch) as made:
            query.drop()
        assert len(made) == 1
        assert not db.engine.shared_plan.shown
        assert not db.engine.pipeline.steps


def test_queries_of_mode_lazy_come_one_by_one_without_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their shapes: they are noted, and have one template."""
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'on'")
        db.register(selection(0), "q0", "lazy")
        with commits(monkeypatch) as made:
            for number in range(1, 20):
                db.register(selection(number), f"q{number}", "lazy")
            db.drop_query("q3")
        assert not made
    with ms.connect(tmp_path / "db", engine="inprocess") as db:  # of which there are no more than notes
        db.insert("s", ROWS)
        assert sum(entry["kind"] == "template" for entry in db.engine.snapshot.catalog) == 1
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        names = {f"q{number}" for number in range(20)} - {"q3"}
        assert {query.name for query in db.queries()} == names
        for name in names:
            assert db.query(name).mode == "lazy"
            assert answer(db.query(name)) == answer_alone(selection(int(name[1:])))


def answer_alone(text: str) -> list[tuple[object, ...]]:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'off'")
        query = db.register(text)
        db.insert("s", ROWS)
        return answer(query)
