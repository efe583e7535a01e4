"""The outcome never depends on the number of shards: files and random cases on two and three of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.cql.runner import load, run
from tests.cql.subjects import EngineSubject
from tests.properties.driver import check_case
from tests.properties.generate import seeded_case
from tests.properties.queries import LINEAR, RELATIONAL, Profile
from tests.support.answers import table_of
from tests.support.combining import combine_always

import millstream as ms
from millstream.database import Database

TESTS = Path(__file__).parent.parent
FILES = sorted((TESTS / "cql").rglob("*.cql")) + sorted((TESTS / "properties" / "kept").glob("*.cql"))
CASES = [*((seed, LINEAR) for seed in range(20)), *((seed, RELATIONAL) for seed in range(60))]


def on_shards(shards: int) -> Database:
    db = ms.connect(engine="inprocess")
    db.execute(f"SET shards = {shards}")
    return db


@pytest.mark.parametrize(("shards", "strategy", "join_plan"), [(2, "upa", "tree"), (3, "negative", "eddy")])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_on_shards(
    path: Path, shards: int, strategy: str, join_plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shards == 2:
        combine_always(monkeypatch)
    with EngineSubject(strategy, shards, join_plan=join_plan) as opened:
        run(load(path), opened)


@pytest.mark.parametrize(("seed", "profile"), CASES, ids=[f"{profile.name}-{seed}" for seed, profile in CASES])
def test_a_case_on_shards(seed: int, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2 == 0:
        combine_always(monkeypatch)
    check_case(seeded_case(1000 + seed, profile), partial(on_shards, 2 + seed % 2))


@pytest.mark.parametrize("query", ["SELECT COUNT(*) AS n FROM S [RANGE 2]", "SELECT 0 AS n"])
def test_what_follows_from_nothing_is_said_once(query: str) -> None:
    with on_shards(3) as db:
        db.execute("CREATE STREAM S (a INT) TIMESTAMP BY ts")
        said = db.register(query)
        db.advance(to=5)
        assert said.result()["n"].to_pylist() == [0]
        assert table_of(db, query).num_rows == 1
        db.insert("S", [(1, 9)])
        db.advance(to=20)
        assert said.result()["n"].to_pylist() == [0]


def test_a_step_that_fails_on_one_shard_has_failed() -> None:
    with on_shards(3) as db:
        db.execute("CREATE STREAM S (k INT, a INT) TIMESTAMP BY ts")
        failing = db.register("SELECT x, COUNT(*) AS n FROM (SELECT k, 10 / SUM(a) AS x FROM S GROUP BY k) GROUP BY x")
        other = db.register("SELECT k, SUM(a) AS n FROM S GROUP BY k")
        db.insert("S", [(k, 0 if k == 7 else 1, k) for k in range(20)])
        db.advance(to=30)
        with pytest.raises(ms.EvaluationError, match="division by zero"):
            failing.result()
        assert other.result().num_rows == 20
        stored = db.engine.runner.store._frames  # type: ignore[attr-defined]
        assert set(stored) == set(db.engine.snapshot.names())
