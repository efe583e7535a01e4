"""The shared plan: the steps that run in every epoch, and how many queries show which of their edges."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from millstream.engine.sources import Sources
from millstream.errors import EvaluationError, error_fields
from millstream.kernel.pipeline import Pipeline, Step


class SharedPlan:
    """One pipeline for all queries. It changes between epochs, under the lock.

    What a change costs goes by the steps that come or go, and not by those that are there: the pipeline is made when it
    is next needed.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._steps: dict[str, Step] = {}
        self._failed: dict[str, Step] = {}  # which run no more, and are there until nobody shows them
        self._users: dict[str, set[str]] = {}  # per edge: the steps that are made from it
        self._pipeline: Pipeline | None = Pipeline()
        self._changes, self._is_known = 0, threading.Lock()  # how often steps have come or gone
        self.shown: Counter[str] = Counter()  # per edge: by how many queries

    @property
    def pipeline(self) -> Pipeline:
        found, changes = self._pipeline, self._changes
        if found is None:
            found = Pipeline(tuple(self._steps.values()))
            with self._is_known:  # whoever reads it without the lock must not put back what has changed meanwhile
                self._pipeline = found if changes == self._changes else self._pipeline
        return found

    def _change(self) -> None:
        with self._is_known:
            self._changes += 1
            self._pipeline = None

    def __contains__(self, step: str) -> bool:
        return step in self._steps

    def __len__(self) -> int:
        return len(self._steps) + len(self._failed)

    def names(self) -> list[str]:
        """Of all steps, whether they run or have failed."""
        return [*self._steps, *self._failed]

    @property
    def failed(self) -> list[Step]:
        """Those that run no more, though queries show them."""
        return [*self._failed.values()]

    def add(self, steps: Sequence[Step], failed: Collection[str] = ()) -> None:
        """Steps take part; those that are there already stay. Some have failed."""
        for step in steps:
            if step.name in failed:
                self._failed.setdefault(step.name, step)
                self._use(step)
        self.put([step for step in steps if step.name not in self._steps and step.name not in failed])

    def put(self, steps: Sequence[Step]) -> None:
        """Steps take part, in place of those of the same names."""
        for step in steps:
            known = self._steps.get(step.name)
            if known is step:
                continue
            if known is not None:
                self._leave(known)
            self._steps[step.name] = step
            self._use(step)
            self._change()

    def fail(self, steps: Iterable[str]) -> None:
        """Steps run no more."""
        for name in steps:
            if name in self._steps:
                self._failed[name] = self._steps.pop(name)
                self._change()

    def remove(self, steps: Iterable[str]) -> None:
        """Steps are gone."""
        for name in steps:
            for found in (self._steps.pop(name, None), self._failed.pop(name, None)):
                if found is not None:
                    self._leave(found)
                    self._change()

    def _use(self, step: Step) -> None:
        for edge in step.needed:
            self._users.setdefault(edge, set()).add(step.name)

    def _leave(self, step: Step) -> None:
        for edge in step.needed:
            users = self._users.get(edge, set())
            users.discard(step.name)
            if not users:
                self._users.pop(edge, None)

    def steps_only_for(self, *edges: str) -> set[str]:
        """Edges and the steps below them that no other edge needs that is shown."""
        found, waiting = set[str](), [*edges]
        while waiting:
            current = waiting.pop()
            is_shown = current not in edges and self.shown[current] > 0
            if current in found or current in self._sources or is_shown or self._users.get(current, set()) - found:
                continue  # where one that is looked at later is its last user, it is looked at again then
            found.add(current)
            step = self._steps.get(current) or self._failed.get(current)
            waiting.extend(step.needed if step is not None else ())
        return found

    def needed(self, shown: Iterable[str], others: Iterable[Step]) -> set[str]:
        """What edges are made of, where steps of groups of which no query takes part yet count as well."""
        return self.pipeline.with_steps(Pipeline(tuple(others)).steps).edges_below(*shown)

    def keep_only(self, steps: Collection[str]) -> None:
        self.remove([name for name in (*self._steps, *self._failed) if name not in steps])

    def failed_steps(self, failures: Mapping[str, EvaluationError]) -> dict[str, dict[str, str]]:
        """What the failed steps, and all that read them, say from now on."""
        found: dict[str, dict[str, str]] = {}
        for step in self.pipeline.steps if failures else ():
            broken = [found[edge] for edge in step.needed if edge in found]
            if step.name in failures:
                found[step.name] = error_fields(failures[step.name])
            elif broken:
                found[step.name] = broken[0]
        return found
