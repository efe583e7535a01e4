"""The texts of templates with constants in the place of their parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlglot import exp

from millstream.language.dialect import CQL
from millstream.language.statement_parser import parse_query
from millstream.language.syntax import numbered_parameters


def with_constants(template: str, values: Sequence[object]) -> str:
    """The text of a template with values in the place of its parameters."""
    return filled(template, values).sql(dialect=CQL)


def filled(template: str, values: Sequence[object]) -> exp.Query:
    tree = parse_query(template)
    for index, node in enumerate(numbered_parameters(tree)):
        node.replace(constant(values[index]))
    return tree


def constant(value: object) -> exp.Expr:
    """A value as the text of a query says it, with the type it has."""
    if not isinstance(value, float):
        return exp.convert(value)
    if math.isfinite(value):
        return exp.Literal.number(repr(value) if "e" in repr(value) else f"{value!r}e0")
    return exp.cast(exp.Literal.string(str(value)), "double")
