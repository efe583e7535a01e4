"""Queries of an earlier version that this one cannot open: they are there as failed ones, with the reason.

Their entries stay in the catalog, so that a version that can open them does; what was kept for them is forgotten, since
it would not be kept up to date. They are dropped as others are.
"""

from __future__ import annotations

from sqlglot import exp

from millstream.catalog.entries import Entry
from millstream.engine.materialization import Answer, Span
from millstream.errors import ClosedError, Error, EvaluationError, SetupError, StateError, error_fields
from millstream.language.binder import BoundQuery
from millstream.plan import nodes as lo
from millstream.query import Query, QueryContext
from millstream.state.snapshot import Snapshot

FAILED = "failed"
# What an entry says of that which is kept for its query.
_OF_STATE = ("edge", "edges", "steps", "kept", "apart", "past", "notices", "replanned", "ordered")


def is_about_the_query(error: Exception) -> bool:
    """Whether other queries can be opened though this one could not: not where the surroundings are wrong."""
    return not isinstance(error, OSError | MemoryError | StateError | SetupError | ClosedError)


def without_state(entry: Entry, error: Exception | None = None) -> Entry:
    """The entry of a query of which nothing is kept any more, perhaps with why."""
    kept = {key: value for key, value in entry.items() if key not in (*_OF_STATE, FAILED)}
    return kept if error is None else {**kept, FAILED: error_fields(_reason(entry["shown"], error))}


def _reason(name: str, error: Exception) -> EvaluationError:
    if isinstance(error, EvaluationError):
        return error  # it fails on what is kept
    return EvaluationError(
        f'query "{name}" cannot be opened by this version',
        detail=str(error) if isinstance(error, Error) else repr(error),
        hint="drop it, and register it as this version has it",
    )


class Unopened:
    """What is kept for such a query: the reason."""

    edges: tuple[str, ...] = ()
    number: int | None = None
    inputs: frozenset[str] = frozenset()

    def __init__(self, entry: Entry) -> None:
        said = entry[FAILED]
        self._error = EvaluationError(said["primary"], detail=said.get("detail"), hint=said.get("hint"))

    def check(self) -> None:
        raise self._error

    def answer(self, span: Span, *, whole: bool = False) -> Answer:
        raise self._error

    def held(self, snapshot: Snapshot) -> int:
        return 0

    def notes(self) -> list[str]:
        return ["nothing is kept: this version cannot open it"]


class UnopenedQuery(Query):
    """Of which there is a name and a text."""

    def __init__(self, context: QueryContext, entry: Entry) -> None:
        nothing = BoundQuery(lo.OneRow(), (), None, (), exp.select("1"), frozenset())
        super().__init__(context, entry["shown"], entry["mode"], nothing, Unopened(entry))
        self._text: str = entry["text"]

    @property
    def cql(self) -> str:
        """As it was written."""
        return self._text

    @property
    def defaults(self) -> list[str]:
        return []

    @property
    def bound(self) -> BoundQuery:
        self.life.check()
        self.materialization.check()
        return self.common
