"""Chains of very many terms, `a + b - c + ...` and `a * b * ...`, computed one after the other without being nested.

TOTAL(x1, .., xn)        = ((x1 + x2) + x3) + ..       of one type, each of which overflows where a part of it does
TERMS(signs, x1, .., xn) = ((x1 + x2) - x3) + ..
FACTORS(x1, .., xn)      = ((x1 * x2) * x3) * ..
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from millstream.kernel.scalar.expressions import FACTORS, TERMS, TOTAL, Call, Expression, Literal
from millstream.kernel.scalar.functions_arithmetic import WIDER
from millstream.kernel.scalar.outcome import Failure, Outcome, by_column
from millstream.kernel.scalar.signature import Function, Signature, TypeRule
from millstream.types import STRING, to_polars

_STEPS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
CHAINED = frozenset(_STEPS)
Numbers = np.ndarray[Any, Any]


def of_terms(terms: Sequence[Expression], signs: Sequence[str]) -> Expression:
    """Terms of one type, with the operators between them: sums and differences, or products."""
    if len(terms) == 1:
        return terms[0]
    kind = terms[0].type
    if set(signs) == {"*"}:
        return Call(kind, FACTORS, tuple(terms))
    if set(signs) == {"+"}:
        return Call(kind, TOTAL, tuple(terms))
    return Call(kind, TERMS, (Literal(STRING, "".join(signs)), *terms))


def _same(arguments: Sequence[Expression]) -> Signature | None:
    kinds = {argument.type for argument in arguments}
    if len(kinds) != 1 or not all(kind.is_integer or kind.is_fractional for kind in kinds):
        return None
    return Signature((arguments[0].type,) * len(arguments), arguments[0].type)


def _value(signs: Sequence[str], *terms: pl.Series) -> pl.Series:
    total = terms[0]
    for sign, term in zip(signs, terms[1:], strict=True):
        total = _STEPS[sign](total, term)
    return total


def _overflows(signs: Sequence[str], *terms: pl.Series) -> pl.Series:
    """Whether a step goes wrong before a NULL ends them all."""
    total, known = _numbers(terms[0]), _known(terms[0], np.ones(terms[0].len(), dtype=bool))
    failed = np.zeros(terms[0].len(), dtype=bool)
    for sign, term in zip(signs, terms[1:], strict=True):
        known = _known(term, known)
        value = _numbers(term)
        after = _STEPS[sign](total, value)
        failed |= known & _is_wrong(sign, total, value, after)
        total = after
    return pl.Series(failed)


def _is_wrong(sign: str, left: Numbers, right: Numbers, result: Numbers) -> Numbers:
    """NumPy wraps around. The sign of a sum is wrong if it differs from that of both operands; of a difference, if the
    operands differ in sign and the result does not have the left one's; a product is wrong if it cannot be divided."""
    if sign == "+":
        return ((left ^ result) & (right ^ result)) < 0
    if sign == "-":
        return ((left ^ result) & (left ^ right)) < 0
    least = np.iinfo(left.dtype).min
    divisor = np.where((right == 0) | (right == -1), 1, right)
    wrong: Numbers = (right != 0) & (right != -1) & (result // divisor != left)
    wrong |= (left == least) & (right == -1)
    return wrong


def _known(term: pl.Series, so_far: Numbers) -> Numbers:
    # By Arrow: there are thousands of terms, and each call of Polars plans a query.
    return so_far & term.to_arrow().is_valid().to_numpy(zero_copy_only=False) if term.null_count() else so_far


def _numbers(term: pl.Series) -> Numbers:
    return term.to_arrow().fill_null(0).to_numpy() if term.null_count() else term.to_numpy()


def _evaluate(node: Call, signs: Sequence[str], terms: Sequence[pl.Expr]) -> Outcome:
    value = by_column(partial(_value, signs), terms, to_polars(node.type))
    if not node.type.is_integer:
        return Outcome(value)
    failed = by_column(partial(_overflows, signs), terms, pl.Boolean())
    return Outcome(value, (Failure(lambda _: failed, f"{node.type} overflow", WIDER),))


def _alike(sign: str) -> Callable[..., Outcome]:
    return lambda node, *terms: _evaluate(node, sign * (len(terms) - 1), terms)


def _signed(node: Call, signs: pl.Expr, *terms: pl.Expr) -> Outcome:
    given = node.arguments[0]
    if not isinstance(given, Literal):
        raise AssertionError("signs are constants")
    return _evaluate(node, str(given.value), terms)


_ONE_TYPE = TypeRule("numbers of one type", _same)
FUNCTIONS = (
    Function(TOTAL, _ONE_TYPE, _alike("+")),
    Function(TERMS, TypeRule("signs and numbers of one type", lambda _: None), _signed),
    Function(FACTORS, _ONE_TYPE, _alike("*")),
)
