"""What a query of a group says when it fails: with its own constants, and not with the parameters of its shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

import polars as pl

from millstream.engine.groups.group import RowsByShape, only_queries
from millstream.errors import EvaluationError, error_fields
from millstream.kernel.batch import value_columns
from millstream.kernel.scalar.expressions import Literal
from millstream.kernel.sharing.parameters import QUERY
from millstream.plan.shapes import Shape

_PARAMETER = re.compile(r"\?(\d+)")
_VALUE = re.compile(r"(?:, )?\?\d+ = .*?(?=, [^,=]+ = |$)", re.DOTALL)  # among those that an error is told for


def told_by_query(
    errors: Mapping[int, EvaluationError], rows: RowsByShape, shapes: Mapping[str, Shape]
) -> dict[int, dict[str, str]]:
    """The errors of queries, as their rows of the query table have constants for them."""
    found = {query: error_fields(error) for query, error in errors.items()}
    for shape, frame in only_queries(rows, errors).items():
        kinds = shapes[shape].parameters if shape in shapes else ()
        names = value_columns(len(kinds))
        for query, *values in frame.select(QUERY, *map(pl.col, names)).iter_rows():
            shown = [str(Literal(kind, value)) for kind, value in zip(kinds, values, strict=True)]
            found[query] = _with_constants(found[query], shown)
    return found


def _with_constants(said: dict[str, str], shown: list[str]) -> dict[str, str]:
    filled = {name: _PARAMETER.sub(partial(_constant, shown), text) for name, text in said.items() if name != "detail"}
    if "detail" not in said:
        return filled
    detail = _VALUE.sub("", said["detail"]).replace("for , ", "for ")
    return filled | ({"detail": detail} if detail.strip() not in ("", "for") else {})


def _constant(shown: list[str], found: re.Match[str]) -> str:
    number = int(found[1])
    return shown[number - 1] if 0 < number <= len(shown) else found[0]
