"""Neighbouring inner joins become one join of all their inputs: by SteMs, or as a tree that works just in time.

    (A ⋈ B) ⋈ C ...  =  ⋈(A, B, C, ...)

A tree stores what its inner joins give; SteMs store the inputs only, and join anew what a tree would look up. So SteMs
are chosen where an inner join is expected to give more rows than all inputs have together, the tree elsewhere. Without
columns that are equal in all inputs the rows of SteMs cannot be spread: on several shards the tree is chosen then.
`SET join_plan = 'tree'`, `'eddy'` or `'mjoin'` (SteMs in a fixed order) decides it without statistics.

A tree stays as it is, one step for each join, unless it is to work just in time: then its joins have to know of each
other, and become one step of the same shape. `just_in_time` says where that is worth it; `SET jit` decides it.

With `SET jit = on`, a join that is at several places of a plan is made once, as a tree of its own, and asked by those
places; so is one that something else than a join asks (`add_consumers`), and one that is what a view shows, since other
queries may read that view. Where a running query makes all of what a view shows, it is taken from there.

Conditions on a single input move below; projections in between are put off to the end. Joins with NON
RETROACTIVE tables are no part of it, since those meet whole combinations as of an instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import count

from millstream.kernel.joins.graph import JoinGraph, equal_column
from millstream.kernel.just_in_time.tree_shape import Nesting
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import (
    Call,
    Column,
    Expression,
    columns_used,
    conjunction,
    conjuncts,
    map_columns,
    shift_columns,
)
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.algebra.column_keys import extended
from millstream.plan.analysis.monotonic import is_non_retroactive
from millstream.plan.cost import estimate, made_joins
from millstream.plan.fingerprint import fingerprint, producer_of
from millstream.plan.just_in_time import is_just_in_time_cheaper
from millstream.plan.rules.add_consumers import Consumers, consumers_of
from millstream.plan.rules.context import Context
from millstream.plan.rules.merge_projections import merge_projections


def gather_joins(plan: lo.Node, context: Context) -> lo.Node:
    gathering = _Gathering(context)
    if context.choice.join_plan in ("auto", "tree"):
        gathering = gathering.keeping_apart(plan)
    gathered = gathering.visit(plan)
    return plan if gathered == plan else merge_projections(gathered, context)


@dataclass(frozen=True)
class _Cluster:
    """Neighbouring joins: their inputs, the conditions over the row of all inputs, and which of its columns show."""

    inputs: tuple[lo.Node, ...]
    conditions: tuple[Expression, ...]
    shown: tuple[int, ...]

    @property
    def width(self) -> int:
        return sum(len(node.schema) for node in self.inputs)


@dataclass(frozen=True)
class _Gathering:
    context: Context
    # Joins that are kept apart below others: views that a running query makes anyway, and what several may ask.
    made: frozenset[lo.Node] = frozenset()
    shared: frozenset[lo.Node] = frozenset()

    @property
    def apart(self) -> frozenset[lo.Node]:
        return self.made | self.shared

    def keeping_apart(self, plan: lo.Node) -> _Gathering:
        """The same, knowing which joins of a plan are wanted by others too."""
        clusters = [_joins(node) for node in plan.walk() if _is_member(node)]
        known = made_joins(self.context.statistics)
        views = {join for joins in clusters for join in joins if join.of_view}
        made = {join for join in views if known and self._fingerprint(join) in known}
        if self.context.choice.jit != "on":
            return replace(self, made=_largest(made))
        below_others = {join for _, *inner in clusters for join in inner}
        for_others = {join for join in views if known and producer_of(self._fingerprint(join, consumers=True)) in known}
        shared = _repeated(plan) | (views & below_others) | for_others
        return replace(self, made=_largest(made), shared=_largest(shared - made))

    def _fingerprint(self, join: lo.Join, *, consumers: bool = False) -> str:
        """Of the plan by which a join is made where it stands alone, or where it is asked."""
        standalone = replace(self, shared=frozenset([join])).visit(join) if consumers else self.visit(join)
        standalone = merge_projections(standalone, self.context)
        while isinstance(standalone, lo.Project):
            standalone = standalone.input
        return fingerprint(standalone)

    def visit(self, node: lo.Node, consumers: Consumers = ()) -> lo.Node:
        """Top-down, so that neighbours are seen together; something above may ask for some of the rows only."""
        if not _is_member(node):
            children = (
                self.visit(child, consumers_of(node, side, consumers)) for side, child in enumerate(node.children)
            )
            return node.with_children(tuple(children)) if node.children else node
        cluster = _cluster(node, self.apart)
        stems = _stems(cluster)
        outermost = _joins(node)[0]
        has_consumers = (bool(consumers) or outermost in self.shared) and outermost not in self.made
        joined = self._joined(node, cluster, stems, consumers=has_consumers)
        if joined is None:
            return self._tree(node)
        joined = replace(joined, inputs=tuple(self.visit(child) for child in stems.inputs))
        names = tuple(field.name for field in node.schema)
        columns = (Column(f.type, at, f.name) for f, at in zip(node.schema, stems.shown, strict=True))
        return lo.Project(joined, tuple(columns), names)

    def _joined(self, node: lo.Node, cluster: _Cluster, stems: _Cluster, *, consumers: bool) -> ph.ManyJoin | None:
        """All joins of a cluster as one, if they are to be."""
        condition, choice = conjunction(list(stems.conditions)), self.context.choice
        if consumers and len(cluster.inputs) > 1 and choice.jit == "on" and choice.join_plan in ("auto", "tree"):
            return ph.JoinTree(stems.inputs, condition, _shape(node, self.apart), choice.jit_detection)
        if choice.join_plan in ("eddy", "mjoin"):
            routing = "fixed" if choice.join_plan == "mjoin" else "ticket"
            return ph.StemJoin(stems.inputs, condition, routing, choice.jit == "on")
        if choice.join_plan == "auto" and self._is_worth_it(node, cluster, stems):
            return ph.StemJoin(stems.inputs, condition, jit=choice.jit == "on")
        if len(cluster.inputs) > 2 and self._is_just_in_time(node, stems):
            return ph.JoinTree(stems.inputs, condition, _shape(node, self.apart), choice.jit_detection)
        return None

    def _is_just_in_time(self, node: lo.Node, stems: _Cluster) -> bool:
        if self.context.choice.jit != "auto":
            return self.context.choice.jit == "on"
        if self.context.shards > 1 and not self._graph(stems).common_keys()[0]:
            return False  # as one step all its rows would be on one shard
        return is_just_in_time_cheaper(_joins(node), self.context.statistics)

    def _tree(self, node: lo.Node, *, first: bool = True) -> lo.Node:
        """The joins as they are, their inputs visited."""
        if not _is_member(node) or (node in self.apart and not first):
            return self.visit(node)
        return node.with_children(tuple(self._tree(child, first=False) for child in node.children))

    def _is_worth_it(self, node: lo.Node, cluster: _Cluster, stems: _Cluster) -> bool:
        if len(cluster.inputs) < 3:
            return False
        graph = self._graph(stems)
        if self.context.shards > 1 and graph.classes and not graph.common_keys()[0]:
            return False
        stored = sum(estimate(child, self.context.statistics).size for child in cluster.inputs)
        inner = [estimate(join, self.context.statistics).size for join in _joins(node)[1:]]
        return max(inner) > stored

    @staticmethod
    def _graph(stems: _Cluster) -> JoinGraph:
        return JoinGraph([len(child.schema) for child in stems.inputs], conjunction(list(stems.conditions)))


def _is_member(node: lo.Node) -> bool:
    """Whether a node is a join that can be gathered, or only picks columns or rows of one."""
    if isinstance(node, lo.Filter) and can_fail(node.condition):
        return False
    if isinstance(node, lo.Filter) or (isinstance(node, lo.Project) and all(map(_is_column, node.expressions))):
        return _is_member(node.input)
    if not (isinstance(node, lo.Join) and node.join == "inner"):
        return False
    return not any(is_non_retroactive(child) for child in node.children)


def _is_column(expression: Expression) -> bool:
    return isinstance(expression, Column)


def _joins(node: lo.Node) -> list[lo.Join]:
    """The joins of a cluster, the outermost first."""
    if not _is_member(node):
        return []
    own = [node] if isinstance(node, lo.Join) else []
    return own + [join for child in node.children for join in _joins(child)]


def _repeated(plan: lo.Node) -> set[lo.Join]:
    """The joins that are at several places."""
    found = Counter(node for node in plan.walk() if isinstance(node, lo.Join) and _is_member(node))
    return {node for node, number in found.items() if number > 1}


def _largest(joins: Collection[lo.Join]) -> frozenset[lo.Node]:
    """Those that are not below others of them."""
    within = {inner for node in joins for inner in node.walk() if inner is not node and inner != node}
    return frozenset(node for node in joins if node not in within)


def _shape(node: lo.Node, apart: frozenset[lo.Node]) -> Nesting:
    """How the joins of a cluster nest, its inputs numbered in order."""
    numbers = count()

    def shape(part: lo.Node) -> Nesting:
        if not _is_member(part) or (part in apart and part is not node):
            return next(numbers)
        if isinstance(part, lo.Join):
            return shape(part.left), shape(part.right)
        return shape(part.children[0])

    return shape(node)


def _cluster(node: lo.Node, apart: frozenset[lo.Node], *, first: bool = True) -> _Cluster:
    if not _is_member(node) or (node in apart and not first):
        return _Cluster((node,), (), tuple(range(len(node.schema))))
    parts = [_cluster(child, apart, first=False) for child in node.children]
    inputs, conditions, shown = parts[0].inputs, parts[0].conditions, parts[0].shown
    if isinstance(node, lo.Join):
        start = parts[0].width
        inputs += parts[1].inputs
        conditions += tuple(shift_columns(condition, start) for condition in parts[1].conditions)
        shown += tuple(index + start for index in parts[1].shown)
    if isinstance(node, lo.Join | lo.Filter):
        conditions += tuple(_moved(condition, shown) for condition in conjuncts(node.condition))
    if isinstance(node, lo.Project):
        shown = tuple(shown[e.index] for e in node.expressions if isinstance(e, Column))
    return _Cluster(inputs, conditions, shown)


def _moved(expression: Expression, positions: tuple[int, ...] | dict[int, int]) -> Expression:
    return map_columns(expression, lambda column: replace(column, index=positions[column.index]))


def _stems(cluster: _Cluster) -> _Cluster:
    """The cluster as SteMs take it: what concerns one input below, and equalities between columns only."""
    starts = [sum(len(node.schema) for node in cluster.inputs[:i]) for i in range(len(cluster.inputs))]
    owner = {start + i: n for n, start in enumerate(starts) for i in range(len(cluster.inputs[n].schema))}
    inputs, added = list(cluster.inputs), [list[Expression]() for _ in starts]
    conditions = []

    def place(expression: Expression) -> int | None:
        """The one input that an expression reads."""
        read = {owner[index] for index in columns_used(expression)}
        return read.pop() if len(read) == 1 else None

    def value(expression: Expression, at: int) -> Column:
        """A further column of the input; for now it is numbered after all others."""
        own = shift_columns(expression, -starts[at])
        if own not in added[at]:
            added[at].append(own)
        return Column(expression.type, cluster.width * (at + 1) + added[at].index(own), str(expression))

    for condition in cluster.conditions:
        at = place(condition)
        if at is not None:
            inputs[at] = _filtered(inputs[at], shift_columns(condition, -starts[at]))
            continue
        if isinstance(condition, Call) and condition.function in ("=", "<=>"):
            places = [place(side) for side in condition.arguments]
            if None not in places and places[0] != places[1]:
                sides = zip(condition.arguments, places, strict=True)
                condition = replace(
                    condition,
                    arguments=tuple(
                        side if equal_column(side) is not None or n is None else value(side, n) for side, n in sides
                    ),
                )
        conditions.append(condition)

    return _with_columns(cluster, inputs, added, conditions)


def _with_columns(
    cluster: _Cluster, inputs: list[lo.Node], added: list[list[Expression]], conditions: list[Expression]
) -> _Cluster:
    """The inputs with further columns, and everything that reads the row of all inputs moved accordingly."""
    positions: dict[int, int] = {}
    old = new = 0
    for n, node in enumerate(inputs):
        for index in range(len(node.schema)):
            positions[old + index] = new + index
        old, new = old + len(node.schema), new + len(node.schema)
        for index in range(len(added[n])):
            positions[cluster.width * (n + 1) + index] = new + index
        new += len(added[n])
    return _Cluster(
        tuple(extended(node, more) if more else node for node, more in zip(inputs, added, strict=True)),
        tuple(_moved(condition, positions) for condition in conditions),
        tuple(positions[index] for index in cluster.shown),
    )


def _filtered(node: lo.Node, condition: Expression) -> lo.Node:
    if isinstance(node, lo.Filter):
        return lo.Filter(node.input, conjunction([*conjuncts(node.condition), condition]))
    return lo.Filter(node, condition)
