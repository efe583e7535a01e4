"""What runners ask of whoever knows what ended the process before this one (`precautions`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from millstream.engine.epochs.merging import Merge, perform
from millstream.engine.epochs.stages import StagePlanner
from millstream.engine.epochs.task import EpochTask, prepare, run_here
from millstream.errors import EvaluationError
from millstream.kernel.stepping import noted_by
from millstream.state.running import RunningSteps
from millstream.state.scratch import ScratchStore

Culprits = Mapping[str, EvaluationError]
_POOL = 64 << 20  # bytes of segments that a child remembers


class TriedWork(Protocol):
    """A piece of work, as a child process does it, which keeps nothing of it."""

    def do(self, culprits: Culprits) -> None: ...


class Caution(Protocol):
    """Notes the steps that are run, and has work tried first that has a step in it at which a process ended before."""

    def noted(self) -> AbstractContextManager[None]:
        """The steps that this thread runs within the block are noted."""
        ...

    def suspected(self, steps: Iterable[str]) -> set[str]:
        """Those of some steps that are better tried first."""
        ...

    def culprits(self, steps: Iterable[str], work: Callable[[], TriedWork]) -> dict[str, EvaluationError]:
        """The steps of a piece of work that end the process which runs them."""
        ...

    def given_up(self, names: Iterable[str]) -> dict[str, EvaluationError]:
        """Of things that are better left undone, those that were found to end the process before."""
        ...

    def guarded(self, what: str, text: str = "") -> AbstractContextManager[None]:
        """Something that is no step, and is done again by the next process: noted while the block is run, and refused
        where several processes in a row have ended at it, of that text."""
        ...

    def forgive(self, what: str, text: str = "") -> None:
        """It is to be tried again, whatever happened."""
        ...

    def survived(self, steps: Iterable[str]) -> None:
        """Some steps have been run elsewhere without anything happening."""
        ...

    def has_put_aside(self) -> bool:
        """Whether steps were put aside since this was asked last."""
        ...


class NoCaution:
    """Of a database that ends with its process."""

    def noted(self) -> AbstractContextManager[None]:
        return nullcontext()

    def suspected(self, steps: Iterable[str]) -> set[str]:
        return set()

    def culprits(self, steps: Iterable[str], work: Callable[[], TriedWork]) -> dict[str, EvaluationError]:
        return {}

    def given_up(self, names: Iterable[str]) -> dict[str, EvaluationError]:
        return {}

    def guarded(self, what: str, text: str = "") -> AbstractContextManager[None]:
        return nullcontext()

    def forgive(self, what: str, text: str = "") -> None:
        """Nothing is held against anybody."""

    def survived(self, steps: Iterable[str]) -> None:
        """Nobody asks."""

    def has_put_aside(self) -> bool:
        return False


@dataclass(frozen=True)
class Trial:
    """What a child is asked to try, and where it says which step it is at."""

    work: TriedWork
    culprits: dict[str, EvaluationError]
    note: Path

    def do(self) -> None:
        running = RunningSteps(self.note)
        try:
            with running.place() as at, noted_by(at):
                self.work.do(self.culprits)
        finally:
            running.close()


@dataclass(frozen=True)
class TriedTask:
    """The work of an epoch, or of a slice of a backfill."""

    directory: Path
    task: EpochTask
    shards: int
    tasks: int

    def do(self, culprits: Culprits) -> None:
        plan, work = prepare(self.task, StagePlanner(self.shards))
        run_here(plan, work.without(culprits), self.tasks, ScratchStore(self.directory, _POOL))


@dataclass(frozen=True)
class TriedMerges:
    """Merges that are done beside the epochs."""

    directory: Path
    merges: tuple[Merge, ...]

    def do(self, culprits: Culprits) -> None:
        store = ScratchStore(self.directory)
        with store.file("trial") as writer:
            for merge in self.merges:
                if merge.name not in culprits:
                    perform(merge, store, writer, 0)
