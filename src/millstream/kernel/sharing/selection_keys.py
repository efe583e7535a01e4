"""Which queries select the same rows, by their conditions and constants, whatever the words are.

    5 < a        a > 5        a > 5 AND 3 < a        NOT (a <= 5)        a >= 6, of an integer        have one key

A key is made of the normal form. Of clauses that compare one attribute, the range that is left counts, and the values
that are left out; clauses and residual conditions count once, in any order. Queries whose keys are equal select the
same rows of any input, and fail on the same ones. Not all that select the same rows have one key.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import repeat
from typing import Any

import polars as pl

from millstream.kernel.batch import value_column, value_columns
from millstream.kernel.scalar.expressions import Expression, Literal, Parameter
from millstream.kernel.sharing.identity import number_of
from millstream.kernel.sharing.normal_form import Atom, normal_form
from millstream.types import to_polars

Values = Sequence[object]
_Operand = Callable[[Values], Hashable]
_NOTHING = ("nothing",)  # of conditions that are true of no row
_RANGES = {"<", "<=", ">", ">="}


@dataclass(frozen=True)
class _Term:
    """An atom: its attribute by number, whether that is an integer, the operator, and its operands by the constants of
    a query."""

    attribute: int
    is_integer: bool
    operator: str
    operands: tuple[_Operand, ...]
    parameter: int | None = None  # that is its only operand

    def values(self, constants: Values) -> list[Hashable]:
        return [operand(constants) for operand in self.operands]


@dataclass
class _Range:
    """Values between two bounds; None where there is none."""

    low: Any = None
    is_low_open: bool = False
    high: Any = None
    is_high_closed: bool = True

    def cut(self, operator: str, value: Any) -> None:
        is_open = operator in ("<", ">")
        if operator in (">", ">=", "=") and (self.low is None or (value, is_open) > (self.low, self.is_low_open)):
            self.low, self.is_low_open = value, is_open
        if operator in ("<", "<=", "=") and (
            self.high is None or (value, not is_open) < (self.high, self.is_high_closed)
        ):
            self.high, self.is_high_closed = value, not is_open


class SelectionKeys:
    """The keys of queries of one shape."""

    def __init__(self, condition: Expression) -> None:
        form = normal_form(condition)
        self._is_nothing = () in form.clauses
        clauses = [tuple(map(_term, clause)) for clause in form.clauses]
        self._terms = [clause[0] for clause in clauses if len(clause) == 1]
        self._clauses = [clause for clause in clauses if len(clause) > 1]
        self._residual = [_operand(part) for part in form.residual]

    def of_rows(self, rows: pl.DataFrame, width: int) -> list[Hashable]:
        """Those of queries, by their rows of the query table with so many constants."""
        if not width or not (self._terms or self._is_nothing or self._clauses or self._residual):
            return [self.of((None,) * width)] * rows.height
        constants = rows[value_columns(width)]
        if rows.height > 1 and self._is_plain and not any(s.dtype.is_float() or s.null_count() for s in constants):
            return self._of_columns(constants)
        return [self.of(own) for own in constants.iter_rows()]

    @cached_property
    def _is_plain(self) -> bool:
        """Whether each attribute is compared once, with a parameter, and there is nothing else."""
        others = self._is_nothing or self._clauses or self._residual or not self._terms
        compared = all(term.operator in (*_RANGES, "=") and term.parameter is not None for term in self._terms)
        return not others and compared and len({term.attribute for term in self._terms}) == len(self._terms)

    def _of_columns(self, constants: pl.DataFrame) -> list[Hashable]:
        """The same as `of` says for each row, of many at once."""
        parts: list[Iterable[Hashable]] = []
        for term in sorted(self._terms, key=lambda term: term.attribute):
            values: Sequence[Hashable] = constants[value_column(term.parameter or 0)].to_list()
            closed, _ = _closed(term, term.operator, 0)
            if closed != term.operator:
                values = [_closed(term, term.operator, value)[1] for value in values]
            low = values if closed in (">", ">=", "=") else repeat(None)
            high = values if closed in ("<", "<=", "=") else repeat(None)
            parts += [repeat(term.attribute), low, repeat(closed == ">"), high, repeat(closed != "<")]
        return [*zip(*parts, strict=False)]

    def of(self, constants: Values) -> Hashable:
        if self._is_nothing:
            return _NOTHING
        ranges: dict[int, _Range] = {}
        left_out: dict[int, set[Hashable]] = {}
        others: list[Hashable] = [operand(constants) for operand in self._residual]
        for term in self._terms:
            values = term.values(constants)
            if not all(map(_is_ordered, values)):
                others.append(frozenset([_plain(term, values)]))
            elif term.operator in _RANGES or (term.operator in ("=", "in") and len({*values}) == 1):
                operator = "=" if term.operator == "in" else term.operator
                ranges.setdefault(term.attribute, _Range()).cut(*_closed(term, operator, values[0]))
            elif term.operator in ("<>", "not in"):
                left_out.setdefault(term.attribute, set()).update(map(_exact, values))
            else:
                others.append(frozenset([_plain(term, values)]))
        others += (self._clause(clause, constants) for clause in self._clauses)
        found = [*others, *((number, frozenset(values)) for number, values in left_out.items())]
        bounds = (
            part
            for number, kept in sorted(ranges.items())
            for part in (number, _exact(kept.low), kept.is_low_open, _exact(kept.high), kept.is_high_closed)
        )
        return (*bounds, frozenset(found)) if found else tuple(bounds)

    def _clause(self, clause: tuple[_Term, ...], constants: Values) -> Hashable:
        """Of alternatives: those that ask for values of an attribute are one."""
        asked: dict[int, set[Hashable]] = {}
        others: set[Hashable] = set()
        for term in clause:
            values = term.values(constants)
            if term.operator in ("=", "in"):
                asked.setdefault(term.attribute, set()).update(map(_exact, values))
            else:
                others.add(_plain(term, values))
        return frozenset([*others, *((number, "in", frozenset(values)) for number, values in asked.items())])


@lru_cache(maxsize=1 << 14)
def keys_of(condition: Expression) -> SelectionKeys:
    return SelectionKeys(condition)


def _plain(term: _Term, values: Sequence[Hashable]) -> Hashable:
    operator = {"=": "in", "<>": "not in"}.get(term.operator, term.operator)
    if operator in _RANGES and _is_ordered(values[0]):
        operator, value = _closed(term, operator, values[0])
        return term.attribute, operator, _exact(value)
    return term.attribute, operator, frozenset(map(_exact, values))


def _closed(term: _Term, operator: str, value: Hashable) -> tuple[str, Hashable]:
    """Of an integer, to be more than one value is to be at least the next."""
    if term.is_integer and isinstance(value, int):
        if operator == ">":
            return ">=", value + 1
        if operator == "<":
            return "<=", value - 1
    return operator, value


def _is_ordered(value: Hashable) -> bool:
    """Whether it is a constant that others of its type lie before or after: not NULL, NaN, or what is worked out."""
    return value is not None and not isinstance(value, tuple) and value == value


def _exact(value: Hashable) -> Hashable:
    """As it is written where values that are equal can be told apart, or are not equal to themselves."""
    return repr(value) if isinstance(value, float) and (value == 0.0 or value != value) else value


def _term(atom: Atom) -> _Term:
    operands = tuple(map(_operand, atom.operands))
    parameter = atom.operands[0].index if len(atom.operands) == 1 and isinstance(atom.operands[0], Parameter) else None
    return _Term(number_of(atom.attribute), atom.attribute.type.is_integer, atom.operator, operands, parameter)


def _operand(expression: Expression) -> _Operand:
    """What an expression over the constants of a query comes to: a value, or the expression with its constants."""
    if isinstance(expression, Parameter):
        index = expression.index
        return lambda constants: constants[index]
    if isinstance(expression, Literal):
        value = pl.Series([expression.value], dtype=to_polars(expression.type))[0]
        return lambda constants: value
    used: dict[int, int] = {}

    def renumber(node: Expression) -> Expression:
        if not isinstance(node, Parameter):
            return node
        return Parameter(node.type, used.setdefault(node.index, len(used)))

    number, indexes = number_of(expression.transform(renumber)), (*used,)
    return lambda constants: (number, *(_exact(constants[index]) for index in indexes))
