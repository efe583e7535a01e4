"""Random GROUP BY: keys, aggregates of wanted kinds, HAVING."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.properties.dice import Dice
from tests.properties.expressions import Scope, condition, expression, operand
from tests.properties.kinds import Column, Kind

# What makes a value of a kind; {any} stands for a column of any kind.
_EXTREMES = ("MIN({0})", "MAX({0})")
_CALLS: dict[Kind, tuple[str, ...]] = {
    Kind.INTEGER: (
        *("COUNT(*)", "COUNT(*)", "SUM({integer})", "SUM({integer})", "COUNT({any})", "COUNT(DISTINCT {any})"),
        *("SUM(DISTINCT {integer})", "COUNT_IF({boolean})", *_EXTREMES),
    ),
    Kind.STRING: _EXTREMES,
    Kind.BOOLEAN: ("BOOL_OR({boolean})", "BOOL_AND({boolean})", *_EXTREMES),
    Kind.DOUBLE: ("SUM({double})", *_EXTREMES),
    Kind.DECIMAL: ("SUM({decimal})", *_EXTREMES),
    Kind.DATE: _EXTREMES,
    Kind.AVERAGE: ("AVG({integer})", "AVG({double})", *_EXTREMES),
}
_RESULTS = (*(Kind.INTEGER,) * 5, Kind.AVERAGE)


@dataclass(frozen=True)
class Grouping:
    """The select list with its kinds, and what follows WHERE."""

    items: list[str]
    kinds: list[Kind]
    clause: str


def grouping(
    dice: Dice,
    scope: Scope,
    wanted: Sequence[Kind] | None,
    *,
    keys: Sequence[int] = (1, 1, 0, 2),
    outer: Scope = (),
) -> Grouping:
    """`keys` are the numbers of keys to choose from; `outer` are columns of the query around."""
    by = [_key(dice, scope) for _ in range(dice.pick(keys))]
    if wanted is None:
        present = (*_RESULTS, *(column.kind for column in scope))
        listed = [key for key in by if not dice.chance(20)]
        found = [*listed, *(_aggregate(dice, scope, dice.pick(present)) for _ in range(dice.number(1, 2)))]
        items, kinds = [column.name for column in found], [column.kind for column in found]
    else:
        items, kinds = [_item(dice, scope, by, kind, outer) for kind in wanted], list(wanted)
        if not by and not any(_is_aggregate(item) for item in items):
            items[0] = _aggregate(dice, scope, kinds[0]).name
    clause = f" GROUP BY {', '.join(key.name for key in by)}" if by else ""
    if dice.chance(20):
        clause += f" HAVING {_having(dice, scope, [*by, *outer])}"
    return Grouping(items, kinds, clause)


def _having(dice: Dice, scope: Scope, by: Sequence[Column]) -> str:
    """A condition in which an aggregate stands, so that DuckDB sees a group without GROUP BY too."""
    count = _aggregate(dice, scope, Kind.INTEGER).name
    simple = f"{count} {dice.pick(('>=', '>', '<>', '<'))} {dice.pick(('1', '0', '2'))}"
    if not dice.chance(30):
        return simple
    other = _aggregate(dice, scope, dice.pick(scope).kind)
    return f"({simple} {dice.pick(('OR', 'AND'))} {condition(dice, [*by, other])})"


def _key(dice: Dice, scope: Scope) -> Column:
    """A column, or an expression with one in it (a number alone would be a position)."""
    column = dice.pick(scope)
    if dice.chance(20):
        found = expression(dice, scope, column.kind)
        if any(re.search(rf"\b{re.escape(other.name)}\b", found) for other in scope):
            return Column(found, column.kind)
    return column


def _aggregate(dice: Dice, scope: Scope, kind: Kind) -> Column:
    def argument(match: re.Match[str]) -> str:
        if match[1] == "any":
            return operand(dice, scope, dice.pick(scope).kind)
        return expression(dice, scope, kind if match[1] == "0" else Kind(match[1]))

    return Column(re.sub(r"\{(\w+)\}", argument, dice.pick(_CALLS[kind])), kind)


def _item(dice: Dice, scope: Scope, by: Sequence[Column], kind: Kind, outer: Scope) -> str:
    same = [key.name for key in by if key.kind is kind]
    if same and dice.chance(50):
        return dice.pick(same)
    found = _aggregate(dice, scope, kind)
    return expression(dice, [found, *by, *outer], kind) if dice.chance(20) else found.name


def _is_aggregate(text: str) -> bool:
    return re.search(r"\b(COUNT|SUM|MIN|MAX|AVG|COUNT_IF|BOOL_OR|BOOL_AND)\(", text) is not None
