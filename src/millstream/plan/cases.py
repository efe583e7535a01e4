"""Aggregates of what queries find by conditions of their own: FILTER, and CASE in arguments.

    f(CASE WHEN p THEN a ELSE b END) over X   =   f(c) over (σ_p(X), a as c) + (X where p is not true, b as c)

Each case is a part of the rows, with what the arguments are there and NULL in the place of those that look at other
cases. So a query's conditions are a selection like WHERE, and what is summed of its rows is the same for all queries.
Which groups there are is said by a part that has all rows. Functions must not see NULL for this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from millstream.kernel.aggregation.aggregate_calls import BOOLEANS, VARIANCES, canonical
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import (
    TRUE,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    InList,
    Literal,
    Parameter,
    chained,
    conjunction,
    conjuncts,
    map_columns,
)
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.types import BIGINT, BOOLEAN, DataType

_FUNCTIONS = {"count", "sum", "avg", "min", "max", *BOOLEANS, *VARIANCES}  # they do not see NULL
_MOST_CASES = 8
_MARK = Literal(BIGINT, 1)
_STRICT = {"=", "<>", "<", "<=", ">", ">=", "like", "startswith"}  # NULL if and only if some argument is
_NEVER_NULL = {"isnull", "isnotnull", "<=>"}


# Plans in which queries differ in the conditions of an aggregate


def with_cases(plan: lo.Node) -> lo.Node | None:
    """The plan with the conditions of its lowest aggregate as selections; None where it has none with constants."""
    if isinstance(plan, lo.Aggregate):
        return _in_cases(plan)
    if len(plan.children) != 1:
        return None
    below = with_cases(plan.children[0])
    return None if below is None else plan.with_children((below,))


@dataclass(frozen=True)
class _Part:
    """What the argument of a call is where a condition holds."""

    condition: Expression
    value: Expression


_Parts = tuple[_Part, ...]


def _in_cases(node: lo.Aggregate) -> lo.Aggregate | None:
    if any(map(can_fail, node.computed)):
        return None
    calls = [_parts_of(call) for call in node.calls]
    known = [parts for parts in calls if parts is not None]
    if len(known) < len(calls) or all(part.condition == TRUE for parts in known for part in parts):
        return None
    conditions = list(dict.fromkeys(part.condition for parts in known for part in parts))
    if node.keys and TRUE not in conditions:
        conditions.append(TRUE)  # whatever else is asked, it says which groups there are
    if len(conditions) > _MOST_CASES:
        return None
    # Calls of the same have one column: what a call gives, and where it fails, must be of the same.
    arguments = list(dict.fromkeys(known))
    kinds = [parts[0].value.type for parts in arguments]
    columns = tuple((*node.keys, *_values_in(condition, arguments, kinds)) for condition in conditions)
    texts = {parts: str(call.argument) for call, parts in zip(node.calls, known, strict=True)}
    names = (*map(str, node.keys), *(texts[parts] for parts in arguments))
    rows = ph.Cases(node.input, tuple(conditions), columns, names)
    keys = tuple(Column(key.type, place, names[place]) for place, key in enumerate(node.keys))
    places = {parts: len(keys) + place for place, parts in enumerate(arguments)}
    found = (Column(parts[0].value.type, places[parts], names[places[parts]]) for parts in known)
    moved = (replace(call, argument=argument) for call, argument in zip(node.calls, found, strict=True))
    return lo.Aggregate(rows, keys, tuple(moved))


def _values_in(condition: Expression, calls: Sequence[_Parts], kinds: Sequence[DataType]) -> list[Expression]:
    """The arguments of calls in a case."""
    found: list[Expression] = []
    for parts, kind in zip(calls, kinds, strict=True):
        own = [part.value for part in parts if part.condition == condition]
        found.append(own[0] if own else Literal(kind, None))
    return found


def _parts_of(call: lo.AggregateCall) -> _Parts | None:
    """None where a call cannot be taken apart, and has to be for queries to have it in common."""
    argument = call.argument
    if argument is None:
        return (_Part(TRUE, _MARK),)
    function = canonical(call.function)
    if function not in _FUNCTIONS or call.distinct or call.definition is not None or call.others:
        return None
    if function == "count_if" and _has_constants(argument):
        return (_Part(argument, TRUE),)
    cases = list(dict.fromkeys(part for part in argument.walk() if isinstance(part, Case) and _differs(part)))
    if not cases:
        return (_Part(TRUE, argument),)
    if len(cases) > 1:
        return None
    (case,) = cases
    others: list[Expression] = []
    parts: list[_Part] = []
    for condition, value in (*case.branches, (TRUE, case.otherwise)):
        own = conjunction([*others, *conjuncts(condition)])
        parts.append(_Part(own, argument.transform(lambda e, v=value: v if e == case else e)))  # type: ignore[misc]
        others += conjuncts(_is_not_true(condition)) if condition != TRUE else []
    if len({part.condition for part in parts}) < len(parts):
        return None
    return tuple(part for part in parts if not _is_null(part.value)) or None


def _differs(case: Case) -> bool:
    return any(_has_constants(condition) for condition, _ in case.branches)


def _has_constants(condition: Expression) -> bool:
    return any(isinstance(part, Literal | Parameter) for part in condition.walk())


def _is_null(value: Expression) -> bool:
    while isinstance(value, Cast):
        value = value.argument
    return isinstance(value, Literal) and value.value is None


# Conditions that are not true: false or unknown


def _is_not_true(condition: Expression) -> Expression:
    if isinstance(condition, Call):
        if condition.function in ("and", "or"):
            return chained(_other(condition.function), [*map(_is_not_true, condition.arguments)])
        if condition.function == "not":
            return _is_not_false(condition.arguments[0])
    return chained("or", [Call(BOOLEAN, "not", (condition,)), *_unknown(condition)])


def _is_not_false(condition: Expression) -> Expression:
    if isinstance(condition, Call):
        if condition.function in ("and", "or"):
            return chained(_other(condition.function), [*map(_is_not_false, condition.arguments)])
        if condition.function == "not":
            return _is_not_true(condition.arguments[0])
    return chained("or", [condition, *_unknown(condition)])


def _other(function: str) -> str:
    return "or" if function == "and" else "and"


def _unknown(condition: Expression) -> list[Expression]:
    """One of these holds where a condition is NULL, said of columns and constants where that can be."""
    asked: tuple[Expression, ...] = (condition,)
    if isinstance(condition, Call) and condition.function in _NEVER_NULL:
        asked = ()
    elif isinstance(condition, Call) and condition.function in _STRICT:
        asked = condition.arguments
    elif isinstance(condition, InList) and all(
        isinstance(v, Literal) and v.value is not None for v in condition.values
    ):
        asked = (condition.argument,)
    return [Call(BOOLEAN, "isnull", (e,)) for e in asked if _may_be_null(e)]


def _may_be_null(value: Expression) -> bool:
    return not isinstance(value, Literal) or value.value is None


# What rows in cases are made of


@dataclass(frozen=True)
class CaseRows:
    """The rows of all cases as those of one core, the condition on them, and the columns that they have in common."""

    core: lo.Node
    condition: Expression
    columns: list[Expression]


def rows_in_cases(node: ph.Cases, core: lo.Node, condition: Expression, columns: Sequence[Expression]) -> CaseRows:
    """Given what the rows are that cases are of: columns of a core, where a condition holds."""

    def over_core(expression: Expression) -> Expression:
        return map_columns(expression, lambda column: columns[column.index])

    width, ahead = len(node.names), len(node.conditions)
    conditions = [over_core(each) for each in node.conditions]
    read = {e.index: e for each in (condition, *conditions) for e in each.walk() if isinstance(e, Column)}
    places = {index: ahead + width + place for place, index in enumerate(sorted(read))}
    behind = [read[index] for index in sorted(read)]
    marks = [Column(BIGINT, number, f"case {number}") for number in range(ahead)]
    asked = [_moved(condition, places)] if condition != TRUE else []
    sides: list[lo.Node] = []
    for number, own in enumerate(conditions):
        here: list[Expression] = [Literal(BIGINT, 1 if place == number else None) for place in range(ahead)]
        here += [*map(over_core, node.columns[number]), *behind]
        names = (*(mark.name for mark in marks), *node.names, *(column.name for column in behind))
        sides.append(lo.Project(core, tuple(here), names))
        if own != TRUE:
            other = Call(BOOLEAN, "isnull", (marks[number],))
            own = _of_constants(_moved(own, places), marks[number - 1])
            asked += [chained("or", [other, part]) for part in conjuncts(own)]
    rows = sides[0]
    for further in sides[1:]:
        rows = lo.SetOperation("union all", rows, further)
    shown: list[Expression] = [Column(f.type, ahead + place, f.name) for place, f in enumerate(node.schema)]
    return CaseRows(rows, conjunction(asked), shown)


def _moved(expression: Expression, places: dict[int, int]) -> Expression:
    return map_columns(expression, lambda column: replace(column, index=places[column.index]))


def _of_constants(condition: Expression, absent: Column) -> Expression:
    """The same condition, with what it asks of constants alone as something that indexes serve: a column that is NULL
    in all rows of a case is as a constant is only if that is NULL."""

    def indexed(part: Expression) -> Expression:
        if not (isinstance(part, Call) and part.function == "isnull" and isinstance(part.arguments[0], Parameter)):
            return part
        as_null = Case(BIGINT, ((part, Literal(BIGINT, None)),), Literal(BIGINT, 0))
        return Call(BOOLEAN, "<=>", (absent, as_null))

    return condition.transform(indexed)
