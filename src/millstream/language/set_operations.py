"""Binds chains of set operations: `a UNION b UNION c ...` as one, so that a thousand of them are not nested deeply."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from millstream.errors import BindError, Place, TypeError
from millstream.kernel.scalar.coercion import cast, common_type
from millstream.kernel.scalar.expressions import Column, Expression, Literal
from millstream.language.blocks import BoundSubquery
from millstream.plan import nodes as lo
from millstream.types import NULL, DataType

KINDS: dict[tuple[type[exp.Expr], bool], lo.SetKind] = {
    (exp.Union, False): "union all",
    (exp.Union, True): "union",
    (exp.Intersect, False): "intersect all",
    (exp.Intersect, True): "intersect",
    (exp.Except, False): "except all",
    (exp.Except, True): "except",
}
_FROM_THE_LEFT = ("except", "except all")
_MANY = 16  # sides of a chain


class SetChain:
    """The sides so far. Those of one operation that may be grouped anyhow, and of the same types, are put together in
    the end: from left to right where they are few, else halved."""

    def __init__(self, first: BoundSubquery) -> None:
        self._sides = [first.plan]
        self._kind: lo.SetKind | None = None
        self.names = list(first.names)

    @property
    def plan(self) -> lo.Node:
        return self._sides[0] if self._kind is None else combined(self._kind, self._sides)

    def add_by_name(self, kind: lo.SetKind, side: BoundSubquery, place: Place) -> None:
        """UNION BY NAME: columns of one name are one column; where a side has none of a name, it is NULL there."""
        names = list(self.names)
        names += [name for name in side.names if name.lower() not in {known.lower() for known in names}]
        if len(names) > len(self.names):
            self._sides = [_by_names(self.plan, self.names, names)]
            self._kind, self.names = None, names
        self.add(kind, _by_names(side.plan, side.names, names), place)

    def add(self, kind: lo.SetKind, side: lo.Node, place: Place) -> None:
        types = [field.type for field in self._sides[0].schema]
        targets = _common_types(types, [field.type for field in side.schema], place)
        if kind != self._kind or targets != types:
            self._sides = [_cast_columns(self.plan, targets)]
            self._kind = kind
        self._sides.append(_cast_columns(side, targets))


def _by_names(plan: lo.Node, own: Sequence[str], names: Sequence[str]) -> lo.Node:
    """The plan's columns where their names stand, and NULL for the others."""
    places = {name.lower(): index for index, name in enumerate(own)}
    columns: list[Expression] = []
    for name in names:
        index = places.get(name.lower())
        columns.append(Literal(NULL, None) if index is None else Column(plan.schema[index].type, index, name))
    return lo.Project(plan, tuple(columns), tuple(names))


def _common_types(left: list[DataType], right: list[DataType], place: Place) -> list[DataType]:
    if len(left) != len(right):
        raise BindError(f"the two sides differ in columns: {len(left)} and {len(right)}", place=place)
    targets = []
    for index, (one, other) in enumerate(zip(left, right, strict=True)):
        common = common_type([one, other])
        if common is None:
            raise TypeError(f"column {index + 1} of the two sides differs: {one} and {other}", place=place)
        targets.append(common)
    return targets


def combined(kind: lo.SetKind, sides: Sequence[lo.Node]) -> lo.Node:
    if len(sides) > _MANY and kind in _FROM_THE_LEFT:
        # a - b - c = a - (b + c), where no count falls below 0
        return lo.SetOperation(kind, sides[0], combined("union all", sides[1:]))
    if len(sides) > _MANY:
        half = len(sides) // 2
        return lo.SetOperation(kind, combined(kind, sides[:half]), combined(kind, sides[half:]))
    result = sides[0]
    for side in sides[1:]:
        result = lo.SetOperation(kind, result, side)
    return result


def _cast_columns(plan: lo.Node, targets: list[DataType]) -> lo.Node:
    if all(field.type == target for field, target in zip(plan.schema, targets, strict=True)):
        return plan
    columns = (Column(field.type, index, field.name) for index, field in enumerate(plan.schema))
    expressions = tuple(cast(column, target) for column, target in zip(columns, targets, strict=True))
    return lo.Project(plan, expressions, tuple(field.name for field in plan.schema))
