"""One class tree for everything a user can do wrong.

An error has a primary line (lower case, no full stop), an optional detail, an optional hint that says what to do,
and, where it comes from a query text, the place in that text. `str(error)` shows all of it, with a caret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

_SHOWN = 500  # characters of a line before and behind a place


@dataclass(frozen=True)
class Place:
    """A span of a text: characters start to end (exclusive)."""

    text: str
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        return self.start - (self.text.rfind("\n", 0, self.start) + 1) + 1

    def render(self) -> str:
        """The line of the text with carets below the span (cut where the span runs into the next line)."""
        line_start = self.text.rfind("\n", 0, self.start) + 1
        line_end = self.text.find("\n", self.start)
        line_end = len(self.text) if line_end < 0 else line_end
        # Of lines that no screen shows only what is around the place.
        before, after = max(line_start, self.start - _SHOWN), min(line_end, self.start + _SHOWN)
        is_cut = line_end - line_start > 2 * _SHOWN
        start, end = (before, after) if is_cut else (line_start, line_end)
        source = self.text[start:end]
        prefix, suffix = ".. " if start > line_start else "", " .." if end < line_end else ""
        # Tabs are kept in the padding so that the carets stay below the span however wide the terminal shows them.
        padding = "".join("\t" if character == "\t" else " " for character in prefix + source[: self.start - start])
        carets = "^" * max(1, min(self.end, end) - self.start)
        return f"line {self.line}, column {self.column}:\n  {prefix}{source}{suffix}\n  {padding}{carets}"


class Error(Exception):
    """Base of all errors that Millstream raises on purpose."""

    def __init__(
        self, primary: str, *, detail: str | None = None, hint: str | None = None, place: Place | None = None
    ) -> None:
        super().__init__(primary)
        self.primary = primary
        self.detail = detail
        self.hint = hint
        self.place = place

    def __str__(self) -> str:
        lines = [self.primary]
        if self.place is not None:
            lines.append(self.place.render())
        if self.detail:
            lines.append(f"detail: {self.detail}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel from Spark's Python workers to the driver; keyword-only arguments need help to be pickled.
        return (_restore, (type(self), self.primary, self.detail, self.hint, self.place))


def _restore(kind: type[Error], primary: str, detail: str | None, hint: str | None, place: Place | None) -> Error:
    return kind(primary, detail=detail, hint=hint, place=place)


class StatementError(Error):
    """The text of a statement or query is wrong."""


class SyntaxError(StatementError):  # noqa: A001 - `ms.SyntaxError` is what users look for
    """The text does not follow the grammar."""


class BindError(StatementError):
    """The text parses, but does not make sense: names, types, kinds, windows."""


class NameError(BindError):  # noqa: A001 - as above
    """A stream, table, view, query, column or function that is not there, or is ambiguous."""


class TypeError(BindError):  # noqa: A001 - as above
    """An expression or value of the wrong type."""


class CatalogError(Error):
    """The statement clashes with what the database holds: duplicate names, objects in use."""


class InputError(Error):
    """Rows, timestamps or heartbeats that cannot be accepted; nothing of the insert was taken."""


class ConstraintError(InputError):
    """A row contradicts what was declared: its key is there already, or a column that is NOT NULL is."""


class TimeError(Error):
    """An instant that is not final yet, or no longer kept."""


class EvaluationError(Error):
    """A query failed on its data: division by zero, overflow, a failed cast, a function that raised."""


class NotSupportedError(Error):
    """Valid, but this version cannot run it."""


class SetupError(Error):
    """The surroundings are wrong: no Java, a Spark session of the wrong kind."""


class StateError(Error):
    """The database directory cannot be used or written: locked, damaged, of another format, on a full disk."""


class ClosedError(Error):
    """The database, or the query, is closed."""


class AccessError(Error):
    """A service does not let the caller do this: no token, an unknown one, or one for less."""


class LimitError(Error):
    """A limit: too many requests at a time, or one that takes too long."""


class TooLargeError(LimitError):
    """What is sent, or an answer, is larger than it may be."""


class CancelledError(LimitError):
    """Work that was ended before it was done: by somebody, or because nobody waited for it any more."""


class ServiceError(Error):
    """A service cannot be reached, or does not answer as one of this version would."""


def error_fields(error: Error) -> dict[str, str]:
    """What an error says, as it is kept."""
    parts = {"primary": error.primary, "detail": error.detail, "hint": error.hint}
    return {name: text for name, text in parts.items() if text}


def did_you_mean(name: str, known: Iterable[str], listed: Iterable[str] = ()) -> str | None:
    """A hint that names what is near to a misspelt name, or lists what there is when nothing is: those of the `listed`
    first."""
    by_key = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), list(by_key), n=1, cutoff=0.6)
    if near:
        return f'did you mean "{by_key[near[0]]}"?'
    if not by_key:
        return None
    first = {*listed}
    names = sorted(by_key.values(), key=lambda known: (known not in first, known))
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"there are: {shown}"
