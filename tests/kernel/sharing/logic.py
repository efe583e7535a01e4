"""Conditions as tests write them."""

from __future__ import annotations

from functools import reduce

from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.scalar.functions import call


def both(*parts: Expression) -> Expression:
    return reduce(lambda one, other: call("and", [one, other]), parts)


def either(*parts: Expression) -> Expression:
    return reduce(lambda one, other: call("or", [one, other]), parts)


def compare(one: Expression, operator: str, other: Expression) -> Expression:
    return call(operator, [one, other])


def no(part: Expression) -> Expression:
    return call("not", [part])
