"""A plan taken apart for mode LAZY (PSoup-P): what is matched as data comes, and what is done when a query is asked.

    Q = above(core_1, core_2, ..),    core = σπ⋈ over S_1 [w_1], .., S_n [w_n]

The matches of a core are its rows with the windows left out: all combinations of elements that satisfy its conditions
and lie within `kept` ticks of each other, each with the instants of its elements. Such a combination is in the core at
t iff every one of its elements is in its own window at t, which is arithmetic on these instants. So one set of matches
serves every query that differs in its windows and in what is computed from the rows: projections, duplicate
elimination, aggregates, set operations, outer joins and stream operators are left for the invocation.

Whatever else stands in a plan (tables, ROWS windows, streams made by other queries) has intervals of its own; it is
kept as EAGER keeps it, and takes part in matches with these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from millstream.kernel.aggregation.aggregate_calls import canonical
from millstream.kernel.lazy.ranked_tree import FUNCTIONS
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import Column, Expression, Parameter, columns_used, map_columns, value_if_any
from millstream.kernel.windows.time import ElementSpecification, Now, Range, TimeSpecification, Unbounded
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.algebra.error_relations import held
from millstream.plan.analysis.monotonic import is_non_retroactive
from millstream.plan.analysis.time_order import goes_by_order
from millstream.plan.fingerprint import fingerprint
from millstream.plan.shapes import generalised
from millstream.types import Field

# Rules that would spread what belongs to the invocation over the core, or cut columns that other queries need.
DISABLED_RULES = frozenset({"prune_columns", "push_distinct", "pull_up_negation"})


@dataclass(frozen=True)
class KeptPart:
    """A part of a plan that is kept: matches, with the windows to apply to their instants, or (without windows) a
    relation as it is."""

    plan: lo.Node
    windows: tuple[TimeSpecification, ...]
    identity: str = ""  # the same for all parts that differ only in how much they keep, and in constants
    kept: int | None = None
    core: lo.Node | None = None  # with its windows

    @property
    def is_timed(self) -> bool:
        """Whether its rows have intervals of their own."""
        return not self.windows or (isinstance(self.plan, ph.Matches) and self.plan.timed)

    @property
    def is_tree(self) -> bool:
        return isinstance(self.plan, ph.RankedTree)


@dataclass(frozen=True)
class LazyPlan:
    """`above` reads the parts as sources named `part_name(0)`, `part_name(1)`, ..; where the part is a tree, `upper` is
    what stands above the aggregate that it answers, which it reads as the source TREE."""

    parts: tuple[KeptPart, ...]
    above: lo.Node
    upper: lo.Node | None = None


@dataclass(frozen=True)
class NotLazy:
    """Why a plan is kept in another way."""

    reason: str


TREE = "_tree"


_PART = "_part"


def part_name(index: int) -> str:
    return f"{_PART}{index}"


# Of a core, by its identity: how many ticks its elements may lie apart at most (None for ever), and whether it is of
# one stream alone; gives how many are kept, which is no less.
Choose = Callable[[str, int | None, bool], int | None]


def lazy_plan(plan: lo.Node, choose: Choose) -> LazyPlan | NotLazy:
    if any(is_non_retroactive(node) for node in plan.walk()):
        return NotLazy("a NON RETROACTIVE table is joined as of the instant at which rows come")
    if goes_by_order(plan):
        return NotLazy("FIRST and LAST go by the order in which rows come")
    taking = _Taking(choose)
    fragile, whole = is_fragile(plan), plan
    plan = plan.input if isinstance(plan, lo.Checked) else plan
    above = taking.take(plan.input if isinstance(plan, lo.RelationToStream) else plan)
    if not any(part.windows for part in taking.parts):
        return NotLazy("it has no time-based window")
    if isinstance(plan, lo.RelationToStream):
        above = replace(plan, input=above)
    # What can fail is tried as rows come, whatever instants are asked for.
    guards = (KeptPart(ph.Guard(whole), ()),) if fragile else ()
    return LazyPlan((*taking.parts, *guards), above)


class _Taking:
    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.parts: list[KeptPart] = []

    def take(self, node: lo.Node) -> lo.Node:
        """The node with the parts below it replaced by scans of them."""
        if _is_core(node):
            return self._core(node)
        if isinstance(node, lo.Window | lo.TableScan) or node.kind == "stream":
            return self._scan(KeptPart(node, ()))
        return node.with_children(tuple(self.take(child) for child in node.children))

    def _core(self, node: lo.Node) -> lo.Node:
        projections: list[lo.Project] = []
        while isinstance(node, lo.Project):
            projections.append(node)
            node = node.input
        above: lo.Node = self._matches(node)
        for projection in reversed(projections):
            above = replace(projection, input=above)
        return above

    def _matches(self, node: lo.Node) -> ph.MatchScan:
        windows = _windows(node)
        needed = _reach(windows)
        identity = fingerprint(_matched(node, None).plan.transform(_without_constants))
        kept = self.choose(identity, needed, len(_leaves(node)) == 1)
        return self._scan(replace(_matched(node, kept), identity=identity, core=node))

    def _scan(self, part: KeptPart) -> ph.MatchScan:
        if part not in self.parts:
            self.parts.append(part)
        schema = part.plan.schema[: len(part.plan.schema) - len(part.windows)]
        return ph.MatchScan(part_name(self.parts.index(part)), schema, part.is_timed)


def is_fragile(plan: lo.Node) -> bool:
    """Whether something in it can fail."""
    return isinstance(plan, lo.Checked) or any(can_fail(e) for node in plan.walk() for e in node.computed)


def _without_constants(node: lo.Node) -> lo.Node:
    def general(expression: Expression) -> Expression:
        shape = generalised(expression)[0]
        return shape.transform(lambda e: Parameter(e.type, 0) if isinstance(e, Parameter) else e)

    return lo.map_expressions(node, general) if isinstance(node, lo.Filter | lo.Join) else node


def _is_core(node: lo.Node) -> bool:
    """Selections, projections and inner joins over windows and tables, some window being one that can be left out."""
    found = _leaves(node)
    return any(map(_is_liftable, found)) and all(isinstance(leaf, lo.Window | lo.TableScan) for leaf in found)


def _is_liftable(leaf: lo.Node) -> bool:
    return isinstance(leaf, lo.Window) and not isinstance(leaf.window, ElementSpecification)


def _windows(node: lo.Node) -> list[TimeSpecification]:
    """Those that can be left out of a core."""
    found = (leaf.window for leaf in _leaves(node) if isinstance(leaf, lo.Window))
    return [window for window in found if not isinstance(window, ElementSpecification)]


def _leaves(node: lo.Node) -> list[lo.Node]:
    return [leaf for child in node.children for leaf in _leaves(child)] if _is_inner(node) else [node]


def _is_inner(node: lo.Node) -> bool:
    return isinstance(node, lo.Filter | lo.Project | ph.ManyJoin | lo.Join) and not (
        isinstance(node, lo.Join) and node.join != "inner"
    )


def _on_columns(node: lo.Aggregate, columns: Sequence[Expression]) -> lo.Aggregate:
    """The aggregate of rows that have these columns."""
    names = tuple(map(str, columns))
    rows = lo.Project(node.input, tuple(columns), names)

    def column(expression: Expression) -> Expression:
        return Column(expression.type, columns.index(expression), str(expression))

    calls = tuple(call.over(column) for call in node.calls)
    return lo.Aggregate(rows, tuple(map(column, node.keys)), calls)


def columns_read(above: lo.Node, name: str) -> set[int] | None:
    """The columns that are read of a part, where only projections and aggregates read it; None for all."""
    used: set[int] = set()
    for node in above.walk():
        if any(isinstance(child, ph.MatchScan) and child.name == name for child in node.children):
            if not isinstance(node, lo.Project | lo.Aggregate):
                return None
            used.update(column for expression in node.computed for column in columns_used(expression))
    return None if isinstance(above, ph.MatchScan) else used


# Aggregates


def with_tree(found: LazyPlan, choose: Choose) -> LazyPlan:
    """The plan with a ranked tree in the place of matches, where all that is asked of these is an aggregate that a tree
    can answer, over elements that leave their windows in an order that is the same at all times."""
    part = found.parts[0]
    shifts = _shifts(part.windows)
    if len(found.parts) != 1 or shifts is None or part.is_timed or found.above.kind == "stream":
        return found
    scans = sum(isinstance(node, ph.MatchScan) for node in found.above.walk())
    aggregate = next((node for node in found.above.walk() if isinstance(node, lo.Aggregate) and _is_over(node)), None)
    if scans != 1 or aggregate is None or len(set(aggregate.keys)) < len(aggregate.keys):
        return found
    if not all(map(_can_be_in_tree, aggregate.calls)):
        return found
    composed = _composed(aggregate)
    columns = tuple(dict.fromkeys(composed.computed))
    own = _on_columns(composed, columns)

    def tree(kept: int | None) -> ph.RankedTree:
        if part.core is None:
            raise AssertionError("matches of nothing")
        rows = _matched(part.core, kept).plan.children[0]
        instants = [_column(rows.schema, len(rows.schema) - n) for n in range(len(part.windows), 0, -1)]
        timed = lo.Project(rows, (*columns, *instants), tuple(map(str, (*columns, *instants))))
        return ph.RankedTree(timed, len(instants), len(own.keys), own.calls, kept, shifts)

    identity = fingerprint(tree(None).transform(_without_constants))
    kept = choose(identity, _reach(part.windows), len(part.windows) == 1)
    schema = tuple(Field(str(column), column.type) for column in columns)
    above = replace(own, input=ph.MatchScan(part_name(0), schema, False))
    scan = ph.MatchScan(TREE, aggregate.schema, False)
    return LazyPlan(
        (replace(part, plan=tree(kept), identity=identity, kept=kept),),
        found.above.transform(lambda node: above if node == aggregate else node),
        found.above.transform(lambda node: scan if node == aggregate else node),
    )


def _reach(windows: Sequence[TimeSpecification]) -> int | None:
    """How many ticks elements may lie apart at most."""
    reaches = [window.reach for window in windows]
    return None if None in reaches else max(reach for reach in reaches if reach is not None)


def _shifts(windows: Sequence[TimeSpecification]) -> tuple[int | None, ...] | None:
    """By how much earlier elements leave than those of the longest window that ends, as negative numbers; None of those
    that never leave. Nothing where all windows are the same, None where that depends on the instant."""
    if len(set(windows)) == 1:
        return ()
    if not windows or any(_slide(window) is None for window in windows) or len(set(map(_slide, windows))) > 1:
        return None
    longest = _length(reference(windows)) or 0
    lengths = [_length(window) for window in windows]
    return tuple(None if length is None else length - longest for length in lengths)


def reference(windows: Sequence[TimeSpecification]) -> TimeSpecification:
    """The window that a tree is asked by: the longest that ends."""
    return max(windows, key=lambda window: -1 if (length := _length(window)) is None else length)


def _slide(window: TimeSpecification) -> int | None:
    """None of windows of which the first instant does not lag behind now by what their size says."""
    if isinstance(window, Range):
        return window.slide
    return 1 if isinstance(window, Now | Unbounded) else None


def _length(window: TimeSpecification) -> int | None:
    """How many ticks before the last slide the window begins; None where it never ends."""
    if isinstance(window, Range):
        return window.size - window.half_open
    return 0 if isinstance(window, Now) else None


def _can_be_in_tree(call: lo.AggregateCall) -> bool:
    return call.definition is None and not call.distinct and canonical(call.function) in FUNCTIONS


def _is_over(node: lo.Aggregate) -> bool:
    below = node.input
    while isinstance(below, lo.Project):
        below = below.input
    return isinstance(below, ph.MatchScan)


def _composed(node: lo.Aggregate) -> lo.Aggregate:
    """The aggregate over the rows themselves, what is projected on the way computed in it."""
    while isinstance(node.input, lo.Project):
        projection = node.input

        def over(expression: Expression, projection: lo.Project = projection) -> Expression:
            return map_columns(expression, lambda column: projection.expressions[column.index])

        calls = tuple(call.over(over) for call in node.calls)
        node = lo.Aggregate(projection.input, tuple(map(over, node.keys)), calls)
    return node


# Windows left out


@dataclass(frozen=True)
class _Lifted:
    """A core whose windows keep more: where its columns are, and the instants of its elements with their windows."""

    node: lo.Node
    columns: tuple[int, ...]
    instants: tuple[tuple[int, TimeSpecification], ...]
    timed: bool


def _matched(node: lo.Node, kept: int | None) -> KeptPart:
    window: TimeSpecification = Unbounded() if kept is None else Range(kept)
    lifted = _lift(node, window)
    order = [*lifted.columns, *(at for at, _ in lifted.instants)]
    schema = lifted.node.schema
    rows = lifted.node
    if order != list(range(len(schema))):
        rows = lo.Project(rows, tuple(_column(schema, at) for at in order), tuple(schema[at].name for at in order))
    windows = tuple(window for _, window in lifted.instants)
    return KeptPart(ph.Matches(rows, len(windows), kept, lifted.timed), windows, kept=kept)


def _lift(node: lo.Node, window: TimeSpecification) -> _Lifted:
    match node:
        case lo.Filter():
            below = _lift(node.input, window)
            # What is kept may lie further apart than the windows reach: whether it fails is for the guard to say.
            return replace(below, node=lo.Filter(below.node, held(_over(node.condition, below.columns))))
        case lo.Project():
            below = _lift(node.input, window)
            own = [_if_any(_over(expression, below.columns)) for expression in node.expressions]
            times = [_column(below.node.schema, at) for at, _ in below.instants]
            names = (*node.names, *(time.name for time in times))
            placed = tuple((len(own) + n, spec) for n, (_, spec) in enumerate(below.instants))
            return replace(
                below,
                node=lo.Project(below.node, (*own, *times), names),
                columns=tuple(range(len(own))),
                instants=placed,
            )
        case lo.Join(join="inner") | ph.ManyJoin():
            return _lift_join(node, [_lift(child, window) for child in node.children])
        case lo.Window(window=specification) if not isinstance(specification, ElementSpecification):
            stamped = ph.Stamped(lo.Window(node.input, window))
            width = len(node.schema)
            return _Lifted(stamped, tuple(range(width)), ((width, specification),), not _is_base(node.input))
        case _:
            return _Lifted(node, tuple(range(len(node.schema))), (), True)


def _if_any(expression: Expression) -> Expression:
    return value_if_any(expression) if can_fail(expression) else expression


def _lift_join(node: lo.Join | ph.ManyJoin, below: Sequence[_Lifted]) -> _Lifted:
    columns: list[int] = []
    instants: list[tuple[int, TimeSpecification]] = []
    width = 0
    for each in below:
        columns += (width + at for at in each.columns)
        instants += ((width + at, spec) for at, spec in each.instants)
        width += len(each.node.schema)
    condition = _over(node.condition, columns)
    nodes = tuple(each.node for each in below)
    joined: lo.Node
    if isinstance(node, ph.ManyJoin):
        joined = replace(node, inputs=nodes, condition=condition)
    else:
        joined = replace(node, left=nodes[0], right=nodes[1], condition=condition)
    return _Lifted(joined, tuple(columns), tuple(instants), any(each.timed for each in below))


def _is_base(stream: lo.Node) -> bool:
    """Elements one by one, each once; a derived stream may have several copies in one row."""
    while isinstance(stream, lo.Sample):
        stream = stream.input
    return isinstance(stream, lo.StreamScan)


def _over(expression: Expression, columns: Sequence[int]) -> Expression:
    return map_columns(expression, lambda column: replace(column, index=columns[column.index]))


def _column(schema: Sequence[Field], at: int) -> Column:
    return Column(schema[at].type, at, schema[at].name)


def in_ticks(kept: int | None) -> str:
    return "however far apart" if kept is None else f"within {kept} ticks"
