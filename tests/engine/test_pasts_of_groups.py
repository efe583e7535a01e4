"""Queries of a group that come at different times: what each sees of the past does not depend on the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream.database import Database
from millstream.engine.history.rounds import Rounds

COUNTS = "SELECT count(*) AS n, sum(v) AS total FROM s [RANGE UNBOUNDED] WHERE v >= ?"
PAIRS = "SELECT count(*) AS n FROM s [RANGE UNBOUNDED] a, s [RANGE UNBOUNDED] b WHERE a.k = b.k AND a.v >= ?"
RETAIN = 25


def elements(batches: range) -> list[tuple[int, int, int]]:
    return [(tick % 4, tick % 7, tick) for tick in range(batches.start * 10, batches.stop * 10)]


def expected(text: str, least: int, kept: int, final: int) -> list[dict[str, int]]:
    """By all elements from an instant on, whatever else there was."""
    seen = [e for e in elements(range(40)) if kept <= e[2] <= final]
    if text == COUNTS:
        return [{"n": sum(v >= least for _, v, _ in seen), "total": sum(v for _, v, _ in seen if v >= least)}]
    return [{"n": sum(v >= least and k == other for k, v, _ in seen for other, _, _ in seen)}]


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Backfills wait for it before each slice, or for the end."""
    gate = threading.Event()
    usual: Callable[..., Any] = Rounds.run_slice

    def gated(rounds: Rounds, *arguments: Any) -> Any:
        while not gate.wait(0.01) and not rounds.is_over():
            pass
        return usual(rounds, *arguments)

    monkeypatch.setattr(Rounds, "run_slice", gated)
    yield gate
    gate.set()


def fed(db: Database, batches: range) -> None:
    for batch in batches:
        db.insert("s", elements(range(batch, batch + 1)))


@pytest.mark.parametrize(
    ("text", "mode", "restart"), [(COUNTS, "eager", True), (COUNTS, "lazy", False), (PAIRS, "eager", False)]
)
def test_each_sees_what_was_kept_when_it_came(
    tmp_path: Path, opening: threading.Event, text: str, mode: str, restart: bool
) -> None:
    path = tmp_path / "db"
    kept: dict[str, int] = {}
    with ms.connect(path, engine="inprocess") as db:
        db.engine.backfills.first_slice = db.engine.backfills.most_left = 5
        db.execute("SET background_rows = 0; SET sharing = 'on'")
        db.execute(f"CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts RETAIN {RETAIN}")
        fed(db, range(10))
        for number in range(4):  # the first is worked at, the others wait for it together
            db.register_many(text, [number], [f"q{number}"], mode)
            kept[f"q{number}"] = db.query(f"q{number}").past.kept["s"]
            fed(db, range(10 + number, 11 + number))
        assert [*kept.values()] == [98 + 10 * number - RETAIN for number in range(4)]
        if not restart:
            opening.set()
            check(db, text, kept, 138)
    opening.set()
    with ms.connect(path, engine="inprocess") as db:
        check(db, text, kept, 138)
        fed(db, range(14, 18))
        check(db, text, kept, 178)


def check(db: Database, text: str, kept: dict[str, int], final: int) -> None:
    for number, (name, first) in enumerate(kept.items()):
        query = db.query(name)
        assert query.result().to_pylist() == expected(text, number, first, final), name
        assert f"begins at {first} (RETAIN)" in query.notices[0]
