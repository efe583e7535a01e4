"""Queries as rows: a plan split into what many queries have in common and what one of them asks of it.

    K(σ_p(X))   of many queries that differ in p only   =   K'(Selection(X)),   K' keeping the queries apart

The core X is a FROM list: windows, tables and inner joins, without any selection, so that it serves queries that come
later too. All selections on it are pulled up into one condition p, of which constants are taken out: what is left is
the query's shape, and the constants are its row in the query table. What stands above (the skeleton K) is lifted: as
long as it looks at single rows, these carry the set of queries that want them; where a query's own state begins, each
query gets its own rows, and its number becomes a column that everything is kept apart by.

A plan may be split elsewhere (`Cut`): queries that differ in HAVING have their aggregate in common, which is then the
core. What columns are made of by a query's own constants is left for its readers (`plan/own_columns.py`). Queries with
windows of different sizes on a stream have its elements in common, and are given them for so long (`QueryWindow`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import takewhile
from typing import Literal as OneOf

from millstream.kernel.aggregation.aggregate_calls import BOOLEANS, VARIANCES, canonical
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import (
    TRUE,
    Call,
    Column,
    Expression,
    Literal,
    Parameter,
    Reported,
    Tried,
    chained,
    conjunction,
    conjuncts,
    map_columns,
    shift_columns,
)
from millstream.kernel.sharing.query_windows import SizedWindow
from millstream.kernel.windows.time import Now, Rows, UserWindow
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.fails_outside import fails_outside_selections
from millstream.plan.analysis.monotonic import is_non_retroactive
from millstream.plan.cases import rows_in_cases, with_cases
from millstream.plan.cells import can_be_summed_in_cells
from millstream.plan.own_columns import (
    Taken,
    is_parametrised,
    kept_apart,
    taken_apart,
    with_general_constants,
    with_general_labels,
)
from millstream.plan.own_windows import parametrised_window, stamped_join
from millstream.plan.parted import PartRows, part_schema, put_together
from millstream.plan.shapes import COMPARISONS, Shape, constants_of, generalised
from millstream.plan.tags import TAGS
from millstream.types import BIGINT, BOOLEAN

# Aggregates that do not see NULL, so that a row of NULLs makes a group exist and changes nothing else.
_BLIND_TO_NULL = {"count", "sum", "avg", "min", "max", *VARIANCES, *BOOLEANS}
QUERY_ROWS = "_queries-"  # what the names of query tables as sources begin with

# Where queries begin to differ: in what they select of the FROM list, or of what is computed from it (HAVING), or in
# how many of its first rows they want; or also in constants that stand anywhere above the FROM list; or also in how
# long elements stay in the window on a stream. "everywhere" is both.
Cut = OneOf["from", "computed", "limit", "cases", "anywhere", "window", "everywhere"]
CUTS: tuple[Cut, ...] = "computed", "from", "limit", "window", "cases", "anywhere", "everywhere"


@dataclass(frozen=True)
class Split:
    """A query taken apart: `core`, its condition over the core's columns, and what is made of the rows that satisfy it:
    the columns of the first projection, and the operators above, lowest first. What these give is made the query's own
    rows by `own_columns`, where that is not empty; the constants that were taken out of it are the first parameters."""

    core: lo.Node
    condition: Expression
    columns: tuple[Expression, ...]
    names: tuple[str, ...]
    above: tuple[lo.Node, ...]
    own_columns: tuple[Expression, ...] = ()
    constants: tuple[Literal, ...] = ()
    cut: Cut = "from"

    @cached_property
    def skeleton(self) -> tuple[object, ...]:
        """What queries of a group have in common."""
        return self.core, self.columns, tuple(_as_such(node) for node in self.above)

    @cached_property
    def parameters(self) -> tuple[int, ...]:
        """Those that stand in what is made of the selected rows, and not in the condition alone."""
        nodes = [node for each in self.above for node in (each.plan.walk() if isinstance(each, ph.Parted) else (each,))]
        expressions = (*self.columns, *(e for node in nodes for e in node.computed))
        return tuple(sorted({e.index for each in expressions for e in each.walk() if isinstance(e, Parameter)}))

    @property
    def window(self) -> SizedWindow | None:
        """Of each query, where these may have windows of any sizes, or any limits."""
        if isinstance(self.core, ph.SizedRows | ph.SizedTop):
            return SizedWindow("rows", True, (self.core.place,))
        return self.above[0].window if self.above and isinstance(self.above[0], ph.QueryWindow) else None

    @property
    def is_join(self) -> bool:
        return isinstance(self.core, lo.Join | ph.ManyJoin)


def shape_of(found: Split) -> tuple[Shape, tuple[object, ...]]:
    """What a query asks with its constants taken out, and these constants."""
    general, taken = generalised(found.condition, len(found.constants))
    taken = [*found.constants, *taken]
    shape = Shape(general, tuple(literal.type for literal in taken), found.own_columns)
    return shape, tuple(literal.value for literal in taken)


def _as_such(node: lo.Node) -> tuple[object, ...]:
    """An operator, whatever it stands on."""
    own = (part.name for part in fields(node) if part.compare and part.name != "input")
    return TAGS[type(node)], *(getattr(node, name) for name in own)


def splits(plan: lo.Node) -> list[Split]:
    """The ways in which a plan can be split, those that have more in common first."""
    found = [found for cut in CUTS if (found := split(plan, cut)) is not None]
    if _differs_in_cases(plan):
        found.sort(key=lambda each: each.cut != "cases")
    return found


def _differs_in_cases(plan: lo.Node) -> bool:
    """Whether a plan says itself that queries differ in what an aggregate computes."""
    aggregates = (node for node in plan.walk() if isinstance(node, lo.Aggregate))
    return any(is_parametrised(e) for node in aggregates for e in node.computed)


def split(plan: lo.Node, cut: Cut = "from") -> Split | None:
    """None where there is nothing to take out, or something that cannot keep queries apart."""
    if cut in ("window", "everywhere"):
        return _split_at_window(plan, cut)
    if cut == "limit":
        return _split_at_limit(plan)
    if cut == "cases":
        return _split_in_cases(plan)
    if cut == "anywhere":
        plan, constants = with_general_constants(plan, _differs_in_selections)
        if not constants and not any(is_parametrised(e) for node in plan.walk() for e in node.computed):
            return None  # there are no others than in WHERE
    else:
        plan, constants = with_general_labels(plan)
    found = _split(taken_apart(plan), cut)
    if found is None or _differs_elsewhere(found):
        return None
    return replace(found, constants=constants, cut=cut)


def _split_in_cases(plan: lo.Node) -> Split | None:
    """Queries differ in the conditions of an aggregate, which is the same for all of them where these hold."""
    found = with_cases(plan)
    if found is None:
        return None
    taken, constants = with_general_constants(found, _differs_in_selections)
    in_cases = _split(taken_apart(taken), "cases")
    if in_cases is None or _differs_elsewhere(in_cases):
        return None
    if not can_be_summed_in_cells(in_cases.core, in_cases.columns, in_cases.above, retracting=False):
        return None  # rows would be expanded, once for each case
    return replace(in_cases, constants=constants, cut="cases")


def _split_at_limit(plan: lo.Node) -> Split | None:
    """How many of the first rows queries want is all that they differ in, beside labels."""
    plan, constants = with_general_labels(plan, 1)
    taken = taken_apart(plan)
    above: list[lo.Node] = []
    node = taken.plan
    while not isinstance(node, lo.Top):
        if not (can_be_lifted(node) and len(node.children) == 1):
            return None
        above.append(node)
        node = node.children[0]
    places = node.places
    if places.limit is None or places.with_ties or node.order.partition or not _is_common(node.input):
        return None
    if not any(isinstance(n, lo.StreamScan) for n in node.input.walk()):
        return None
    if any(can_fail(e) or is_parametrised(e) for each in above for e in each.computed):
        return None
    core = ph.SizedTop(node.input, node.order, ph.most_places(places))
    columns = tuple(Column(f.type, index, f.name) for index, f in enumerate(node.schema))
    wanted = Call(BOOLEAN, "=", (Column(BIGINT, len(node.schema), "limit"), Parameter(BIGINT, 0)))
    names = tuple(f.name for f in node.schema)
    own, limit = taken.own_columns, Literal(BIGINT, places.limit)
    return Split(core, wanted, columns, names, tuple(reversed(above)), own, (limit, *constants), "limit")


def _split_at_window(plan: lo.Node, cut: Cut) -> Split | None:
    """What queries select of a stream is the same, however long it stays in their windows. What fails does so as long
    as it stays, so that nothing of it may."""
    scans = [node for node in plan.walk() if isinstance(node, lo.Window) and isinstance(node.input, lo.StreamScan)]
    if not scans or any(is_parametrised(e) for node in plan.walk() for e in node.computed):
        return None
    taken = parametrised_window(scans[0].window)
    if taken is None:
        return None
    window, sizes = taken
    if len(scans) > 1:
        sizes = sizes[:1] * len(scans)  # as many as there are windows
    if cut == "everywhere":
        plan, constants = with_general_constants(plan, _differs_in_selections, sizes)
        if not constants:
            return None
    else:
        plan, constants = with_general_labels(plan, len(sizes))
    found = _split(taken_apart(plan), cut)
    if found is None or (len(scans) == 1 and found.core != scans[0]):
        return None
    row_wise = takewhile(lambda node: isinstance(node, lo.Filter | lo.Project), found.above)
    if any(map(can_fail, (found.condition, *found.columns, *(e for node in row_wise for e in node.computed)))):
        return None
    if len(scans) > 1:
        return _with_windows_of_join(found, len(scans), constants, cut)
    if isinstance(scans[0].window, Rows):
        return _with_counted_rows(replace(found, constants=(*sizes, *constants), cut=cut), scans[0], scans[0].window)
    elements = replace(scans[0], window=Now())
    own = ph.QueryWindow(elements, window)
    return replace(found, core=elements, above=(own, *found.above), constants=(*sizes, *constants), cut=cut)


def _with_windows_of_join(found: Split, scans: int, constants: tuple[Literal, ...], cut: Cut) -> Split | None:
    """The sizes of the windows that are joined are the first parameters."""
    joined = stamped_join(found.core)
    if joined is None or len(joined.sizes) != scans:
        return None
    return replace(
        found,
        core=joined.core,
        condition=joined.moved(found.condition),
        columns=tuple(map(joined.moved, found.columns)),
        above=(ph.QueryWindow(joined.core, joined.window), *found.above),
        constants=(*joined.constants, *constants),
        cut=cut,
    )


def _with_counted_rows(found: Split, scan: lo.Window, window: Rows) -> Split:
    """The size of a window that counts rows is the first parameter: it says which of the rows that leave are left."""
    core = ph.SizedRows(scan.input, replace(window, rows=ph.most_rows(window.rows)))
    size = Column(BIGINT, len(scan.schema), "size")
    own = Call(BOOLEAN, "or", (Call(BOOLEAN, "isnull", (size,)), Call(BOOLEAN, "=", (size, Parameter(BIGINT, 0)))))
    condition = own if found.condition == TRUE else conjunction([found.condition, own])
    return replace(found, core=core, condition=condition)


def _split(taken: Taken, cut: Cut) -> Split | None:
    above: list[lo.Node] = []
    node = taken.plan
    while not (isinstance(node, lo.Filter | lo.Project) if cut == "computed" else _is_row_wise(node)):
        if not can_be_lifted(node):
            return _split_in_parts(taken) if cut == "anywhere" else None
        above.append(node)
        node = node.children[0]
    leaf = _computed_leaf(node) if cut == "computed" else None
    if (cut == "computed" and leaf is None) or fails_outside_selections(node):
        return None
    pulled = _pull(node, leaf)
    above.reverse()
    own = [*taken.own_columns, *pulled.columns, *(e for each in above for e in each.computed)]
    if pulled.condition == TRUE and cut != "window" and not any(map(is_parametrised, own)):
        return None
    if not any(isinstance(n, lo.StreamScan) for n in pulled.core.walk()):
        return None
    condition = _once(pulled.condition) if leaf is None else _with_indexes(_once(pulled.condition))
    names = tuple(f.name for f in node.schema)
    return Split(pulled.core, condition, tuple(pulled.columns), names, tuple(above), taken.own_columns)


def _split_in_parts(taken: Taken) -> Split | None:
    """Where queries differ on several sides of joins and set operations, nothing can fail, and it does not matter when
    rows were generated."""
    if any(map(is_non_retroactive, taken.plan.walk())):
        return None
    if any(isinstance(n, lo.Checked | lo.Failing) or any(map(can_fail, n.computed)) for n in taken.plan.walk()):
        return None
    parts: list[PartRows] = []
    above = _with_parts(taken.plan, parts, expanded=True)
    if above is None or not parts:
        return None
    together = put_together(parts)
    core = together.core
    if not any(isinstance(n, lo.StreamScan) for n in core.walk()):
        return None
    columns = tuple(Column(f.type, index, f.name) for index, f in enumerate(core.schema))
    core_names = tuple(column.name for column in columns)
    parted = ph.Parted(core, above, together.slots)
    return Split(core, conjunction(together.conditions), columns, core_names, (parted,), taken.own_columns)


def _with_parts(node: lo.Node, parts: list[PartRows], *, expanded: bool) -> lo.Node | None:
    """The plan over scans of parts, which are added to those; where it is `expanded`, as rows of each query."""
    leaf = node
    while isinstance(leaf, lo.Filter | lo.Project):
        leaf = leaf.input
    if not expanded and _is_common(node):
        return node
    is_common = leaf.kind == "relation" and _is_common(leaf)
    if is_common or _is_row_wise(node):
        pulled = _pull(node, leaf if is_common else None)
        kept, columns = kept_apart([(column, is_parametrised(column)) for column in pulled.columns])
        parts.append(PartRows(pulled.core, conjuncts(pulled.condition), kept))
        scan = ph.PartScan(len(parts) - 1, part_schema(kept))
        return lo.Project(scan, columns, tuple(f.name for f in node.schema))
    match node:
        case lo.SetOperation():
            sides = [_with_parts(child, parts, expanded=True) for child in node.children]
        case lo.Join():
            # Whose constants are looked at, or without partner is there, is there for a query.
            is_own = is_parametrised(node.condition) or node.join == "full"
            wanted = is_own or node.join not in ("inner", "right"), is_own or node.join == "right"
            sides = [
                _with_parts(child, parts, expanded=each) for child, each in zip(node.children, wanted, strict=True)
            ]
        case _ if can_be_lifted(node) and len(node.children) == 1:
            sides = [_with_parts(node.children[0], parts, expanded=True)]
        case _:
            return None
    found = [side for side in sides if side is not None]
    return node.with_children(tuple(found)) if len(found) == len(sides) else None


def _computed_leaf(node: lo.Node) -> lo.Node | None:
    """What selections and projections on the top of a plan read, if it is more than a FROM list and the same for all
    queries. What can fail there fails for reasons of its own."""
    while isinstance(node, lo.Filter | lo.Project):
        node = node.input
    return node if node.kind == "relation" and not _is_row_wise(node) and _is_common(node) else None


def _with_indexes(condition: Expression) -> Expression:
    """The same condition with comparisons that indexes serve of aggregates that may have no value:

    f(a) = v   is   (v, or there is none) AND what fails where there is none
    """
    found: list[Expression] = []
    for part in conjuncts(condition):
        is_comparison = isinstance(part, Call) and part.function in COMPARISONS
        reported = [argument for argument in part.children if is_comparison and isinstance(argument, Reported)]
        if not reported or not isinstance(part, Call):
            found.append(part)
            continue
        values = tuple(a.value if isinstance(a, Reported) else a for a in part.arguments)
        missing = [Call(BOOLEAN, "isnotnull", (a.error,)) for a in reported]
        found.append(chained("or", [Call(BOOLEAN, part.function, values), *missing]))
        found += [Reported(BOOLEAN, Call(BOOLEAN, "isnull", (a.error,)), a.error, a.hint) for a in reported]
    return conjunction(list(dict.fromkeys(found)))


def _once(condition: Expression) -> Expression:
    """A condition that must be true need not be possible too."""
    parts = conjuncts(condition)
    return conjunction([p for p in parts if not (isinstance(p, Tried) and p.argument in parts)])


def _differs_elsewhere(found: Split) -> bool:
    """Whether queries have constants where they cannot be told apart: in what is joined, or in what is kept for mode
    LAZY."""
    expressions = [e for node in found.core.walk() for e in node.computed]
    if any(isinstance(node, ph.Matches | ph.RankedTree) for node in found.above):
        expressions += [*found.columns, *(e for node in found.above for e in node.computed)]
    return any(map(is_parametrised, expressions))


def _is_equality(expression: Expression) -> bool:
    """By which a join finds pairs: taken out of it, it would leave all of them."""
    return isinstance(expression, Call) and expression.function == "="


def _is_row_wise(node: lo.Node) -> bool:
    """Selections, projections and inner joins of windows on base streams and of tables; and such rows with partners, or
    without any, among others that are the same for all queries: outer joins, EXISTS and IN leave them as they are."""
    match node:
        case lo.Filter() | lo.Project():
            return _is_row_wise(node.input)
        case lo.Join(join="inner") | ph.ManyJoin():
            return not any(is_non_retroactive(child) for child in node.children) and all(
                _is_row_wise(child) for child in node.children
            )
        case lo.Join() if is_parametrised(node.condition):
            return False
        case lo.Join(join="left" | "semi" | "anti"):
            return _is_row_wise(node.left) and _is_common(node.right)
        case lo.Join(join="right"):
            return _is_row_wise(node.right) and _is_common(node.left)
        case lo.Join(join="full"):
            return _is_common(node)
        case lo.Window():
            return isinstance(node.input, lo.StreamScan | lo.Sample) and all(
                isinstance(below, lo.StreamScan | lo.Sample) for below in node.input.walk()
            )
        case lo.Bounds():
            return _is_row_wise(node.input)
        case ph.Cases():
            return _is_stream_in_window(node.input)
        case ph.Stamped():
            return isinstance(node.input, lo.Window) and _is_row_wise(node.input)
        case lo.TableScan():
            return True
        case _:
            return False


def _is_stream_in_window(node: lo.Node) -> bool:
    """Whether it selects rows of a stream: a join would make all pairs, whatever is selected of what it is part of."""
    while isinstance(node, lo.Filter | lo.Project):
        node = node.input
    return isinstance(node, lo.Window) and _is_row_wise(node)


def _differs_in_selections(node: lo.Node) -> bool:
    """Whether it is row-wise, and has no constants in what its rows are looked for in."""
    outer = [n for n in node.walk() if isinstance(n, lo.Join) and n.join != "inner"]
    sides = (side for n in outer for side in n.children if side is not _selected_side(n))
    looked_for = (e for side in sides for below in side.walk() for e in below.computed)
    constants = (e for e in (*looked_for, *(n.condition for n in outer)) if constants_of(e))
    return _is_row_wise(node) and next(constants, None) is None


def _selected_side(join: lo.Join) -> lo.Node | None:
    """The side all of whose rows an outer join leaves as they are, or looks for partners of."""
    return {"full": None, "right": join.right}.get(join.join, join.left)


def _is_common(node: lo.Node) -> bool:
    """Whether it is the same for all queries, and nothing in it can fail."""
    return not any(
        isinstance(below, lo.Checked | lo.Failing)
        or is_non_retroactive(below)
        or any(can_fail(e) or is_parametrised(e) for e in below.computed)
        for below in node.walk()
    )


def can_be_lifted(node: lo.Node) -> bool:
    """Whether rows of many queries can be kept apart by it."""
    match node:
        case lo.Window(window=UserWindow()):
            return False
        case lo.Filter() | lo.Project() | lo.Distinct() | lo.RelationToStream() | lo.Window() | lo.Top() | lo.Over():
            return True
        case lo.Unnest() | ph.Matches() | ph.RankedTree():
            return True
        case lo.Aggregate():
            return bool(node.keys) or all(
                canonical(call.function) in _BLIND_TO_NULL and call.definition is None for call in node.calls
            )
        case _:
            return False


@dataclass(frozen=True)
class _Pulled:
    """A row-wise plan as columns of the rows of a core that satisfy a condition."""

    core: lo.Node
    condition: Expression
    columns: list[Expression]


def _pull(node: lo.Node, leaf: lo.Node | None = None) -> _Pulled:
    """Down to a leaf, or to what rows come from."""
    match node:
        case _ if node is leaf:
            pass
        case lo.Filter():
            below = _pull(node.input, leaf)
            own = _over(node.condition, below.columns)
            return replace(below, condition=conjunction([*conjuncts(below.condition), *conjuncts(own)]))
        case lo.Project():
            below = _pull(node.input, leaf)
            return replace(below, columns=[_over(e, below.columns) for e in node.expressions])
        case lo.Bounds():
            return _pull_bounds(node)
        case ph.Cases():
            return _pull_cases(node, leaf)
        case lo.Join(join="full"):
            pass
        case lo.Join(join="left" | "semi" | "anti"):
            return _pull_left(node)
        case lo.Join(join="right"):
            return _pull_right(node)
        case lo.Join() | ph.ManyJoin():
            return _pull_join(node)
        case _:
            pass
    return _Pulled(node, TRUE, [Column(f.type, index, f.name) for index, f in enumerate(node.schema)])


def _pull_bounds(node: lo.Bounds) -> _Pulled:
    """What is selected of rows is so of all that they are cut into."""
    below = _pull(node.input)
    core = replace(node, input=below.core)
    width = len(below.core.schema)
    bounds = [Column(f.type, width + index, f.name) for index, f in enumerate(core.schema[width:])]
    return _Pulled(core, below.condition, [*below.columns, *bounds])


def _pull_cases(node: ph.Cases, leaf: lo.Node | None) -> _Pulled:
    below = _pull(node.input, leaf)
    rows = rows_in_cases(node, below.core, below.condition, below.columns)
    return _Pulled(rows.core, rows.condition, rows.columns)


def _pull_join(node: lo.Join | ph.ManyJoin) -> _Pulled:
    if isinstance(node, ph.ManyJoin):
        # What the queries of a group need is known above it only.
        node = replace(node, consumers=(), shared=False)
    inputs = [_pull(child) for child in node.children]
    conditions: list[Expression] = []
    columns: list[Expression] = []
    width = 0
    for pulled in inputs:
        conditions += conjuncts(shift_columns(pulled.condition, width))
        columns += (shift_columns(column, width) for column in pulled.columns)
        width += len(pulled.core.schema)
    cores, condition = tuple(pulled.core for pulled in inputs), _over(node.condition, columns)
    own = [part for part in conjuncts(condition) if is_parametrised(part) and not _is_equality(part)]
    if own:  # above the join, where each query has constants of its own
        conditions += own
        condition = conjunction([part for part in conjuncts(condition) if part not in own])
    core: lo.Node
    if isinstance(node, ph.ManyJoin):
        core = replace(node, inputs=cores, condition=condition)
    else:
        core = lo.Join(cores[0], cores[1], "inner", condition)
    return _Pulled(core, conjunction(conditions), columns)


def _pull_left(node: lo.Join) -> _Pulled:
    """What is selected of the left rows is so of what becomes of them."""
    left = _pull(node.left)
    width = len(left.core.schema)
    right = [Column(f.type, width + index, f.name) for index, f in enumerate(node.right.schema)]
    core = replace(node, left=left.core, condition=_over(node.condition, [*left.columns, *right]))
    return _Pulled(core, left.condition, [*left.columns, *right] if node.join == "left" else left.columns)


def _pull_right(node: lo.Join) -> _Pulled:
    """The same of the right rows."""
    right = _pull(node.right)
    width = len(node.left.schema)
    left = [Column(f.type, index, f.name) for index, f in enumerate(node.left.schema)]
    columns = [*left, *(shift_columns(column, width) for column in right.columns)]
    core = replace(node, right=right.core, condition=_over(node.condition, columns))
    return _Pulled(core, shift_columns(right.condition, width), columns)


def _over(expression: Expression, columns: Sequence[Expression]) -> Expression:
    return map_columns(expression, lambda column: columns[column.index])
