"""What the condition of an n-way join says: which inputs it connects, by which columns, and what is left to check.

Columns that `=` or `<=>` make equal fall into classes, each with at most one column of every input. Equality is
transitive, so that a row of any input of a class finds its partners in any other one; and where one `=` is among the
equalities of a class, its value is never NULL. Whatever is no such equality is a condition, to be tested as soon as all
inputs that it reads are joined. Conditions that can fail wait until all inputs are, so that whether they do does not
depend on the order in which inputs were joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from millstream.kernel.batch import value_column
from millstream.kernel.scalar.expressions import Call, Cast, Column, Expression, columns_used, conjuncts
from millstream.kernel.storage.probing import FLIPPED, Band, ColumnBound, column_and_offset
from millstream.types import INTEGER_BITS, INTEGERS

InputSet = frozenset[int]


@dataclass(frozen=True)
class EqualColumns:
    """A class: the column of each of its inputs (positions in the input's own row)."""

    columns: tuple[tuple[int, int], ...]
    null_safe: bool

    @property
    def inputs(self) -> InputSet:
        return frozenset(source for source, _ in self.columns)

    def column_of(self, source: int) -> int:
        return dict(self.columns)[source]


@dataclass(frozen=True)
class Condition:
    """What must be true, over the row of all inputs."""

    expression: Expression
    inputs: InputSet


@dataclass(frozen=True)
class Access:
    """How rows of some joined inputs find partners among the stored rows of another one.

    By equal values of `stored` (columns of the stored rows) and `probing` (columns of the row of all inputs), or else
    by a band of values. Without either, all rows are partners.
    """

    stored: tuple[str, ...] = ()
    probing: tuple[str, ...] = ()
    band: Band | None = None

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of the row of all inputs that are needed to find partners."""
        bounds = (*self.band.lower, *self.band.upper) if self.band is not None else ()
        return self.probing or tuple(value_column(bound.column) for bound in bounds)

    @property
    def order(self) -> tuple[bool, tuple[str, ...]]:
        """What the stored rows must be sorted by: whether by value, and the columns."""
        return self.band is not None, self.stored


@dataclass(frozen=True)
class _Comparison:
    """column of an input (function) column of another one + offset; columns are those of the row of all inputs."""

    column: int
    function: str
    other: int
    offset: int


def equal_column(expression: Expression) -> int | None:
    """The column whose value an expression has: itself, or an integer that was widened, which has the same code."""
    while isinstance(expression, Cast) and {expression.type, expression.argument.type} <= set(INTEGERS):
        if INTEGER_BITS[expression.type] < INTEGER_BITS[expression.argument.type]:
            return None
        expression = expression.argument
    return expression.index if isinstance(expression, Column) else None


class JoinGraph:
    """The inputs of a join and what connects them."""

    def __init__(self, widths: Sequence[int], condition: Expression) -> None:
        self.widths = tuple(widths)
        self.starts = (0, *accumulate(widths))[:-1]
        self._owner = [source for source, width in enumerate(widths) for _ in range(width)]
        self.places = {  # of each column of the row of all inputs: the input, and the column there
            value_column(start + index): (source, value_column(index))
            for source, (start, width) in enumerate(zip(self.starts, widths, strict=True))
            for index in range(width)
        }
        parts = conjuncts(condition)
        equalities = [equal for part in parts if (equal := self._equality(part)) is not None]
        self.classes, implied = self._classes(equalities)
        rest = [part for part in parts if part not in implied]
        self.conditions = tuple(Condition(part, self._inputs(columns_used(part))) for part in rest)
        self._comparisons = [compared for part in rest for compared in self._comparison(part)]
        self._accesses: dict[tuple[int, InputSet], Access] = {}

    def never_null(self, source: int) -> list[str]:
        """The columns of an input without which a row has no partners."""
        equal = {c.column_of(source) for c in self.classes if source in c.inputs and not c.null_safe}
        compared = {
            index - self.starts[source]
            for found in self._comparisons
            for index in (found.column, found.other)
            if self._owner[index] == source
        }
        return [value_column(index) for index in sorted(equal | compared)]

    def common_keys(self) -> list[tuple[int, ...]]:
        """For each input its columns of the classes that all inputs belong to."""
        everywhere = [c for c in self.classes if len(c.inputs) == len(self.widths)]
        return [tuple(c.column_of(source) for c in everywhere) for source in range(len(self.widths))]

    def owner_of(self, column: int) -> int:
        """The input that a column of the row of all inputs is of."""
        return self._owner[column]

    def class_of(self, source: int, column: int) -> EqualColumns | None:
        """The class that a column of an input belongs to."""
        return next((c for c in self.classes if (source, column) in c.columns), None)

    def decided(self, joined: InputSet, target: int) -> list[Expression]:
        """The conditions that can be tested once `target` has been joined, and could not before."""
        after = joined | {target}
        tested = joined if len(joined) > 1 else None  # of rows that are not joined yet nothing has been
        return [
            c.expression for c in self.conditions if c.inputs <= after and (tested is None or not c.inputs <= tested)
        ]

    def usual_access(self, target: int) -> Access:
        """The first of the accesses of an input: what its rows are sorted by."""
        others = [source for source in range(len(self.widths)) if source != target]
        found = [self.access(target, frozenset({other})) for other in others]
        return next((a for a in found if a.probing), next((a for a in found if a.band), Access()))

    def options(self, joined: InputSet) -> tuple[int, ...]:
        """The inputs that may be joined next: never one without a connection while there is one with."""
        waiting = [source for source in range(len(self.widths)) if source not in joined]
        accesses = {source: self.access(source, joined) for source in waiting}
        by_key = tuple(source for source in waiting if accesses[source].probing)
        by_band = tuple(source for source in waiting if accesses[source].band)
        return by_key or by_band or tuple(waiting)

    def access(self, target: int, joined: InputSet) -> Access:
        """How rows of the joined inputs find their partners in the target."""
        known = self._accesses.get((target, joined))
        if known is None:
            known = self._accesses[target, joined] = self._access(target, joined)
        return known

    def _access(self, target: int, joined: InputSet) -> Access:
        usable = [c for c in self.classes if target in c.inputs and c.inputs & joined]
        if usable:
            known = [min(c.inputs & joined) for c in usable]
            return Access(
                tuple(value_column(c.column_of(target)) for c in usable),
                tuple(self._column(c, source) for source, c in zip(known, usable, strict=True)),
            )
        band = self._band(frozenset({target}), joined)
        if band is None:
            return Access()
        own = replace(band, column=band.column - self.starts[target])
        return Access((value_column(own.column),), band=own)

    def _band(self, stored: InputSet, joined: InputSet) -> Band | None:
        """The best band for finding stored rows: bounded from both sides if there is one."""
        lower: dict[int, list[ColumnBound]] = {}
        upper: dict[int, list[ColumnBound]] = {}
        for found in self._comparisons:
            if self._owner[found.column] in stored and self._owner[found.other] in joined:
                bounds = upper if found.function in ("<", "<=") else lower
                bounds.setdefault(found.column, []).append(ColumnBound(found.other, found.offset))
        columns = [*(column for column in lower if column in upper), *lower, *upper]
        if not columns:
            return None
        chosen = columns[0]
        return Band(chosen, tuple(lower.get(chosen, ())), tuple(upper.get(chosen, ())))

    def between(self, stored: InputSet, probing: InputSet) -> Access:
        """How rows of some joined inputs find partners among those of others, all by columns of the row of all."""
        usable = [c for c in self.classes if c.inputs & stored and c.inputs & probing]
        if usable:
            sides = [[self._column(c, min(c.inputs & side)) for c in usable] for side in (stored, probing)]
            return Access(tuple(sides[0]), tuple(sides[1]))
        band = self._band(stored, probing)
        return Access() if band is None else Access((value_column(band.column),), band=band)

    def _column(self, equal: EqualColumns, source: int) -> str:
        return value_column(self.starts[source] + equal.column_of(source))

    def _equality(self, part: Expression) -> tuple[Expression, int, int, bool] | None:
        if not (isinstance(part, Call) and part.function in ("=", "<=>")):
            return None
        one, other = (equal_column(argument) for argument in part.arguments)
        if one is None or other is None or self._owner[one] == self._owner[other]:
            return None
        return part, one, other, part.function == "<=>"

    def _classes(
        self, equalities: Iterable[tuple[Expression, int, int, bool]]
    ) -> tuple[tuple[EqualColumns, ...], set[Expression]]:
        """The classes, and the equalities that they stand for. One that would bring two columns of an input together
        stays a condition."""
        found: list[tuple[set[int], bool]] = []
        implied: set[Expression] = set()
        for part, one, other, safe in equalities:
            touched = [c for c in found if one in c[0] or other in c[0]]
            columns = set().union({one, other}, *(c[0] for c in touched))
            if len({self._owner[column] for column in columns}) < len(columns):
                continue
            found = [c for c in found if c not in touched]
            found.append((columns, safe and all(c[1] for c in touched)))
            implied.add(part)
        classes = (
            EqualColumns(
                tuple((self._owner[index], index - self.starts[self._owner[index]]) for index in sorted(columns)), safe
            )
            for columns, safe in found
        )
        return tuple(sorted(classes, key=lambda c: c.columns)), implied

    def _comparison(self, part: Expression) -> list[_Comparison]:
        """The comparison as each of its two sides sees it."""
        if not (isinstance(part, Call) and part.function in FLIPPED):
            return []
        one, other = (column_and_offset(argument) for argument in part.arguments)
        if one is None or other is None or self._owner[one[0]] == self._owner[other[0]]:
            return []
        return [
            _Comparison(one[0], part.function, other[0], other[1] - one[1]),
            _Comparison(other[0], FLIPPED[part.function], one[0], one[1] - other[1]),
        ]

    def _inputs(self, columns: Iterable[int]) -> InputSet:
        return frozenset(self._owner[index] for index in columns)
