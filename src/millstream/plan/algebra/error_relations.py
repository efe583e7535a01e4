"""A plan that never fails, and its errors as rows: for those who read its value only where they choose to.

    R  =  quiet(R) where nothing in R fails,      errors(R) = { (keys of r, text) : something in R fails on r }

quiet(R) has NULL where a value fails and leaves out rows of which a condition does. A subquery in an expression is
attached to its block in this way: with its errors beside its value, it fails where CASE, COALESCE or AND come to it,
and nowhere else. What stands below a stream fails as it comes, whatever is read of it, and is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import (
    Call,
    Expression,
    conjunction,
    conjuncts,
    error_text,
    fails,
    possible,
    value_if_any,
)
from millstream.plan import nodes as lo
from millstream.plan.algebra.outer_joins import columns
from millstream.types import STRING


def held(condition: Expression) -> Expression:
    """True where the condition is; never fails, and equalities stay equalities, by which rows are hashed."""
    if not can_fail(condition):
        return condition
    if isinstance(condition, Call) and condition.function == "=":
        return replace(condition, arguments=tuple(map(tried, condition.arguments)))
    return value_if_any(condition)


def tried(expression: Expression) -> Expression:
    return value_if_any(expression) if can_fail(expression) else expression


def possibly(condition: Expression) -> Expression:
    return possible(condition) if can_fail(condition) else condition


@dataclass(frozen=True)
class Noted:
    """A relation of errors, and whether it comes from the source of the block that is looked at."""

    errors: lo.Failing
    source: bool


@dataclass(frozen=True)
class Errors:
    """Relations (keys.., text) of one number of keys. Those of the `source` of a block are errors whatever its rows
    are; others may be hidden by a row that suffices."""

    relations: tuple[lo.Node, ...]
    keys: int
    source: bool

    @property
    def plan(self) -> lo.Node:
        found = self.relations[0]
        for other in self.relations[1:]:
            found = lo.SetOperation("union all", found, other)
        return found

    @property
    def least(self) -> lo.Node:
        """One error for each of the keys."""
        own = columns(self.plan.schema)
        return lo.Aggregate(self.plan, own[: self.keys], (lo.AggregateCall("min", own[self.keys], False, STRING),))


@dataclass(frozen=True)
class _Place:
    """Expressions that can fail on rows that satisfy a condition."""

    rows: lo.Node
    fragile: tuple[Expression, ...]
    where: tuple[Expression, ...]
    source: bool


class ErrorSeparation:
    """Of a plan in which what can fail is placed, and of what is noted beside it; the first `keys` columns of rows that
    have them are a subquery's domain, and so many nodes on top do not belong to it."""

    def __init__(self, plan: lo.Node, noted: Iterable[Noted], keys: int = 0, *, above: int = 0) -> None:
        self._quiet: dict[int, tuple[lo.Node, lo.Node]] = {}
        places = [*_places(plan, -above), *(_Place(n.errors.input, n.errors.expressions, (), n.source) for n in noted)]
        self.plan = self.quiet(plan)
        found: dict[tuple[int, bool], list[lo.Node]] = {}
        for place in places:
            carried = keys if carries_domain(place.rows) else 0
            for fragile in place.fragile:
                relation = self._relation(place, fragile, carried)
                found.setdefault((carried, place.source), []).append(relation)
        self.errors = tuple(
            Errors(tuple(dict.fromkeys(relations)), carried, source) for (carried, source), relations in found.items()
        )

    @property
    def all_errors(self) -> Errors | None:
        """Where there are no keys."""
        relations = tuple(relation for errors in self.errors for relation in errors.relations)
        return Errors(relations, 0, True) if relations else None

    def quiet(self, node: lo.Node) -> lo.Node:
        if node.kind == "stream":
            return node
        known = self._quiet.get(id(node))
        if known is None:
            children = tuple(map(self.quiet, node.children))
            same = all(new is old for new, old in zip(children, node.children, strict=True))
            known = self._quiet[id(node)] = node, _without_errors(node if same else node.with_children(children))
        return known[1]

    def _relation(self, place: _Place, fragile: Expression, carried: int) -> lo.Node:
        rows = lo.Filter(self.quiet(place.rows), conjunction([*place.where, fails(fragile)]))
        own = columns(rows.schema)[:carried]
        return lo.Project(rows, (*own, error_text(fragile)), (*(column.name for column in own), "error"))


def _without_errors(node: lo.Node) -> lo.Node:
    if not any(map(can_fail, node.computed)):
        return node
    if isinstance(node, lo.Filter | lo.Join):
        return lo.map_expressions(node, lambda e: conjunction(list(map(held, conjuncts(e)))))
    return lo.map_expressions(node, tried)


def _places(node: lo.Node, blocks: int) -> Iterator[_Place]:
    """Where a plan computes what can fail: in the block on top, or in what that block is over."""
    if node.kind == "stream":
        return
    computed: Sequence[Expression] = node.computed
    where: Sequence[Expression] = ()
    if isinstance(node, lo.Filter):
        computed = conjuncts(node.condition)
        where = [*map(possibly, computed)]
    fragile = tuple(dict.fromkeys(filter(can_fail, computed)))
    if isinstance(node, lo.Project | lo.Aggregate | lo.SetOperation | lo.Distinct) and not (
        isinstance(node, lo.Project) and node.role
    ):
        blocks += 1
    if fragile and not isinstance(node, lo.Join):
        yield _Place(node.children[0], fragile, tuple(where), source=blocks > 1)
    for child in node.children:
        yield from _places(child, blocks)


def carries_domain(node: lo.Node) -> bool:
    """Whether the rows of a node begin with the domain of a subquery."""
    while node.children:
        if isinstance(node, lo.Project) and node.role == "domain":
            return True
        node = node.children[0]
    return False
