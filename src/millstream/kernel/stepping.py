"""A step, and what becomes of it when it raises.

What an operator raises on its data is the failure of those who read it, whatever it is: a query must not stop the
others. What says nothing about the data (files, memory, state that cannot be read, interrupts, nobody who wants it)
fails the epoch, which is tried again; no query is marked by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import polars as pl

from millstream.errors import CancelledError, Error, EvaluationError, StateError
from millstream.kernel.batch import Batch
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.step_limits import begin_step, end_step

_SURROUNDINGS = (StateError, CancelledError, OSError, MemoryError)
_NO_MEMORY = "_ArrayMemoryError"  # NumPy's, which Polars passes on as an error in making it
_note: ContextVar[Callable[[str], None] | None] = ContextVar("note", default=None)


@contextmanager
def noted_by(note: Callable[[str], None]) -> Iterator[None]:
    """Before each step that this thread runs within the block, `note` is told its name."""
    before = _note.set(note)
    try:
        yield
    finally:
        _note.reset(before)


def note_step(name: str) -> None:
    """Have it noted that this thread begins something by that name."""
    note = _note.get()
    if note is not None and name:
        note(name)


def stepped(
    operator: Operator, inputs: Sequence[Batch], state: State, progress: Progress, name: str = ""
) -> tuple[Batch, State]:
    """One step of an operator, which raises only EvaluationError of its own."""
    begun = begin_step()
    try:
        note_step(name)
        return _attempted(operator, inputs, state, progress, name)
    finally:
        end_step(begun)


def _attempted(
    operator: Operator, inputs: Sequence[Batch], state: State, progress: Progress, name: str
) -> tuple[Batch, State]:
    try:
        return operator.step(inputs, state, progress)
    except (EvaluationError, *_SURROUNDINGS):
        raise
    except Error as error:
        raise EvaluationError(error.primary, detail=error.detail, hint=error.hint) from error
    except (Exception, pl.exceptions.PanicException) as error:
        if _NO_MEMORY in str(error):
            raise MemoryError(str(error)) from error
        shown = f"{type(operator).__name__} ({name})" if name else type(operator).__name__
        reason = str(error).partition("\n")[0]
        raise EvaluationError(
            f"the operator {shown} failed on its data",
            detail=f"{type(error).__name__}: {reason}" if reason else type(error).__name__,
            hint="drop the query, and report what it was asked",
        ) from error
