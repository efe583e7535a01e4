"""Functions that make rows of lists: EXPLODE and its kin, and UNNEST.

FROM t, UNNEST(t.x) [WITH ORDINALITY] AS u(n)     FROM t, UNNEST(t.x, t.y) AS u(n, m)
FROM t LATERAL VIEW [OUTER] explode(t.x) e AS n   SELECT k, explode(x) AS n FROM t
FROM t, LATERAL explode(t.x) AS e(n)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from sqlglot import exp

from millstream import types
from millstream.errors import BindError, NotSupportedError, Place, TypeError
from millstream.kernel.scalar.coercion import cast
from millstream.kernel.scalar.expressions import Column, Expression, Literal
from millstream.kernel.scalar.functions import call
from millstream.language.syntax import place_of
from millstream.plan import nodes as lo
from millstream.types import Field, Schema

GENERATORS = ("explode", "explode_outer", "posexplode", "posexplode_outer")
_OTHERS = ("inline", "inline_outer", "stack", "json_tuple")


@dataclass(frozen=True)
class Generator:
    """What makes rows, as it is written: of a list or of several side by side, also where they are empty, and with the
    places of elements."""

    values: tuple[exp.Expr, ...]
    outer: bool
    position: OneOf["", "pos", "ordinality"]

    @property
    def width(self) -> int:
        """How many columns it adds to a row."""
        return len(self.values) + bool(self.position)

    def schema(self, lists: Sequence[Expression], names: list[str]) -> Schema:
        """Of what it adds to a row."""
        usual = ["col"] if len(lists) == 1 else [f"col{number}" for number in range(1, len(lists) + 1)]
        kinds = [value.type.element or types.NULL for value in lists]
        if self.position == "pos":
            usual, kinds = ["pos", *usual], [types.INT, *kinds]
        elif self.position == "ordinality":
            usual, kinds = [*usual, "ordinality"], [*kinds, types.BIGINT]
        return tuple(Field(name, kind) for name, kind in zip(names or usual, kinds, strict=True))


def generator_of(node: exp.Expr | None, text: str) -> Generator | None:
    """What a call of a function that makes rows says; None for anything else."""
    if isinstance(node, exp.Unnest):
        if not node.expressions:
            raise BindError("UNNEST takes an array, or several", place=place_of(node, text))
        return Generator(tuple(node.expressions), False, "ordinality" if node.args.get("offset") else "")
    if not isinstance(node, exp.Anonymous):
        return None
    name = node.name.lower()
    if name in _OTHERS:
        raise NotSupportedError(
            f"{name} is not supported",
            hint="explode(x) makes a row of each element of an array",
            place=place_of(node, text),
        )
    if name not in GENERATORS:
        return None
    if len(node.expressions) != 1:
        raise BindError(f"{name} takes one argument, not {len(node.expressions)}", place=place_of(node, text))
    return Generator(tuple(node.expressions), name.endswith("_outer"), "pos" if name.startswith("pos") else "")


def check_list(value: Expression, place: Place) -> None:
    if not value.type.is_list:
        raise TypeError(
            f"an array is unnested, not a {value.type}",
            hint="split(text, ',') makes one of a text, array(a, b) of values",
            place=place,
        )


def unnested(plan: lo.Node, lists: Sequence[Expression], generator: Generator) -> lo.Node:
    """The rows of a plan, once for each element of a list; what the generator adds stands behind."""
    own = [Column(field.type, index, field.name) for index, field in enumerate(plan.schema)]
    names = tuple(field.name for field in plan.schema)
    made = tuple(field.name for field in replace(generator, position="").schema(lists, []))
    below = lo.Project(plan, (*own, *lists), (*names, *made))
    rows = lo.Unnest(below, bool(generator.position), generator.outer, len(lists))
    if not generator.position:
        return rows
    added = [Column(field.type, len(own) + at, field.name) for at, field in enumerate(rows.schema[len(own) :])]
    *elements, number = added
    if generator.position == "pos":
        return lo.Project(rows, (*own, number, *elements), (*names, "pos", *made), role="within")
    counted = call("+", [cast(number, types.BIGINT), Literal(types.BIGINT, 1)])
    return lo.Project(rows, (*own, *elements, counted), (*names, *made, "ordinality"), role="within")
