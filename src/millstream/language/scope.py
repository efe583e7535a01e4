"""Names in scope: the FROM items of a query, and those of the query around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from millstream.errors import BindError, NameError, NotSupportedError, Place, did_you_mean
from millstream.kernel.scalar.expressions import Column, Expression
from millstream.kernel.scalar.functions import REFUSED, hint_instead
from millstream.language.syntax import STREAM_OPERATORS
from millstream.plan.analysis.depth import MAX_DEPTH, too_deep
from millstream.plan.nodes import BOUND_NAMES
from millstream.types import Schema

_WITH_BOUNDS = "windows that slide by time have bounds: [TUMBLE 1 MINUTE], [HOP 10 MINUTES SLIDE 1 MINUTE]"


@dataclass(frozen=True)
class OuterColumn(Expression):
    """A value of the surrounding query's row: the index counts the values that a subquery takes from there.

    It stands only inside the binder; unnesting replaces it.
    """

    index: int
    name: str = field(compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Source:
    """A FROM item under its alias, its columns at `offset` of the joined row."""

    name: str
    schema: Schema
    offset: int
    hidden: int = 0  # of its last columns: what only its name means, where no other column has it
    without_bounds: str = ""  # why its window has no bounds
    instant: str = ""  # of a stream: what says when its elements come

    @property
    def shown(self) -> Iterator[Column]:
        """What `*` stands for."""
        return islice(self.columns(), len(self.schema) - self.hidden)

    def columns(self) -> Iterator[Column]:
        for position, column in enumerate(self.schema):
            yield Column(column.type, self.offset + position, column.name)


@dataclass(frozen=True)
class Merged:
    """What USING or NATURAL made one column of: an unqualified name means it, and not the columns that it hides."""

    name: str
    value: Expression
    hidden: frozenset[int]
    start: int = 0  # the first column of what was joined: `*` shows it before that

    def moved(self, offset: int) -> Merged:
        """The same, its columns so many places further on."""

        def move(node: Expression) -> Expression:
            return replace(node, index=node.index + offset) if isinstance(node, Column) else node

        hidden = frozenset(index + offset for index in self.hidden)
        return Merged(self.name, self.value.transform(move), hidden, self.start + offset)


class Scope:
    """Resolves column names over the FROM items, then over the query around (correlation)."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.sources: list[Source] = []
        self.merged: list[Merged] = []
        # The values that this scope takes from its parent's row, in the order of OuterColumn's index.
        self.outer: list[Expression] = []
        self._joins = 0

    def join(self, place: Place) -> None:
        """One more of what is joined to the row, which nests the plan: it would be refused in the end."""
        self._joins += 1
        if self._joins > MAX_DEPTH:
            raise too_deep(place)

    @property
    def width(self) -> int:
        return sum(len(source.schema) for source in self.sources)

    def add(
        self,
        name: str,
        schema: Schema,
        place: Place,
        *,
        hidden: int = 0,
        without_bounds: str = "",
        instant: str | None = None,
    ) -> None:
        if name and any(source.name.lower() == name.lower() for source in self.sources):
            raise NameError(
                f'"{name}" stands twice in FROM',
                hint=f"give one of them another name: {name} AS other",
                place=place,
            )
        self.sources.append(Source(name, schema, self.width, hidden, without_bounds, instant or ""))

    def forget(self, kept: int) -> None:
        """Leave out all items but so many, with what USING made of their columns."""
        del self.sources[kept:]
        self.merged = [merged for merged in self.merged if max(merged.hidden) < self.width]

    def columns(self, table: str | None, place: Place) -> list[tuple[str, Expression]]:
        """What `*` or `table.*` stands for: names and columns."""
        if table is not None:
            found = [source for source in self.sources if source.name.lower() == table.lower()]
            if not found:
                raise self._unknown_table(table, place)
            return [(column.name, column) for column in found[0].shown]
        shown: list[tuple[int, str, Expression]] = [(merged.start, merged.name, merged.value) for merged in self.merged]
        plain = (column for source in self.sources for column in source.shown if not self._is_hidden(column))
        shown += [(column.index, column.name, column) for column in plain]
        return [(name, value) for _, name, value in sorted(shown, key=lambda item: item[0])]

    def _is_hidden(self, column: Column) -> bool:
        return any(column.index in merged.hidden for merged in self.merged)

    def part(self, sources: Sequence[Source], merged: Sequence[Merged]) -> Scope:
        """One side of a join by itself."""
        part = Scope()
        part.sources, part.merged = list(sources), list(merged)
        return part

    def merge(self, name: str, value: Expression, sides: Sequence[Expression]) -> None:
        """Let a name mean one value in place of the columns of both sides."""
        hidden = frozenset(node.index for side in sides for node in side.walk() if isinstance(node, Column))
        kept = [merged for merged in self.merged if not merged.hidden & hidden]
        hidden = hidden.union(*(merged.hidden for merged in self.merged if merged not in kept))
        self.merged = [*kept, Merged(name, value, hidden)]

    def resolve(self, table: str | None, name: str, place: Place, aliases: Iterable[str] = ()) -> Expression:
        """What a name means; `aliases` are others that could be meant."""
        found = self._found(table, name, place)
        if found is not None:
            return found
        if table is not None and not self._known_table(table):
            raise self._unknown_table(table, place)
        known = [
            c.name for source in self.sources for c in source.columns() if table is None or _same(source.name, table)
        ]
        shown = f"{table}.{name}" if table else name
        reasons = [s.without_bounds for s in self.sources if s.without_bounds and (not table or _same(s.name, table))]
        if name.lower() in BOUND_NAMES and reasons:
            raise BindError(f"there is no {name.lower()} here", detail=reasons[0], hint=_WITH_BOUNDS, place=place)
        if table is None and name.lower() in REFUSED:  # CURRENT_DATE is called without parentheses
            said = f"{name} is refused: {REFUSED[name.lower()]}"
            raise NotSupportedError(said, hint=hint_instead(name.lower()), place=place)
        hint = did_you_mean(name, [*known, *aliases])
        if name.upper() in STREAM_OPERATORS:
            hint = f"it goes around the columns, or the query: SELECT {name.upper()}(a, b) FROM .."
        if any(_same(source.instant, name) for source in self.sources if table is None or _same(source.name, table)):
            hint = f"{name} says when rows come, and is no column of theirs: declare it as a column of the stream, too"
        raise NameError(f'unknown column "{shown}"', hint=hint, place=place)

    def _found(self, table: str | None, name: str, place: Place) -> Expression | None:
        """A column of this scope or of the nearest one around that has it: each between takes it from the next."""
        found = self._find(table, name, place)
        if found is None and self.parent is not None:
            outer = self.parent._found(table, name, place)
            return None if outer is None else self.take(outer, name)
        return found

    def take(self, value: Expression, name: str) -> OuterColumn:
        """A value of the parent's row, as this scope sees it."""
        if value not in self.outer:
            self.outer.append(value)
        return OuterColumn(value.type, self.outer.index(value), name)

    def has(self, name: str, place: Place) -> bool:
        """Whether a column of FROM has a name: those of the query around come after the names of the select list."""
        return self._find(None, name, place) is not None

    def _find(self, table: str | None, name: str, place: Place) -> Expression | None:
        sources = [source for source in self.sources if table is None or _same(source.name, table)]

        def named(columns: Callable[[Source], Iterable[Column]]) -> list[tuple[str, Expression]]:
            return [
                (f"{source.name}.{column.name}", column)
                for source in sources
                for column in columns(source)
                if _same(column.name, name) and not (table is None and self._is_hidden(column))
            ]

        matches = named(lambda source: source.shown)
        if table is None:
            matches += [(f"{m.name} of USING", m.value) for m in self.merged if _same(m.name, name)]
        matches = matches or named(Source.columns)
        if len(matches) > 1:
            where = ", ".join(shown for shown, _ in matches)
            raise NameError(f'"{name}" is ambiguous', detail=f"it could be {where}", hint="qualify it", place=place)
        return matches[0][1] if matches else None

    def _known_table(self, table: str) -> bool:
        known = any(_same(source.name, table) for source in self.sources)
        return known or (self.parent is not None and self.parent._known_table(table))

    def _unknown_table(self, table: str, place: Place) -> NameError:
        names = [source.name for source in self.sources if source.name]
        return NameError(f'nothing in FROM is called "{table}"', hint=did_you_mean(table, names), place=place)


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()
