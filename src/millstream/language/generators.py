"""Functions that make rows of lists: EXPLODE and its kin, and UNNEST.

FROM t, UNNEST(t.x) [WITH ORDINALITY] AS u(n)    FROM t, LATERAL explode(t.x) AS e(n)
FROM t LATERAL VIEW [OUTER] explode(t.x) e AS n   SELECT k, explode(x) AS n FROM t
"""

from __future__ import annotations

from dataclasses import dataclass
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
    """What makes rows, as it is written: of a list, also where it is empty, and with the places of elements."""

    value: exp.Expr
    outer: bool
    position: OneOf["", "pos", "ordinality"]

    def schema(self, kind: types.DataType, names: list[str]) -> Schema:
        """Of what it adds to a row."""
        element = Field(names[0] if names else "col", kind.element or types.NULL)
        if self.position == "pos":
            return Field(names[0] if names else "pos", types.INT), element._replace(name=names[1] if names else "col")
        if self.position == "ordinality":
            return element, Field(names[1] if names else "ordinality", types.BIGINT)
        return (element,)


def generator_of(node: exp.Expr | None, text: str) -> Generator | None:
    """What a call of a function that makes rows says; None for anything else."""
    if isinstance(node, exp.Unnest):
        values = node.expressions
        if len(values) != 1:
            raise NotSupportedError(
                "UNNEST of several arrays",
                hint="join them: FROM UNNEST(a) AS x(n), UNNEST(b) AS y(m)",
                place=place_of(node, text),
            )
        return Generator(values[0], False, "ordinality" if node.args.get("offset") else "")
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
    return Generator(node.expressions[0], name.endswith("_outer"), "pos" if name.startswith("pos") else "")


def check_list(value: Expression, place: Place) -> None:
    if not value.type.is_list:
        raise TypeError(
            f"an array is unnested, not a {value.type}",
            hint="split(text, ',') makes one of a text, array(a, b) of values",
            place=place,
        )


def unnested(plan: lo.Node, value: Expression, generator: Generator) -> lo.Node:
    """The rows of a plan, once for each element of a list; what the generator adds stands behind."""
    own = [Column(field.type, index, field.name) for index, field in enumerate(plan.schema)]
    width, names = len(own), tuple(field.name for field in plan.schema)
    rows = lo.Unnest(lo.Project(plan, (*own, value), (*names, "col")), bool(generator.position), generator.outer)
    if not generator.position:
        return rows
    element, number = (Column(field.type, width + at, field.name) for at, field in enumerate(rows.schema[width:]))
    if generator.position == "pos":
        return lo.Project(rows, (*own, number, element), (*names, "pos", "col"), role="within")
    counted = call("+", [cast(number, types.BIGINT), Literal(types.BIGINT, 1)])
    return lo.Project(rows, (*own, element, counted), (*names, "col", "ordinality"), role="within")
