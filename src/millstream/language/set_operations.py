"""Binds chains of set operations: `a UNION b UNION c ...` as one, so that a thousand of them are not nested deeply."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from millstream.errors import BindError, Place, TypeError
from millstream.kernel.scalar.coercion import cast, common_type
from millstream.kernel.scalar.expressions import Column
from millstream.plan import nodes as lo
from millstream.types import DataType

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

    def __init__(self, first: lo.Node) -> None:
        self._sides = [first]
        self._kind: lo.SetKind | None = None

    @property
    def plan(self) -> lo.Node:
        return self._sides[0] if self._kind is None else _combined(self._kind, self._sides)

    def add(self, kind: lo.SetKind, side: lo.Node, place: Place) -> None:
        types = [field.type for field in self._sides[0].schema]
        targets = _common_types(types, [field.type for field in side.schema], place)
        if kind != self._kind or targets != types:
            self._sides = [_cast_columns(self.plan, targets)]
            self._kind = kind
        self._sides.append(_cast_columns(side, targets))


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


def _combined(kind: lo.SetKind, sides: Sequence[lo.Node]) -> lo.Node:
    if len(sides) > _MANY and kind in _FROM_THE_LEFT:
        # a - b - c = a - (b + c), where no count falls below 0
        return lo.SetOperation(kind, sides[0], _combined("union all", sides[1:]))
    if len(sides) > _MANY:
        half = len(sides) // 2
        return lo.SetOperation(kind, _combined(kind, sides[:half]), _combined(kind, sides[half:]))
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
