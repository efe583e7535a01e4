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

import millstream as ms
from millstream.database import Database

TESTS = Path(__file__).parent.parent
FILES = sorted((TESTS / "cql").rglob("*.cql")) + sorted((TESTS / "properties" / "kept").glob("*.cql"))
CASES = [*((seed, LINEAR) for seed in range(40)), *((seed, RELATIONAL) for seed in range(120))]


def on_shards(shards: int) -> Database:
    db = ms.connect(engine="inprocess")
    db.execute(f"SET shards = {shards}")
    return db


@pytest.mark.parametrize(("shards", "strategy"), [(2, "upa"), (3, "negative")])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_on_shards(path: Path, shards: int, strategy: str) -> None:
    with EngineSubject(strategy, shards) as opened:
        run(load(path), opened)


@pytest.mark.parametrize(("seed", "profile"), CASES, ids=[f"{profile.name}-{seed}" for seed, profile in CASES])
def test_a_case_on_shards(seed: int, profile: Profile) -> None:
    check_case(seeded_case(1000 + seed, profile), partial(on_shards, 2 + seed % 2))
