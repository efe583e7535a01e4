"""Queries that come late answer as those that were there first, however their past is cut into slices, and whatever
comes in between: rows, other queries, drops, restarts."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.cases import Case, Drop, Register
from tests.properties.generate import cases
from tests.properties.queries import LINEAR, RELATIONAL, Profile
from tests.properties.slice_by_slice import SliceBySlice

import millstream as ms
from millstream.database import Database
from millstream.engine.history.backfill import Backfills


@pytest.fixture(autouse=True)
def no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backfills, "start", lambda _: None)


def check(path: Path | None, case: Case, steps: list[tuple[int, bool]], mode: str) -> None:
    if path is not None:
        shutil.rmtree(path, ignore_errors=True)
    both = SliceBySlice(path, case.probes)
    both.define([*case.definitions, "SET background_rows = 0"])
    every: dict[str, str] = {}
    for number, action in enumerate(case.actions):
        match action:
            case Register() if _registered(both.db, action, mode):
                both.oracle.execute(str(action))
                both.queries[action.query] = action.text
            case Register():
                continue
            case Drop() if action.query not in both.queries:
                continue
            case _:
                both.perform(action)
        slices, restarts = steps[number % len(steps)]
        if restarts:
            both.restart()
        both.go_on(slices)
        every, both.queries = both.queries, both.answering
        both.check_step(number)
        both.queries = every
    both.finish()
    both.check_end()
    both.db.close()


def _registered(db: Database, action: Register, mode: str) -> bool:
    try:
        db.register(action.text, name=action.query, mode=mode)
    except ms.BindError as error:
        if "strategy 'direct'" not in str(error):
            raise
        return False
    return True


STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9).map(lambda n: n == 0)), min_size=1, max_size=6)
PROFILES = pytest.mark.parametrize("profile", [LINEAR, RELATIONAL], ids=["linear", "relational"])


def check_many(path: Path | None, profile: Profile, examples: int) -> None:
    @settings(max_examples=examples)
    @given(cases(profile), STEPS, st.sampled_from(["auto", "on"]), st.sampled_from(["eager", "lazy"]))
    def run(case: Case, steps: list[tuple[int, bool]], sharing: str, mode: str) -> None:
        check(path, replace(case, definitions=(*case.definitions, f"SET sharing = '{sharing}'")), steps, mode)

    run()


@PROFILES
def test_the_past_in_slices(profile: Profile) -> None:
    check_many(None, profile, 15)


@PROFILES
def test_the_past_in_slices_with_restarts(tmp_path_factory: pytest.TempPathFactory, profile: Profile) -> None:
    check_many(tmp_path_factory.mktemp("backfill") / "db", profile, 5)


@pytest.mark.slow
@PROFILES
def test_the_past_in_slices_in_many_cases(tmp_path_factory: pytest.TempPathFactory, profile: Profile) -> None:
    check_many(None, profile, 1_000)
    check_many(tmp_path_factory.mktemp("backfill") / "db", profile, 500)
