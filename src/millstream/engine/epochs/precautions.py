"""What is done about steps that end the process that runs them, here in this process.

    step begins ──▶ its name is noted ──▶ the process dies ──▶ the next one reads the note: a suspect
    work with a suspect in it ──▶ tried in a child ──▶ the child dies at it, twice ──▶ put aside, and the rest is run

A step is a suspect because a process ended while it ran, which may have had any other reason: so nothing is put aside
for that alone. The same work is first done by a child, which reads the same files and rows and keeps nothing. A step at
which the child dies twice has failed, as if it had raised. One that survives often enough is no suspect any more: each
further death of the process makes that ten times as often. Merges are steps in this sense, but nobody needs them: one
that has ended a process and its children is left undone.

What is no step cannot be tried by a child: to open a query, to read what a sink is to be given, to have the past of a
query take part. It is noted as well, since the next process does it again, and refused when three processes in a row
have ended there, with nothing done between.
"""

from __future__ import annotations

import logging
import os
import pickle
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from millstream.engine.epochs.caution import Culprits, Trial, TriedWork
from millstream.engine.epochs.workers import WorkerProcess
from millstream.errors import EvaluationError, StateError
from millstream.kernel.stepping import noted_by
from millstream.state.running import RUNNING, RunningSteps, Suspects, steps_in

_CERTAIN = 2  # deaths of a child at one step
_IN_A_ROW = 3  # deaths of processes at something that cannot be tried
_TRIES = 6  # of one piece of work, until one step has so many
_SHOWN = 80  # characters of a name
ENDED = "the query ends the process that runs it"
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Precautions:
    """Of one process with one database."""

    directory: Path
    dumps: Callable[[object], bytes] = pickle.dumps

    def __post_init__(self) -> None:
        self._running: RunningSteps | None = None
        self._suspects: Suspects | None = None
        self._survived: Counter[str] = Counter()
        self._child: WorkerProcess | None = None
        self._lock = threading.Lock()  # there is one child
        self._put_aside = False

    def open(self) -> None:
        """Read what the process before this one was at, and note what this one is."""
        self._suspects = Suspects(self.directory)
        if self._suspects.deaths:
            _log.warning("a process ended while it was at %s: that is looked after", ", ".join(self._suspects.deaths))
        try:
            self._running = RunningSteps(self.directory / RUNNING)
        except OSError as error:
            _log.warning("what is run cannot be noted in %s: %s", self.directory, error.strerror)

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
        if self._running is not None:
            self._running.forget()
            self._running.close()

    @contextmanager
    def noted(self) -> Iterator[None]:
        """The steps that this thread runs within the block are noted."""
        if self._running is None:
            yield
            return
        with self._running.place() as at, noted_by(at):
            yield

    def suspected(self, steps: Iterable[str]) -> set[str]:
        """Those of some steps that are better tried first."""
        if self._suspects is None or not self._suspects.deaths:
            return set()
        return self._suspects.deaths.keys() & {*steps}

    def culprits(self, steps: Iterable[str], work: Callable[[], TriedWork]) -> dict[str, EvaluationError]:
        """The steps of a piece of work that end the process which runs them: it is tried where there is a suspect."""
        found: dict[str, EvaluationError] = {}
        suspected = self.suspected(steps)
        if not suspected or self._suspects is None:
            return found
        tried, deaths = work(), self._suspects.deaths
        with self._lock:
            while (step := self._culprit(tried, found)) is not None:
                _log.error("the step %s ends the process that runs it: queries that need it are put aside", step)
                found[step] = _ended()
                deaths[step] = deaths.get(step, 0) + 1
                self._suspects.keep()
                self._put_aside = True
        self.survived(suspected - found.keys())
        return found

    def given_up(self, names: Iterable[str]) -> dict[str, EvaluationError]:
        """Of things that are better left undone, those that were found to end the process before."""
        deaths = {} if self._suspects is None else self._suspects.deaths
        return {name: _ended() for name in names if deaths and deaths.get(name, 0) >= _CERTAIN}

    @contextmanager
    def guarded(self, what: str, text: str = "") -> Iterator[None]:
        """Something that is no step, and is done again by the next process: noted while the block is run, and refused
        where several processes in a row have ended at it, of that text."""
        if self._running is None or self._suspects is None:
            yield
            return
        name = _named(what, text)
        times = self._suspects.deaths.get(name, 0)
        if times >= _IN_A_ROW:
            raise EvaluationError(
                f"{what} ends the process that is at it",
                detail=f"{times} processes have ended there, one after the other",
                hint="look whether there is memory enough; to have it tried again, close the database and remove "
                "suspects.json from its directory",
            )
        try:
            with self._running.place() as at:
                at(name)
                yield
        finally:
            self.forgive(what, text)

    def forgive(self, what: str, text: str = "") -> None:
        """It is to be tried again, whatever happened."""
        suspects = self._suspects
        if suspects is not None and suspects.deaths and suspects.deaths.pop(_named(what, text), None) is not None:
            suspects.keep()

    def has_put_aside(self) -> bool:
        """Whether steps were put aside since this was asked last."""
        before, self._put_aside = self._put_aside, False
        return before

    def survived(self, steps: Iterable[str]) -> None:
        """Some steps have been run once without anything happening."""
        suspects, lifted = self._suspects, False
        for step in steps if suspects is not None else ():
            self._survived[step] += 1
            if suspects is not None and self._survived[step] >= 10 ** min(suspects.deaths.get(step, 0), 6):
                suspects.deaths.pop(step, None)
                lifted = True
        if lifted and suspects is not None:
            suspects.keep()

    def _culprit(self, work: TriedWork, found: Culprits) -> str | None:
        """The step that lets a child not live; None where it does the work."""
        deaths: Counter[str] = Counter()
        for _ in range(_TRIES):
            died_at = self._tried(work, found)
            if died_at is None:
                return None
            deaths[died_at] += 1
            step, times = deaths.most_common(1)[0]
            if times >= _CERTAIN and step and step not in found:
                return step
        raise StateError(
            "the process that tried this first has died, again and again",
            detail="it was at " + ", ".join(step or "no step" for step in deaths),
            hint="a process ended at this work before; look whether there is memory enough",
        )

    def _tried(self, work: TriedWork, found: Culprits) -> str | None:
        """Where a child died that did the work, or None."""
        note, path = tempfile.mkstemp(prefix="millstream-trial-")
        os.close(note)
        try:
            child = self._child = self._child or WorkerProcess(0)
            answer = child.ask(self.dumps(Trial(work, dict(found), Path(path))))
            if answer is not None:
                return None  # done, or refused for a reason that is found again here
            is_new = not child.was_ready
            child.close()
            self._child = None
            if is_new:
                raise StateError("no process could be started to try what ended one before")
            return next(iter(steps_in(Path(path))), "")
        finally:
            Path(path).unlink(missing_ok=True)


def _named(what: str, text: str) -> str:
    """As it is noted: short, whatever its name is, and another one for another text."""
    digest = blake2b(f"{what}\n{text}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{what[:_SHOWN]} {digest}"


def _ended() -> EvaluationError:
    return EvaluationError(
        ENDED,
        detail="a process ended at it before, and each child process that tried it",
        hint="look for functions in Python that exit, crash in native code, or take more memory than there is",
    )
