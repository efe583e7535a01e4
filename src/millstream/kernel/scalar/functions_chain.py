"""Sums of very many terms, `a + b + c + ...`, computed one after the other without being nested in one another.

TOTAL(x1, .., xn) = ((x1 + x2) + x3) + ..     of one type, which overflows where a part of it does
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import reduce

import polars as pl

from millstream.kernel.scalar.expressions import Call, Expression
from millstream.kernel.scalar.functions_arithmetic import WIDER
from millstream.kernel.scalar.outcome import Failure, Outcome, by_column
from millstream.kernel.scalar.signature import Function, Rule, Signature
from millstream.types import to_polars

TOTAL = "sum of terms"


def _same(arguments: Sequence[Expression]) -> Signature | None:
    kinds = {argument.type for argument in arguments}
    if len(kinds) != 1 or not all(kind.is_integer or kind.is_fractional for kind in kinds):
        return None
    return Signature((arguments[0].type,) * len(arguments), arguments[0].type)


def _steps(terms: Sequence[pl.Series]) -> Iterator[tuple[pl.Series, pl.Series, pl.Series]]:
    """Of every addition both operands and the result."""
    total = terms[0]
    for term in terms[1:]:
        after = total + term
        yield total, term, after
        total = after


def _total(*terms: pl.Series) -> pl.Series:
    return reduce(operator.add, terms)


def _overflows(*terms: pl.Series) -> pl.Series:
    failed = pl.repeat(False, terms[0].len(), eager=True)
    for left, right, result in _steps(terms):
        # Polars wraps around: the sign of a sum is wrong if it differs from that of both operands.
        failed = failed | (((left ^ result) & (right ^ result)) < 0).fill_null(False)
    return failed


def _evaluate(node: Call, *terms: pl.Expr) -> Outcome:
    value = by_column(_total, terms, to_polars(node.type))
    if not node.type.is_integer:
        return Outcome(value)
    failed = by_column(_overflows, terms, pl.Boolean())
    return Outcome(value, (Failure(lambda _: failed, f"{node.type} overflow", WIDER),))


FUNCTIONS = (Function(TOTAL, Rule("numbers of one type", _same), _evaluate),)
