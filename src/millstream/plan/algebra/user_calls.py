"""Code of users is called once for each row and place: a value and its error come of the same call.

    σ_f(σ_{POSSIBLE(f)}(X))  =  π_X(σ_{TRY(f)}(X')),  it fails where ERROR(f) is in X' = (X, TRY(f), ERROR(f))

and alike of columns that are computed. Other expressions are computed as often as they are asked for, which costs less
than to keep them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millstream.kernel.scalar.evaluate import calls_users, can_fail, where_possible
from millstream.kernel.scalar.expressions import (
    Column,
    Expression,
    Reported,
    Tried,
    conjunction,
    conjuncts,
    error_text,
    value_if_any,
)
from millstream.plan import nodes as lo
from millstream.plan.algebra.outer_joins import columns
from millstream.types import STRING


@dataclass(frozen=True)
class Called:
    """`rows` are the input's with values and errors of what calls users' code behind them; over these, what the node
    computes."""

    rows: lo.Project
    computed: tuple[Expression, ...]


def once_possible(node: lo.Filter) -> lo.Filter:
    """A selection without what it implies: that its conditions are possible."""
    parts = conjuncts(node.condition)
    if not any(map(calls_users, parts)):
        return node
    own, below = _without_possible(parts, parts), node.input
    if isinstance(below, lo.Filter):
        left = _without_possible(conjuncts(below.condition), parts)
        below = lo.Filter(below.input, conjunction(left)) if left else below.input
    return lo.Filter(below, conjunction(own))


def _without_possible(parts: Sequence[Expression], asked: Sequence[Expression]) -> list[Expression]:
    implied = (isinstance(p, Tried) and p.question == "possible" and p.argument in asked for p in parts)
    return [part for part, is_implied in zip(parts, implied, strict=True) if not is_implied]


def called_once(node: lo.Filter | lo.Project) -> Called | None:
    """None where nothing in it calls users' code and can fail."""
    computed = tuple(conjuncts(node.condition)) if isinstance(node, lo.Filter) else node.expressions
    # What is tried gives a value and an error already; all the same Polars may give up on a date in it.
    calling = [e for e in dict.fromkeys(computed) if calls_users(e) and can_fail(e) and not isinstance(e, Tried)]
    if not calling:
        return None
    asked = calling
    if isinstance(node, lo.Filter):
        # It is asked of rows only that no other condition leaves out, as far as these come first.
        plain = [part for part in computed if part not in calling]
        asked = [where_possible([*plain, *calling[:place]], e) for place, e in enumerate(calling)]
    own, width = columns(node.input.schema), len(node.input.schema)
    made = (*map(value_if_any, asked), *map(error_text, asked))
    rows = lo.Project(node.input, (*own, *made), (*(column.name for column in own), *map(str, made)))
    reported = {
        e: Reported(e.type, Column(e.type, width + n, str(e)), Column(STRING, width + len(calling) + n, str(e)))
        for n, e in enumerate(calling)
    }
    return Called(rows, tuple(reported.get(e, e) for e in computed))
