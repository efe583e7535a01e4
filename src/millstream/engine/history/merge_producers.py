"""Queries that come late to a producer that others read: theirs and the one that runs become one (`producers`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from millstream.engine.epochs.task import EpochOutcome
from millstream.kernel.just_in_time.consumers import ASKED
from millstream.kernel.just_in_time.producers import OTHER, Producer
from millstream.kernel.pipeline import Pipeline, Step
from millstream.state.snapshot import Names, Snapshot

if TYPE_CHECKING:
    from millstream.engine.engine import Engine

Synopses = Mapping[str, Names]  # by shard and name


@dataclass
class Newcomers:
    """The plans of queries that come, the edges they show, and what they hold and show by what is committed."""

    pipeline: Pipeline
    shown: frozenset[str]
    states: dict[str, Synopses]
    results: dict[str, Names]
    written: list[str] = field(default_factory=list)  # all that was while they were united, needed or not

    def take(self, outcome: EpochOutcome) -> None:
        self.states |= outcome.states
        for edge, names in outcome.results.items():
            self.results[edge] = (*self.results.get(edge, ()), *names)


def unite(engine: Engine, new: Newcomers) -> Snapshot:
    """The committed snapshot, with producers that have made what they have made for those who come, as these have of
    theirs; a producer that was there holds what its new consumers ask by."""
    snapshot, known = engine.snapshot, {step.name for step in engine.pipeline.steps}
    for step in new.pipeline.steps:
        # Where all that reads it is there already, what is there goes on as it is.
        if step.name in known and _is_asked(step) and new.pipeline.downstream([step.name]) - known:
            snapshot = _united(engine, new, step, snapshot)
    return snapshot


def _is_asked(step: Step) -> bool:
    return isinstance(step.operator, Producer) and step.operator.asked is not None


def _united(engine: Engine, new: Newcomers, theirs: Step, snapshot: Snapshot) -> Snapshot:
    ours = next(step for step in engine.pipeline.steps if step.name == theirs.name)
    name = theirs.name
    our_state, their_state = snapshot.states.get(name, {}), new.states.get(name, {})
    if not our_state and not their_state:
        return snapshot
    of_sources = engine.frontiers(snapshot)
    frontiers = engine.pipeline.frontiers(of_sources) | new.pipeline.frontiers(of_sources)
    letting_in = "other" if _keep_alike(frontiers, ours, theirs) else "all"
    there = _Uniting(engine, new.pipeline, theirs, new.shown, letting_in)
    here = _Uniting(engine, engine.pipeline, ours, engine.shown_edges, letting_in)
    states = {**new.states, name: _with_other(their_state, our_state)}
    made = there.run(states, {name, *new.pipeline.downstream([name])}, new.written)
    new.take(made)
    states = {**snapshot.states, name: _with_other(our_state, their_state)}
    concerned = {name}
    outcome = here.run(states, concerned, new.written)
    if outcome.rows.get(name):  # which is seldom, and then others may be many
        concerned |= engine.pipeline.downstream([name])
        outcome = here.run(states, concerned, new.written)
    snapshot = engine.after(snapshot, outcome, concerned)
    asked = {each: names for each, names in made.states.get(name, {}).items() if _synopsis(each).startswith(ASKED)}
    return snapshot.with_states({name: {**asked, **snapshot.states.get(name, {})}})


def _keep_alike(frontiers: Mapping[str, int], ours: Step, theirs: Step) -> bool:
    """Whether both keep rows for as long: until no input can reach them any more, nor what is asked by."""
    furthest = max(frontiers[edge] for edge in ours.inputs)
    least = {min([furthest, *(frontiers[edge] for edge in step.asked)]) for step in (ours, theirs)}
    return len(least) == 1


def _with_other(state: Synopses, other: Synopses) -> Synopses:
    """A state, with another one beside it under names of its own."""
    beside = {f"{each.partition('/')[0]}/{OTHER}{_synopsis(each)}": names for each, names in other.items()}
    return {**state, **beside}


def _synopsis(name: str) -> str:
    """Its name without the shard's."""
    return name.partition("/")[2]


@dataclass(frozen=True)
class _Uniting:
    """One of two producers, in the pipeline that it is a step of; `shown` are the edges whose rows are kept there."""

    engine: Engine
    pipeline: Pipeline
    step: Step
    shown: Collection[str]
    letting_in: str

    def run(self, states: Mapping[str, Synopses], concerned: set[str], written: list[str]) -> EpochOutcome:
        """A step in which it lets rows in, and of others that read it; time does not pass. What is written is noted."""
        if not isinstance(self.step.operator, Producer):
            raise AssertionError(f"{self.step.name} is no producer")
        uniting = replace(self.step, operator=self.step.operator.uniting(self.letting_in))
        frontiers = self.engine.frontiers()
        task = replace(
            self.engine.task_of(self.pipeline.replacing((uniting,)), {}),
            concerned=frozenset(concerned),
            states={each: synopses for each, synopses in states.items() if each in concerned},
            before=frontiers,
            after=frontiers,
            shown=tuple(edge for edge in self.shown if edge in concerned),
        )
        outcome = self.engine.runner.run(task)
        written += outcome.names()
        if outcome.failures:
            raise next(iter(outcome.failures.values()))
        return outcome
