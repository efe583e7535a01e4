"""Whether a query fails at an instant, by the definition and nothing else: rows are Python tuples, errors are values.

Expressions are nested tuples, which say both what they are in SQL (`sql`) and what they are on a row (`value`); a query
is a block over windows, perhaps with an outer join, a subquery of EXISTS or one in FROM; subqueries may also stand
anywhere in an expression. Nothing of the engine is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

ERROR = "error"
Expression = tuple[Any, ...]
Row = dict[str, Any]  # "s.a" -> value; and under INPUTS what gives the rows of a source at the instant
INPUTS = ""
Elements = list[tuple[int | None, int | None, int]]  # a, b, instant


def sql(e: Expression) -> str:
    match e:
        case ("column", name):
            return str(name)
        case ("number", value):
            return f"({value})"
        case ("and" | "or" as word, left, right):
            return f"({sql(left)} {word.upper()} {sql(right)})"
        case ("not", part):
            return f"(NOT {sql(part)})"
        case ("case", condition, then, otherwise):
            return f"CASE WHEN {sql(condition)} THEN {sql(then)} ELSE {sql(otherwise)} END"
        case ("coalesce", one, other):
            return f"COALESCE({sql(one)}, {sql(other)})"
        case ("exists", exists):
            return f"({exists.text})"
        case ("max", found, exists):
            return f"(SELECT MAX({sql(found)}) FROM {exists.source.text} WHERE {exists.where})"
        case (operator, left, right):
            return f"({sql(left)} {operator} {sql(right)})"
    raise AssertionError(e)


def value(e: Expression, row: Row) -> Any:
    """The value, None, or ERROR."""
    match e:
        case ("column", name):
            return row[name]
        case ("number", number):
            return number
        case ("and" | "or" as word, left, right):
            decides = word == "or"
            found = [value(left, row), value(right, row)]
            if decides in found:
                return decides
            return ERROR if ERROR in found else None if None in found else not decides
        case ("not", part):
            found = value(part, row)
            return found if found in (None, ERROR) else not found
        case ("case", condition, then, otherwise):
            truth = value(condition, row)
            return ERROR if truth == ERROR else value(then if truth is True else otherwise, row)
        case ("coalesce", one, other):
            found = value(one, row)
            return value(other, row) if found is None else found
        case ("exists", exists):
            return exists.value(row, row[INPUTS](exists.source))
        case ("max", found, exists):
            answers = [(verdict(exists.conditions, {**row, **r}), {**row, **r}) for r in row[INPUTS](exists.source)]
            values = [value(found, each) for answer, each in answers if answer is True]
            if ERROR in values or any(answer == ERROR for answer, _ in answers):
                return ERROR
            return max((each for each in values if each is not None), default=None)
        case (operator, left, right):
            return _applied(operator, value(left, row), value(right, row))
    raise AssertionError(e)


def _applied(operator: str, left: Any, right: Any) -> Any:
    if ERROR in (left, right):
        return ERROR
    if left is None or right is None:
        return None
    if operator == "/":
        return ERROR if right == 0 else int(left / right)
    return {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "=": lambda: left == right,
        "<>": lambda: left != right,
        "<": lambda: left < right,
        ">": lambda: left > right,
    }[operator]()


def verdict(conditions: Iterable[Expression], row: Row, also: Sequence[Any] = ()) -> Any:
    """Of the conditions of a block on a row, and of others whose values are known: one that is false or NULL hides all
    errors, however they are put together by AND."""
    found = [value(part, row) for condition in conditions for part in _conjuncts(condition)] + [*also]
    if any(each is None or each is False for each in found):
        return False
    return ERROR if ERROR in found else True


def _conjuncts(condition: Expression) -> list[Expression]:
    return [part for each in condition[1:] for part in _conjuncts(each)] if condition[0] == "and" else [condition]


@dataclass(frozen=True)
class Source:
    stream: str
    alias: str
    window: str  # RANGE n, NOW or ROWS n

    def rows(self, elements: Elements, at: int) -> list[Row]:
        kind, _, size = self.window.partition(" ")
        past = [e for e in elements if e[2] <= at]
        if kind == "ROWS":
            past = sorted(past, key=lambda e: e[2])[-int(size) :]
        else:
            past = [e for e in past if e[2] + int(size or 0) >= at]
        return [{f"{self.alias}.a": a, f"{self.alias}.b": b} for a, b, _ in past]

    @property
    def text(self) -> str:
        return f"{self.stream} [{self.window}] {self.alias}"


@dataclass(frozen=True)
class Exists:
    """[NOT] EXISTS (SELECT * FROM source WHERE conditions)."""

    source: Source
    conditions: tuple[Expression, ...]
    negated: bool = False
    selected: str = "*"

    @property
    def where(self) -> str:
        return " AND ".join(map(sql, self.conditions))

    @property
    def text(self) -> str:
        asked = f"SELECT {self.selected} FROM {self.source.text} WHERE {self.where}"
        return f"{'NOT ' if self.negated else ''}EXISTS ({asked})"

    def value(self, row: Row, found: Sequence[Row]) -> Any:
        answers = [verdict(self.conditions, {**row, **other}) for other in found]
        truth = True if True in answers else ERROR if ERROR in answers else False
        return truth if truth == ERROR else truth != self.negated


@dataclass(frozen=True)
class Query:
    """SELECT .. FROM sources, with the last one perhaps in LEFT JOIN .. ON; `unread` is a column of a subquery in FROM
    around all that is read nowhere; `grouped` by s.a, HAVING a condition on the key."""

    sources: tuple[Source, ...]
    where: tuple[Expression, ...]
    select: tuple[Expression, ...]
    on: tuple[Expression, ...] | None = None
    exists: tuple[Exists, ...] = ()
    having: Expression | None = None
    unread: Expression | None = None

    @property
    def text(self) -> str:
        texts = [source.text for source in self.sources]
        if self.on is not None:
            on = " AND ".join(map(sql, self.on))
            texts[-2:] = [f"{texts[-2]} LEFT JOIN {texts[-1]} ON {on}"]
        conditions = [*map(sql, self.where), *(each.text for each in self.exists)]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        if self.having is not None:
            items = ", ".join(f"SUM({sql(e)}) AS x{n}" for n, e in enumerate(self.select))
            above = sql(self.having)
            return f"SELECT s.a, {items} FROM {', '.join(texts)}{where} GROUP BY s.a HAVING {above}"
        items = ", ".join(f"{sql(e)} AS x{n}" for n, e in enumerate(self.select))
        if self.unread is None:
            return f"SELECT {items} FROM {', '.join(texts)}{where}"
        inner = f"SELECT {items}, {sql(self.unread)} AS y FROM {', '.join(texts)}{where}"
        return f"SELECT x0 FROM ({inner}) AS q"

    def fails(self, elements: dict[str, Elements], at: int) -> bool:
        inputs = [source.rows(elements[source.stream], at) for source in self.sources]
        joined, erring = self._joined(inputs)
        kept = []
        for row in joined:
            row[INPUTS] = lambda source: source.rows(elements[source.stream], at)
            found = [each.value(row, each.source.rows(elements[each.source.stream], at)) for each in self.exists]
            answer = verdict(self.where, row, found)
            erring = erring or answer == ERROR
            if answer is True:
                kept.append(row)
        # Of a subquery in FROM, x0 is read and the others are not.
        read = self.select if self.unread is None else self.select[:1]
        erring = erring or any(value(e, row) == ERROR for row in kept for e in read)
        return erring or (self.having is not None and any(value(self.having, row) == ERROR for row in kept))

    def _joined(self, inputs: list[list[Row]]) -> tuple[list[Row], bool]:
        if self.on is None:
            return [_merged(rows) for rows in product(*inputs)], False
        rows, erring = [], False
        # As Spark has it, commas bind no weaker than JOIN: all that is written before is the left side.
        for left in (_merged(each) for each in product(*inputs[:-1])):
            answers = [verdict(self.on, {**left, **right}) for right in inputs[-1]]
            erring = erring or ERROR in answers
            partners = [{**left, **r} for r, answer in zip(inputs[-1], answers, strict=True) if answer is True]
            alias = self.sources[-1].alias
            rows += partners or [{**left, f"{alias}.a": None, f"{alias}.b": None}]
        return rows, erring


def _merged(rows: Iterable[Row]) -> Row:
    return {name: found for row in rows for name, found in row.items()}
