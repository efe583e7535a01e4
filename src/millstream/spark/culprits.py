"""Finds the step whose code ends the process that runs it, so that its query can be stopped alone.

Spark tries a task again whose Python worker died, since workers die for many reasons. Work that kills every worker it
is given to would do so for ever, and with it all other queries of the epoch. So it is run once more with a trace
(`engine/traces`): a step at which processes died several times, and each time, is put aside as failed. Then
the rest runs without it. Nothing is put aside for a death that does not come again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path

from millstream.engine.epochs.stages import StagePlan
from millstream.engine.epochs.task import EpochWork, ShardOutcome
from millstream.engine.epochs.traces import deaths, forget
from millstream.errors import EvaluationError, StateError
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.scalar.functions_user import UserFunction

_CERTAIN = 3  # deaths at one step
_TRIES = 4  # where Spark itself does not try again


class WorkerDied(StateError):
    """A Python worker of Spark ended without a word, as often as Spark tried."""


def run_without_culprits(
    run: Callable[[EpochWork], list[ShardOutcome]], work: EpochWork, directory: Path
) -> list[ShardOutcome]:
    """What the steps do that can be run; those that kill their processes have failed."""
    culprits: dict[str, EvaluationError] = {}
    while True:
        suspected = replace(work, culprits=culprits)
        found = _run_traced(run, suspected, directory)
        if not isinstance(found, str):
            return [ShardOutcome(failures=dict(culprits)), *found]
        culprits[found] = _killed()


def _run_traced(
    run: Callable[[EpochWork], list[ShardOutcome]], work: EpochWork, directory: Path
) -> list[ShardOutcome] | str:
    """What is done, or the step that lets nothing be done."""
    prefix = str(directory.absolute() / f"trace-{uuid.uuid4().hex}")
    try:
        for last in (False,) * (_TRIES - 1) + (True,):
            try:
                return run(replace(work, trace=prefix))
            except WorkerDied:
                # Others may have been at work when the job was given up, but not again and again.
                [(step, times)] = deaths(prefix).most_common(1) or [("", 0)]
                if times >= _CERTAIN and step not in work.culprits:
                    return step
                if last:
                    raise
        raise AssertionError("the last try gives something or raises")
    finally:
        forget(prefix)


def _killed() -> EvaluationError:
    return EvaluationError(
        "the query ends the process that runs it",
        detail=f"Spark's Python worker died at it {_CERTAIN} times and more, each time",
        hint="look for functions in Python that exit, crash in native code, or take more memory than there is",
    )


@lru_cache(maxsize=64)
def has_user_code(plan: StagePlan) -> bool:
    """Whether a plan calls what users wrote: that is better not run by the driver."""
    seen: set[int] = set()
    return any(_calls_user_code(step.operator, seen) for stage in plan.stages for step in stage.steps)


def _calls_user_code(value: object, seen: set[int]) -> bool:
    if isinstance(value, UserFunction) or (isinstance(value, AggregateCall) and value.definition is not None):
        return True
    if id(value) in seen:
        return False
    seen.add(id(value))
    if isinstance(value, tuple | list):
        return any(_calls_user_code(part, seen) for part in value)
    if isinstance(value, dict):
        return any(_calls_user_code(part, seen) for part in value.values())
    if is_dataclass(value) and not isinstance(value, type):
        return any(_calls_user_code(getattr(value, part.name), seen) for part in fields(value))
    if type(value).__module__.startswith("millstream.") and hasattr(value, "__dict__"):
        return any(_calls_user_code(part, seen) for part in vars(value).values())
    return False
