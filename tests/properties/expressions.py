"""Random typed expressions over the columns in scope.

Nothing in them fails: no division by what may be zero, no products of columns (their values stay small), no casts that
may not fit. What Spark and DuckDB write differently (doubles as text, NaN as a whole number) is left out as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.properties.dice import Dice
from tests.properties.kinds import Column, Kind, literal

Scope = Sequence[Column]

_SAME = (
    "COALESCE({0}, {0})",
    "CASE WHEN {boolean} THEN {0} ELSE {0} END",
    "CASE WHEN {boolean} THEN {0} END",
    "NULLIF({0}, {0})",
)
_OPERATORS = ("=", ">=", "<=", "<>", "<", "<=>", ">", ">=", "<=", "<>")
_PATTERNS = ("'a%'", "'%b'", "'_'", "'%'")
_TEMPLATES: dict[Kind, tuple[str, ...]] = {
    Kind.INTEGER: (
        "({integer} + {integer})",
        "({integer} - {integer})",
        "({integer} * 2)",
        "ABS({integer})",
        "({integer} / 2)",
        "({integer} % 3)",
        "LENGTH({string})",
        "CAST({boolean} AS INT)",
        "CAST({integer} AS BIGINT)",
        "GREATEST({integer}, {integer})",
        "LEAST({integer}, {integer})",
        "DATEDIFF({date}, {date})",
    ),
    Kind.STRING: (
        "({string} || {string})",
        "UPPER({string})",
        "SUBSTRING({string}, 1, 1)",
        "CONCAT({string}, {string})",
        "CAST({integer} AS STRING)",
        "TRIM({string})",
    ),
    Kind.BOOLEAN: (
        "({boolean} AND {boolean})",
        "({boolean} OR {boolean})",
        "(NOT {boolean})",
    ),
    Kind.DOUBLE: (
        "({double} + {double})",
        "({double} - {integer})",
        "({double} * 2E0)",
        "ABS({double})",
        "CAST({integer} AS DOUBLE)",
    ),
    Kind.DECIMAL: ("({decimal} + {decimal})", "({decimal} - {integer})", "ABS({decimal})"),
    Kind.DATE: ("DATE_ADD({date}, 1)",),
    Kind.AVERAGE: (),
}
_COMPARED = (*(Kind.INTEGER,) * 3, Kind.STRING, Kind.DOUBLE, Kind.DECIMAL, Kind.DATE, Kind.BOOLEAN, Kind.AVERAGE)
_NUMBERS = (Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL, Kind.AVERAGE)


def expression(dice: Dice, scope: Scope, kind: Kind, depth: int = 1) -> str:
    if kind is Kind.BOOLEAN:
        return _boolean(dice, scope, depth)
    return _filled(dice, scope, kind, depth) if depth > 0 and dice.chance(30) else operand(dice, scope, kind)


def operand(dice: Dice, scope: Scope, kind: Kind) -> str:
    """A column, or where there is none of the kind (and sometimes else), a literal."""
    columns = [column.name for column in scope if column.kind is kind]
    return dice.pick(columns) if columns and not dice.chance(12) else literal(dice, kind)


def _boolean(dice: Dice, scope: Scope, depth: int) -> str:
    """Mostly something that depends on the row: constants decide too much."""
    if depth > 0 and dice.chance(25):
        return _filled(dice, scope, Kind.BOOLEAN, depth)
    has_column = any(column.kind is Kind.BOOLEAN for column in scope)
    return operand(dice, scope, Kind.BOOLEAN) if dice.chance(25 if has_column else 3) else _test(dice, scope, depth)


def condition(dice: Dice, scope: Scope, depth: int = 1) -> str:
    return expression(dice, scope, Kind.BOOLEAN, depth)


def _filled(dice: Dice, scope: Scope, kind: Kind, depth: int) -> str:
    """A template whose other kinds have columns in scope."""
    absent = (
        {str(other.value) for other in Kind} - {str(column.kind.value) for column in scope} - {"boolean", kind.value}
    )
    own = [template for template in _TEMPLATES[kind] if not any(f"{{{name}}}" in template for name in absent)]
    return _fill(dice, scope, dice.pick((*own, *own, *_SAME)), kind, depth)


def _fill(dice: Dice, scope: Scope, template: str, kind: Kind, depth: int) -> str:
    def part(match: re.Match[str]) -> str:
        wanted = kind if match[1] == "0" else Kind(match[1])
        return expression(dice, scope, wanted, depth - 1)

    return re.sub(r"\{(\w+)\}", part, template)


def _test(dice: Dice, scope: Scope, depth: int) -> str:
    """A comparison or another test of values, of kinds that are in scope."""
    present = [kind for kind in _COMPARED if any(column.kind is kind for column in scope)] or [Kind.INTEGER]
    kind = dice.pick(present)
    value = expression(dice, scope, kind, depth - 1) if kind is not Kind.BOOLEAN else operand(dice, scope, kind)
    form = dice.number(0, 9)
    if form <= 5 and dice.chance(40):
        return f"({value} {dice.pick(_OPERATORS)} {literal(dice, kind)})"
    if form <= 5:
        other = dice.pick([k for k in _NUMBERS if k in present]) if kind in _NUMBERS and dice.chance(30) else kind
        different = [column for column in scope if column.name != value]
        return f"({value} {dice.pick(_OPERATORS)} {operand(dice, different, other)})"
    if form == 6:
        return f"({value} IS {dice.pick(('NOT NULL', 'NOT NULL', 'NULL'))})"
    if form == 7:
        items = ", ".join([literal(dice, kind), *(literal(dice, kind) for _ in range(dice.number(1, 3)))])
        return f"({value} {dice.pick(('IN', 'NOT IN'))} ({items}))"
    if form == 8 and kind is Kind.STRING:
        return f"({value} LIKE {dice.pick(_PATTERNS)})"
    return f"({value} BETWEEN {literal(dice, kind)} AND {operand(dice, scope, kind)})"
