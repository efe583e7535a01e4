"""Random conditions over columns of many types, as text, and rows in many small files that hold few values each.

Nothing here knows what a file says of its columns, or which rows a query may need. A condition is said twice where
DuckDB's text differs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb
from tests.properties.dice import Dice

COLUMNS = (
    "id INT, k INT, big BIGINT, small SMALLINT, s STRING, ok BOOLEAN, f DOUBLE, g FLOAT, d DECIMAL(8,2), "
    "day DATE, moment TIMESTAMP, `^x.*$` INT"
)
WIDTH = len(COLUMNS.replace("8,2", "").split(","))
LONG = "m" * 70  # longer than what files say of texts
_TEXTS = ("", "a", "ab", "b", "B", "n", LONG, f"{LONG}a", f"{LONG}z", "é", "z\U0010ffff", "%", "_")
_DOUBLES = ("0e0", "-0e0", "1e0", "2.5e0", "-3e0", "1e300", "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)")
_DAYS = ("DATE '2019-12-31'", "DATE '2020-01-03'", "DATE '2020-01-06'", "DATE '2021-01-01'")
_INSTANTS = ("TIMESTAMP '2020-01-01 00:00:00'", "TIMESTAMP '2020-01-01 03:30:00'", "TIMESTAMP '2020-01-01 06:00:00'")
_NUMBERS = ("0", "3", "5", "-1", "3000000000", "2.5", "4e0", "NULL", "CAST(4 AS SMALLINT)")


@dataclass(frozen=True)
class Text:
    """What Millstream is told, and what DuckDB is."""

    ours: str
    theirs: str

    def __str__(self) -> str:
        return self.ours


def _same(text: str) -> Text:
    return Text(text, text.replace("`", '"'))


_CONSTANTS: dict[str, tuple[str, ...]] = {
    "k": _NUMBERS,
    "big": _NUMBERS,
    "small": _NUMBERS,
    "`^x.*$`": _NUMBERS,
    "s": (*(f"'{text}'" for text in _TEXTS), "NULL"),
    "f": (*_DOUBLES, "3", "NULL"),
    "g": ("CAST(0.1 AS FLOAT)", "CAST(0.5 AS FLOAT)", "CAST(0.1 AS DOUBLE)", "0e0", "-0e0", "2"),
    "d": ("CAST(3.10 AS DECIMAL(8,2))", "3.1", "3.105", "0", "5e0", "CAST(-1 AS DECIMAL(4,1))"),
    "day": (*_DAYS, "CAST(NULL AS DATE)"),
    "moment": _INSTANTS,
}
_ORDERS = ("=", "<>", "<", "<=", ">", ">=")


def conditions(dice: Dice) -> list[Text]:
    """What queries ask that come together: anything, or something that few files can have beside something else."""
    if dice.chance(40):
        return [condition(dice, depth) for depth in dice.some((0, 0, 1, 2), 1, 5)]
    bounds = ("{0} < {1}", "{0} > {1}", "{0} BETWEEN {1} AND {1}", "{0} = {1}")  # equality alone makes other groups
    columns = ("k", "k", "`^x.*$`")
    narrow = [_same(dice.pick(bounds).format(dice.pick(columns), dice.number(-3, 7))) for _ in range(dice.number(1, 2))]
    return [dice.pick((_is_null, _plain, _null_safe, _text, _among))(dice), *narrow]


def condition(dice: Dice, depth: int) -> Text:
    if depth and dice.chance(70):
        form = dice.pick(("{0} AND {1}", "{0} OR {1}", "NOT ({0})", "CASE WHEN {0} THEN {1} ELSE {2} END"))
        parts = [condition(dice, depth - 1) for _ in range(3)]
        return Text(
            f"({form.format(*(part.ours for part in parts))})", f"({form.format(*(part.theirs for part in parts))})"
        )
    return dice.pick(_TESTS)(dice)


def _compared(dice: Dice) -> Text:
    column = dice.pick(tuple(_CONSTANTS))
    sides = [column, dice.pick(_CONSTANTS[column])]
    if dice.chance(30):
        sides.reverse()
    return _same(f"{sides[0]} {dice.pick(_ORDERS)} {sides[1]}")


def _null_safe(dice: Dice) -> Text:
    column = dice.pick(tuple(_CONSTANTS))
    constant = dice.pick((*_CONSTANTS[column], "NULL"))
    return Text(f"{column} <=> {constant}", _same(f"{column} IS NOT DISTINCT FROM {constant}").theirs)


def _among(dice: Dice) -> Text:
    column = dice.pick(tuple(_CONSTANTS))
    return _same(f"{column} {dice.pick(('', 'NOT '))}IN ({', '.join(dice.some(_CONSTANTS[column], 1, 4))})")


def _between(dice: Dice) -> Text:
    column = dice.pick(tuple(_CONSTANTS))
    least, greatest = dice.pick(_CONSTANTS[column]), dice.pick(_CONSTANTS[column])
    return _same(f"{column} {dice.pick(('', 'NOT '))}BETWEEN {least} AND {greatest}")


def _is_null(dice: Dice) -> Text:
    return _same(f"{dice.pick((*_CONSTANTS, 'ok'))} IS {dice.pick(('', 'NOT '))}NULL")


def _text(dice: Dice) -> Text:
    negated = dice.pick(("", "NOT "))
    return _same(dice.pick((*(f"s {negated}LIKE '{p}'" for p in _PATTERNS), *_OF_TEXTS)))


def _plain(dice: Dice) -> Text:
    return dice.pick((*(_same(text) for text in _PLAIN), Text("isnan(f)", "coalesce(isnan(f), FALSE)")))


_PATTERNS = ("%n%", "a%", "%", "_", f"{LONG}%", "", "é%", "%a")
_OF_TEXTS = ("upper(s) = 'B'", "length(s) > 1", "s || 'x' = 'ax'", "substring(s, 1, 1) = 'm'", "coalesce(s, 'a') < 'b'")
_PLAIN = (
    "ok",
    "NOT ok",
    "ok = TRUE",
    "ok IS NOT TRUE",
    "ok IS FALSE",
    "k < small",
    "k = big",
    "big <= k",
    "id < k",
    "f > k",
    "f <> f",
    "d >= k",
    "abs(k) = 3",
    "k + 1 = 4",
    "k % 3 = 0",
    "-k = 3",
    "coalesce(k, 3) = 3",
    "greatest(k, small) < 4",
    "1 = 1",
    "1 = 2",
    "NULL IS NULL",
    "k = k",
)
_TESTS: tuple[Callable[[Dice], Text], ...] = (
    *(_compared,) * 5,
    _null_safe,
    _null_safe,
    _among,
    _among,
    _between,
    _is_null,
    _is_null,
    _text,
    _plain,
    _plain,
)

Row = tuple[Any, ...]


def rows(dice: Dice, files: int) -> list[list[Row]]:
    """Per file: values near each other, so that some files have none of what a query wants; columns may be all NULL."""
    found, at, number = [], 0, 0
    for _ in range(files):
        near, empty = dice.number(-2, 6), {name for name in (*_CONSTANTS, "ok") if dice.chance(15)}
        texts = dice.some(_TEXTS, 1, 2)
        batch: list[Row] = []
        for _ in range(dice.number(1, 5)):
            at, number = at + dice.number(0, 3), number + 1
            k = near + dice.number(0, 1)
            values: dict[str, Any] = {
                "k": k,
                "big": k * dice.pick((1, 1, 10**9)),
                "small": dice.number(-1, 4),
                "s": dice.pick(texts),
                "ok": dice.chance(50),
                "f": dice.pick((float(k), float(k), -0.0, 0.0, float("nan"), float("inf"), 2.5)),
                "g": dice.pick((0.1, 0.5, float(k), -0.0)),
                "d": Decimal(f"{k}.{dice.pick(('1', '10', '11'))}"),
                "day": dt.date(2020, 1, 4) + dt.timedelta(days=k),
                "moment": dt.datetime(2020, 1, 1, 3, tzinfo=dt.UTC) + dt.timedelta(hours=k),
                "`^x.*$`": k,
            }
            shown = (None if name in empty or dice.chance(10) else value for name, value in values.items())
            batch.append((number, *shown, at))
        found.append(batch)
    return found


class Raw:
    """The elements as they came, in DuckDB."""

    def __init__(self) -> None:
        self._db = duckdb.connect()
        columns = COLUMNS.replace("`", '"').replace("STRING", "VARCHAR")
        self._db.execute(f"CREATE TABLE S ({columns}, ts BIGINT)")

    def insert(self, batch: list[Row]) -> None:
        plain = [tuple(v.replace(tzinfo=None) if isinstance(v, dt.datetime) else v for v in row) for row in batch]
        self._db.executemany(f"INSERT INTO S VALUES ({', '.join('?' * (WIDTH + 1))})", plain)

    def answer(self, query: str) -> list[tuple[Any, ...]]:
        return sorted(self._db.execute(query).fetchall(), key=str)

    def close(self) -> None:
        self._db.close()
