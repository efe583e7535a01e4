"""Lifting: what stands above the selection of a split plan, over the rows of many queries.

As long as it looks at single rows, these carry the set of queries that want them. Where a query's own state begins, or
constants of its own are needed, each query gets its own rows, its number in front.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from millstream.kernel.ordering.sort_keys import RowOrder
from millstream.kernel.scalar.expressions import Column, Expression, Literal, Parameter, shift_columns
from millstream.kernel.sharing.query_windows import SizedWindow
from millstream.kernel.windows.time import RangeOn, Rows, Sessions
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.time_order import goes_by_order
from millstream.plan.cells import can_be_summed_in_cells, summed_in_cells
from millstream.plan.fingerprint import fingerprint
from millstream.plan.grouping import QUERY_ROWS, Split, can_be_lifted
from millstream.plan.parted import joined_by_query, rows_of_part
from millstream.types import BIGINT, Field

_PRESENT = Literal(BIGINT, 1)


@dataclass(frozen=True)
class Lifted:
    """A plan for all queries of a group. Where it is `expanded`, the query is the first column of its rows; else rows
    carry the set of queries that want them. `group` names the rows of QueryRows, if it has such. Where rows are totals
    of cells, `upper` is what is done with those of queries that are asked, the place of each in front."""

    plan: lo.Node
    expanded: bool
    group: str
    upper: lo.Node | None = None


def lift(split: Split, key: Expression | None, shapes: Mapping[str, Expression], *, retracting: bool = False) -> Lifted:
    """With `retracting` windows take rows back, instead of foretelling when they end."""
    group = QUERY_ROWS + fingerprint((split.skeleton, key))
    if split.above and isinstance(split.above[0], ph.Matches):
        matches = split.above[0]
        held = matches.instants, matches.kept, matches.timed
        plan = ph.MatchedSelection(split.core, group, key, split.columns, *held, split.names, shapes)
        return Lifted(plan, expanded=False, group=group)
    if split.above and isinstance(split.above[0], ph.RankedTree):
        tree = split.above[0]
        asked = tree.instants, tree.keys, tree.calls, tree.kept, tree.shifts
        trees = ph.TreeSelection(split.core, group, key, split.columns, *asked, split.names, shapes)
        return Lifted(trees, expanded=False, group=group)
    selection, above = ph.Selection(split.core, group, key, shapes), split.above
    window = None
    if above and isinstance(above[0], ph.QueryWindow):
        window, above = above[0].window, above[1:]
    if key is None and can_be_summed_in_cells(split.core, split.columns, above, retracting=retracting):
        cells = summed_in_cells(selection, split.columns, above[0], window)
        upper = _Lifting(cells.combined, True, group)
        for node in above[1:]:
            upper.add(node, last=False)
        return Lifted(cells.checked(upper.plan), expanded=False, group=group, upper=upper.plan)
    lifting = _Lifting(selection, key is not None, group, window=window)
    if window is not None and window.instants:
        lifting.show_in_window()  # while the instants of elements are there
    lifting.project(split.columns, split.names)
    for node in above:
        lifting.add(node, last=node is above[-1])
    lifting.show_in_window()
    return Lifted(lifting.plan, lifting.expanded, lifting.group)


def lifted_above(plan: lo.Node, group: str) -> lo.Node | None:
    """What is done with the rows of one query that is asked, for many of them: over rows with the query in front, and
    with it in front. None where it is more than one operator above the other."""
    above: list[lo.Node] = []
    while not isinstance(plan, ph.MatchScan):
        if not can_be_lifted(plan):
            return None
        above.append(plan)
        plan = plan.children[0]
    lifting = _Lifting(replace(plan, columns=(ph.QUERY, *plan.schema)), True, group, parted=True)
    for node in reversed(above):
        lifting.add(node, last=node is above[0])
    return lifting.plan


class _Lifting:
    """The plan so far. Rows that queries have in windows of their own are elements until somebody asks when they are
    there; where they are expanded, that is before anything else."""

    def __init__(
        self,
        plan: lo.Node,
        expanded: bool,
        group: str,
        *,
        parted: bool = False,
        window: SizedWindow | None = None,
    ) -> None:
        self.plan, self.expanded, self.group, self.parted, self._window = plan, expanded, group, parted, window
        if expanded:
            self.show_in_window()

    def show_in_window(self) -> None:
        if self._window is not None:
            self.plan, self._window = ph.QueryWindow(self.plan, self._window), None

    def project(self, columns: Sequence[Expression], names: Sequence[str]) -> None:
        columns = self._over_rows(columns)
        if self.expanded:
            columns, names = [_query(), *columns], [ph.QUERY.name, *names]
        indexes = [e.index if isinstance(e, Column) else None for e in columns]
        if indexes != list(range(len(self.plan.schema))):
            self.plan = lo.Project(self.plan, tuple(columns), tuple(names))

    def _over_rows(self, expressions: Sequence[Expression]) -> list[Expression]:
        """Expressions over the rows as they are here; where a query has constants in them, these are joined."""
        parts = (part for expression in expressions for part in expression.walk())
        used = sorted({part for part in parts if isinstance(part, Parameter)}, key=lambda part: part.index)
        if not used:
            return [shift_columns(expression, int(self.expanded)) for expression in expressions]
        self.expand()
        width = len(self.plan.schema)
        places: dict[Expression, Expression] = {
            parameter: Column(parameter.type, width + place, str(parameter)) for place, parameter in enumerate(used)
        }
        self.plan = ph.Constants(self.plan, self.group, tuple(used))
        return [shift_columns(e, 1).transform(lambda part: places.get(part, part)) for e in expressions]

    def _select(self, condition: Expression) -> None:
        before = self.plan
        (own,) = self._over_rows([condition])
        selected = lo.Filter(self.plan, own)
        if self.plan is before:
            self.plan = selected
            return
        kept = self.plan.children[0].schema  # without constants
        columns = tuple(Column(f.type, index, f.name) for index, f in enumerate(kept))
        self.plan = lo.Project(selected, columns, tuple(f.name for f in kept))

    def expand(self, *, in_order: bool = False) -> None:
        if not self.expanded:
            self.plan, self.expanded = ph.Expand(self.plan, in_order), True
            self.show_in_window()

    def add(self, node: lo.Node, *, last: bool) -> None:
        match node:
            case lo.Filter():
                self._select(node.condition)
            case lo.Project():
                self.project(node.expressions, node.names)
            case lo.RelationToStream(operator="rstream") if last:
                self.show_in_window()
                self.plan = replace(node, input=self.plan)
            case lo.Aggregate():
                self._aggregate(node)
            case lo.Window(window=Rows() | Sessions() as window):
                self.expand()
                apart = replace(window, partition=(0, *(column + 1 for column in window.partition)))
                self.plan = lo.Window(self.plan, apart)
            case lo.Window(window=RangeOn() as window):
                self.expand()
                partition = (0, *(column + 1 for column in window.partition))
                self.plan = lo.Window(self.plan, replace(window, column=window.column + 1, partition=partition))
            case lo.Top():
                self._top(node)
            case lo.Over():
                self.expand()
                calls = tuple(call.moved(_ONE_FURTHER) for call in node.calls)
                self.plan = lo.Over(self.plan, _of_queries(node.order), calls, node.names)
            case ph.Parted():
                self.expand()
                self.plan = self._lifted_parts(node.plan, self.plan, node.slots)[0]
            case _:
                self.expand()
                self.plan = node.with_children((self.plan,))

    def _top(self, node: lo.Top) -> None:
        """How many rows a query wants is a column of its rows for as long as they are counted."""
        self.expand()
        if node.limit is None:
            self.plan = lo.Top(self.plan, _of_queries(node.order), node.places)
            return
        kept = self.plan.schema
        (limit,) = self._over_rows([node.limit])
        top = lo.Top(self.plan, _of_queries(node.order), node.places, limit=limit)
        columns = tuple(Column(f.type, index, f.name) for index, f in enumerate(kept))
        self.plan = lo.Project(top, columns, tuple(f.name for f in kept))

    def _lifted_parts(self, node: lo.Node, rows: lo.Node, slots: Sequence[Sequence[int]]) -> tuple[lo.Node, bool]:
        """A plan over parts, of which all rows are given, for all queries; and whether the query is in front."""
        if isinstance(node, ph.PartScan):
            return rows_of_part(rows, node.number, slots[node.number], node.schema), True
        if not any(isinstance(below, ph.PartScan) for below in node.walk()):
            return node, False
        sides = [self._lifted_parts(child, rows, slots) for child in node.children]
        plans = tuple(plan for plan, _ in sides)
        if isinstance(node, lo.Join):
            left, places = self._with_constants(plans[0], node.condition)
            return joined_by_query(node, left, plans[1], expanded=(sides[0][1], sides[1][1]), places=places), True
        if len(plans) > 1:
            return node.with_children(plans), True
        below = _Lifting(plans[0], True, self.group, parted=True)
        below.add(node, last=False)
        return below.plan, True

    def _with_constants(self, rows: lo.Node, condition: Expression) -> tuple[lo.Node, dict[Expression, int]]:
        """Rows of queries with the constants of these that a condition has, and where they are."""
        used = sorted({e for e in condition.walk() if isinstance(e, Parameter)}, key=lambda e: e.index)
        if not used:
            return rows, {}
        width = len(rows.schema)
        return ph.Constants(rows, self.group, tuple(used)), {e: width + place for place, e in enumerate(used)}

    def _aggregate(self, node: lo.Aggregate) -> None:
        """Only what the aggregate reads is expanded, so that equal rows of a query have become one before."""
        columns = list(dict.fromkeys(node.computed))
        self.project(columns, [str(column) for column in columns])
        self.expand(in_order=goes_by_order(node))
        if not node.keys:
            self._keep_all_queries()
        places = {expression: index + 1 for index, expression in enumerate(columns)}
        keys = (_query(), *(_column(key, places[key]) for key in node.keys))
        calls = []
        for call in node.calls:
            moved = call.over(lambda argument: _column(argument, places[argument]))
            if call.argument is None and not node.keys:
                moved = replace(call, argument=Column(BIGINT, len(columns) + 1, "*"))
            calls.append(moved)
        self.plan = lo.Aggregate(self.plan, keys, tuple(calls))

    def _keep_all_queries(self) -> None:
        """Without keys there is one row always: a row of NULLs for each query that no function sees makes it so."""
        schema = self.plan.schema
        columns = (*(Column(f.type, index, f.name) for index, f in enumerate(schema)), _PRESENT)
        real = lo.Project(self.plan, columns, (*(f.name for f in schema), "*"))
        fields = (*schema[1:], Field("*", BIGINT))
        always: lo.Node = ph.QueryRows(self.group, fields)
        if self.parted:  # which may have several aggregates
            nulls = (_query(), *(Literal(f.type, None) for f in fields))
            always = lo.Project(ph.QueryRows(self.group, ()), nulls, real.names)
        self.plan = lo.SetOperation("union all", real, always)


class _OneFurther(dict[int, int]):
    """Where columns are behind the query."""

    def __missing__(self, column: int) -> int:
        return column + 1


_ONE_FURTHER = _OneFurther()


def _of_queries(order: RowOrder) -> RowOrder:
    """The order of the rows of each query."""
    moved = order.moved(_ONE_FURTHER)
    return replace(moved, partition=(0, *moved.partition))


def _query() -> Column:
    return Column(ph.QUERY.type, 0, ph.QUERY.name)


def _column(expression: Expression, index: int) -> Column:
    return Column(expression.type, index, str(expression))
