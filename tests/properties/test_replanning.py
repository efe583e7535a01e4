"""Queries that move to other plans at any epoch answer as the oracle does: alone and in groups, in all modes, whatever
comes while they are on their way, rows, other queries, drops or restarts, and however the past is cut into slices."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.cases import Case, Drop, Register
from tests.properties.generate import cases
from tests.properties.join_cases import joins
from tests.properties.queries import RELATIONAL
from tests.properties.slice_by_slice import SliceBySlice

import millstream as ms
from millstream.catalog.entries import Entry, statistics_entry
from millstream.engine.groups.group import Group
from millstream.engine.history.backfill import Backfills
from millstream.engine.past import Past
from millstream.language.type_names import stored_text
from millstream.plan.cost import SourceStatistics
from millstream.plan.rules.context import JoinChoice
from millstream.queries import sharing_choice
from millstream.queries.group_replanning import GroupReplanning
from millstream.queries.planner import Planned
from millstream.queries.registration import statement_of
from millstream.queries.replanning import Replanning
from millstream.queries.templates import GroupTemplate


@dataclass(frozen=True)
class Step:
    """What is done after an action: so many slices of moves that are under way, perhaps a restart before, for which
    plan each query is to leave, and whether with the state that it has, as where history is not enough, or by a
    setting, or whether it is to leave its group."""

    slices: int
    restarts: bool
    keys: int | None  # distinct values of every column; None where queries stay
    join_plan: str
    jit: str
    by_state: bool
    by_setting: bool  # they leave because a setting is another one for what runs
    leaves_group: bool  # before all that: whoever is in a group gets a plan of its own


STEPS = st.lists(
    st.builds(
        Step,
        st.integers(0, 4),
        st.integers(0, 9).map(lambda n: n == 0),
        st.sampled_from([None, 1, 1, 1000, 1000]),
        st.sampled_from(["auto", "tree", "eddy"]),
        st.sampled_from(["auto", "on", "off"]),
        st.booleans(),
        st.integers(0, 3).map(lambda n: n == 0),
        st.integers(0, 3).map(lambda n: n == 0),
    ),
    min_size=1,
    max_size=6,
)


class Moving(SliceBySlice):
    """A database whose queries move when they are told to."""

    moved = 0

    def leave(self, step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
        if step.leaves_group:
            leaving = self.db._queries.replanning.leaving
            self.moved += sum(leaving.leave(query, "told to", weighed=False) for query in self.db.queries())
        if step.keys is None:
            return
        for group in [*self.db.engine.groups]:
            self.moved += self.db._queries.replanning.gather(group)
        if step.by_setting:
            self._leave_by_setting(step)
            return

        def planned(replanning: Replanning, entry: Entry, statistics: Any) -> Planned:
            found = replace(replanning._session.settings_of(entry), join_plan=step.join_plan, jit=step.jit)
            width = {source: len(self.db.engine.sources.schema(source)) for source in self.db.engine.sources}
            known = {
                s: SourceStatistics(float(step.keys or 1), 100, (float(step.keys or 1),) * n) for s, n in width.items()
            }
            with stored_text():
                return replanning._planner.under(found).plan(
                    entry["text"], statement_of(entry["text"]).query, statistics=statistics_entry(known)
                )

        def planned_core(replanning: GroupReplanning, group: Group, found: JoinChoice, statistics: Any) -> Any:
            known = {
                source: SourceStatistics(float(step.keys or 1), 100, (float(step.keys or 1),) * 9)
                for source in self.db.engine.sources
            }
            return usual(replanning, group, replace(found, join_plan=step.join_plan, jit=step.jit), known)

        usual = GroupReplanning._planned
        with monkeypatch.context() as patching:
            patching.setattr(Replanning, "_planned", planned)
            patching.setattr(GroupReplanning, "_planned", planned_core)
            if step.by_state:
                for kind in (Replanning, GroupReplanning):
                    patching.setattr(kind, "_past", lambda *_: (Past(), "history is not to be asked"))
            replanning = self.db._queries.replanning
            replanning.margin = 0
            for query in self.db.queries():
                self.moved += replanning.consider(query, {})

    def _leave_by_setting(self, step: Step) -> None:
        replanning = self.db._queries.replanning
        for name, value in (("join_plan", step.join_plan), ("jit", step.jit)):
            for query in self.db.queries():
                if isinstance(query.template, GroupTemplate):
                    said = replanning.change_group(query.template.group, name, value)
                else:
                    said = replanning.change_setting(query, name, value)
                self.moved += not said.startswith("stays")


def check(
    path: Path | None,
    case: Case,
    steps: list[Step],
    rows: int,
    monkeypatch: pytest.MonkeyPatch,
    modes: tuple[str, ...] = ("eager",),
    sharing: str = "auto",
    shards: int = 1,
) -> int:
    """Each query is registered once for each of some modes."""
    monkeypatch.setattr(Backfills, "start", lambda _: None)
    monkeypatch.setattr(sharing_choice, "ENOUGH_TO_SHARE", 2)
    if path is not None:
        shutil.rmtree(path, ignore_errors=True)
    both = Moving(path, case.probes)
    settings_of_case = [f"SET shards = {shards}", f"SET sharing = '{sharing}'", f"SET background_rows = {rows}"]
    both.define([*case.definitions, *settings_of_case])
    for number, action in enumerate(case.actions):
        match action:
            case Register():
                for mode in modes:
                    _register(both, replace(action, query=_name(action.query, mode)), mode)
            case Drop():
                for mode in modes:
                    both.perform(replace(action, query=_name(action.query, mode)))
            case _:
                both.perform(action)
        step = steps[number % len(steps)]
        if step.restarts:
            both.restart()
        both.leave(step, monkeypatch)
        both.go_on(step.slices)
        every, both.queries = both.queries, both.answering
        both.check_step(number)
        both.queries = every
    both.finish()
    both.check_end()
    both.db.close()
    return both.moved


def _name(query: str, mode: str) -> str:
    return query if mode == "eager" else f"{query}_{mode}"


def _register(both: Moving, action: Register, mode: str) -> None:
    try:
        both.db.register(action.text, name=action.query, mode=mode)
    except ms.BindError as error:
        if "strategy 'direct'" not in str(error):
            raise
        return
    both.oracle.execute(str(action))
    both.queries[action.query] = action.text


MODES = [("eager",), ("eager",), ("eager", "lazy"), ("lazy",), ("none", "lazy")]


def check_many(path: Path | None, made: st.SearchStrategy[Case], examples: int) -> None:
    @settings(max_examples=examples)
    @given(
        made,
        STEPS,
        st.sampled_from([0, 0, 1_000]),
        st.sampled_from(MODES),
        st.sampled_from(["on", "auto"]),
        st.integers(1, 3),
    )
    def run(case: Case, steps: list[Step], rows: int, modes: tuple[str, ...], sharing: str, shards: int) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            check(path, case, steps, rows, monkeypatch, modes, sharing, shards)

    run()


CASES = pytest.mark.parametrize("made", [joins(RELATIONAL), cases(RELATIONAL)], ids=["joins", "relational"])


@CASES
def test_plans_change_at_any_epoch(made: st.SearchStrategy[Case]) -> None:
    check_many(None, made, 25)


@CASES
def test_plans_change_with_restarts(tmp_path_factory: pytest.TempPathFactory, made: st.SearchStrategy[Case]) -> None:
    check_many(tmp_path_factory.mktemp("replanning") / "db", made, 5)


@pytest.mark.slow
@CASES
def test_plans_change_in_many_cases(tmp_path_factory: pytest.TempPathFactory, made: st.SearchStrategy[Case]) -> None:
    check_many(None, made, 1_000)
    check_many(tmp_path_factory.mktemp("replanning") / "db", made, 300)
