"""Columns that queries make with constants of their own: left for those who read the rows.

    π_c(X)   of queries that differ in constants of c   =   c over the rows of X, when one of them is read

So rows are made and kept once for all queries that want them, whatever they say beside them. A column that no row
matters for, such as a label, has no part in DISTINCT, ISTREAM or DSTREAM, and is put in front of readers above these;
others only where nothing compares the rows. What can fail must do so as rows come, and is not left for later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from millstream.kernel.scalar.evaluate import calls_users, can_fail
from millstream.kernel.scalar.expressions import (
    Call,
    Case,
    Column,
    Expression,
    InList,
    Literal,
    Parameter,
    Tried,
    columns_used,
    map_columns,
)
from millstream.plan import nodes as lo
from millstream.types import BIGINT, BOOLEAN

_SOMETHING = Literal(BIGINT, 1)


@dataclass(frozen=True)
class Taken:
    """A plan without what is left for readers: `own_columns` makes the columns of the answer of those of the plan, and
    is empty where these are the same."""

    plan: lo.Node
    own_columns: tuple[Expression, ...] = ()


def is_parametrised(expression: Expression) -> bool:
    return any(isinstance(part, Parameter) for part in expression.walk())


def with_general_labels(plan: lo.Node, first: int = 0) -> tuple[lo.Node, tuple[Literal, ...]]:
    """The plan with parameters, numbered from `first` on, for the constants that are columns of its answer by
    themselves, and these. A plan that has parameters says itself where queries differ."""
    above, projection = _top(plan)
    if projection is None or any(is_parametrised(e) for node in plan.walk() for e in node.computed):
        return plan, ()
    taken: list[Literal] = []

    def general(column: Expression) -> Expression:
        if not isinstance(column, Literal) or column.value is None or column.type == BOOLEAN:
            return column
        taken.append(column)
        return Parameter(column.type, first + len(taken) - 1)

    expressions = tuple(map(general, projection.expressions))
    return (_under(above, replace(projection, expressions=expressions)), tuple(taken)) if taken else (plan, ())


def with_general_constants(
    plan: lo.Node, is_row_wise: Callable[[lo.Node], bool], before: Sequence[Literal] = ()
) -> tuple[lo.Node, tuple[Literal, ...]]:
    """The plan with parameters, numbered after those before, for constants above the selections of its FROM list, and
    these. None where all of them are labels, or the plan says itself where queries differ."""
    if any(is_parametrised(e) for node in plan.walk() for e in node.computed):
        return plan, ()
    first = len(before)
    taken: list[Literal] = [*before]
    above: list[lo.Node] = []
    node = plan
    while node.children and (isinstance(node, lo.Project) or not is_row_wise(node)):
        above.append(node)
        node = node.children[0]
        if len(above[-1].children) > 1:  # they may differ on all sides
            changed = plan.transform(lambda n: n if _is_inner(n) else lo.map_expressions(n, _taking(taken)))
            return (changed, tuple(taken[first:])) if taken[first:] else (plan, ())
    for each in reversed(above):
        changed = _with_own_limit(lo.map_expressions(each, _taking(taken)), taken)
        node = changed.with_children((node,))
    labels = with_general_labels(plan)[1]
    return (node, tuple(taken[first:])) if len(taken) - first > len(labels) else (plan, ())


def _with_own_limit(node: lo.Node, taken: list[Literal]) -> lo.Node:
    """How many of the first rows are wanted is a constant too."""
    if not isinstance(node, lo.Top) or node.places.limit is None:
        return node
    taken.append(Literal(BIGINT, node.places.limit))
    return replace(node, places=replace(node.places, limit=None), limit=Parameter(BIGINT, len(taken) - 1))


def _is_inner(node: lo.Node) -> bool:
    return isinstance(node, lo.Join) and node.join == "inner"


# What is computed in the same way from columns: other functions may want constants, or be computed otherwise with them.
_PLAIN = frozenset(
    (
        *("=", "<>", "<", "<=", ">", ">=", "<=>", "and", "or", "not"),
        *("+", "-", "*", "/", "%", "div", "pmod", "&", "|", "^", "shiftleft", "shiftright"),
        *("abs", "sign", "power", "atan2", "floor", "ceil", "sqrt", "greatest", "least", "coalesce"),
        *("||", "concat", "concat_ws", "upper", "lower", "trim", "length", "substring", "left", "right"),
        *("replace", "instr", "locate", "startswith", "endswith", "contains"),
    )
)


def _taking(taken: list[Literal]) -> Callable[[Expression], Expression]:
    """Gives expressions with parameters for constants that are taken, unless they could fail only then, or call users'
    code, which is asked once for a row, and not once for each query."""

    def general(expression: Expression) -> Expression:
        if calls_users(expression):
            return expression
        found = list(taken)
        changed = with_parameters(expression, found)
        if can_fail(changed) and not can_fail(expression):
            return expression
        taken[:] = found
        return changed

    return general


def with_parameters(expression: Expression, taken: list[Literal]) -> Expression:
    """The expression with parameters for the constants of what is computed plainly, which are added to those taken."""
    if isinstance(expression, Literal):
        if expression.value is None or expression.type == BOOLEAN:
            return expression
        taken.append(expression)
        return Parameter(expression.type, len(taken) - 1)
    is_plain = type(expression) is Call and expression.function in _PLAIN
    if is_plain or isinstance(expression, Case | InList | Tried):
        return expression.with_children(tuple(with_parameters(child, taken) for child in expression.children))
    return expression


def taken_apart(plan: lo.Node) -> Taken:
    above, projection = _top(plan)
    if projection is None:
        return Taken(plan)
    compared = any(not _passes_on(node) for node in above)
    columns = [(column, _can_be_left(column, compared=compared)) for column in projection.expressions]
    if not any(is_left for _, is_left in columns):
        return Taken(plan)
    kept, own_columns = kept_apart(columns)
    return Taken(_under(above, lo.Project(projection.input, kept, tuple(map(str, kept)))), own_columns)


def kept_apart(
    columns: Sequence[tuple[Expression, bool]],
) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """Columns of which some are left for later: what is kept for them, and all of them over what is kept."""
    read = {e.index: e for column, is_left in columns if is_left for e in column.walk() if isinstance(e, Column)}
    below = [read[index] for index in sorted(read)]
    kept = list(dict.fromkeys((*(column for column, is_left in columns if not is_left), *below)))
    places = {column: Column(column.type, place, str(column)) for place, column in enumerate(kept)}
    own = (map_columns(column, lambda own: places[own]) if is_left else places[column] for column, is_left in columns)
    return tuple(kept) or (_SOMETHING,), tuple(own)


def _top(plan: lo.Node) -> tuple[list[lo.Node], lo.Project | None]:
    """The projection that makes the columns of an answer, and what stands above it and passes them on."""
    above: list[lo.Node] = []
    while isinstance(plan, lo.RelationToStream | lo.Distinct):
        above.append(plan)
        plan = plan.input
    return above, plan if isinstance(plan, lo.Project) else None


def _under(above: Sequence[lo.Node], node: lo.Node) -> lo.Node:
    for each in reversed(above):
        node = each.with_children((node,))
    return node


def _passes_on(node: lo.Node) -> bool:
    """Whether rows come out one by one as they are."""
    return isinstance(node, lo.RelationToStream) and node.operator == "rstream"


def _can_be_left(column: Expression, *, compared: bool) -> bool:
    return is_parametrised(column) and not (compared and columns_used(column)) and not can_fail(column)
