"""Lowers logical plans to the kernel's operators.

Equal sub-plans become one step, whichever queries they come from, because a step is named by its plan's fingerprint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from millstream.kernel.aggregation.aggregate import Aggregate
from millstream.kernel.joins.asof import AsofJoin
from millstream.kernel.joins.existence import ExistenceJoin
from millstream.kernel.joins.pairwise import InnerJoin, NonRetroactiveJoin
from millstream.kernel.just_in_time.consumers import Alternatives, Consumer
from millstream.kernel.just_in_time.gates import JustInTime
from millstream.kernel.just_in_time.producers import ProducerOutput
from millstream.kernel.lazy.matched_selection import MatchedSelection
from millstream.kernel.lazy.matches import Matches
from millstream.kernel.lazy.ranked_tree import RankedTree
from millstream.kernel.lazy.tree_selection import TreeSelection
from millstream.kernel.multiway.join_tree import JoinTree
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import Operator
from millstream.kernel.ordering.over import Over
from millstream.kernel.ordering.top import Top
from millstream.kernel.pending_errors import OPEN
from millstream.kernel.pipeline import Pipeline, Step
from millstream.kernel.relational import linear
from millstream.kernel.relational.change_log import ChangeLog
from millstream.kernel.relational.compacted_cells import CompactedCellAggregate
from millstream.kernel.relational.failures import Checked, Failing, Failures
from millstream.kernel.relational.keyed_change_log import KeyedChangeLog
from millstream.kernel.relational.multiplicity import DirectMultiplicity, DistinctStar, Multiplicity, SetOperation
from millstream.kernel.relational.runs import CountedRuns, ForetoldRuns
from millstream.kernel.relational.unnest import Unnest
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import Column, Expression, Reported, conjunction, conjuncts
from millstream.kernel.sharing.cells import CELL, CellSelection
from millstream.kernel.sharing.expand import Expand
from millstream.kernel.sharing.expanded_selection import ExpandedSelection
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.input_lineage import InputSelections
from millstream.kernel.sharing.query_windows import QueryWindows
from millstream.kernel.storage.synopsis import Consolidated, Synopsis
from millstream.kernel.windows.imposed import AS_THEY_ARE, Imposed
from millstream.kernel.windows.sample import Sample
from millstream.kernel.windows.time import TimeWindow, Unbounded
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.algebra.column_keys import HashKeys, hash_keys, with_column_keys
from millstream.plan.algebra.existence import existence_of
from millstream.plan.algebra.imposed_windows import as_elements, is_base, joined
from millstream.plan.algebra.outer_joins import columns, expand_join, swapped_join
from millstream.plan.algebra.user_calls import called_once, once_possible
from millstream.plan.analysis.births import has_runs, refuse_compared, refuse_untraced
from millstream.plan.analysis.monotonic import is_non_retroactive, is_static
from millstream.plan.analysis.time_order import goes_by_instants
from millstream.plan.fingerprint import producer_of
from millstream.plan.lowering.cells import combining, constants_of_queries, summing
from millstream.plan.lowering.forgotten import forgetting, missing
from millstream.plan.lowering.kernel_calls import kernel_calls, tree_shape
from millstream.plan.lowering.options import Options
from millstream.plan.lowering.routes import by_routes
from millstream.plan.lowering.row_wise import is_expanded, row_wise, where_computed
from millstream.plan.lowering.selections import SelectionNode, by_stems, input_selections, selecting, sized_rows
from millstream.plan.lowering.source_edges import SourceEdge, widths_of
from millstream.plan.lowering.step_names import StepNames
from millstream.plan.lowering.variants import DETECTIONS, refuse_strict, synopsis_by_pattern
from millstream.plan.lowering.windows import WindowLowering
from millstream.plan.tags import STEP_TAGS
from millstream.types import Schema

CLOCK = "_clock"  # the source that carries no rows, only how far time has come


class Lowering(WindowLowering):
    """Collects the steps of a plan, each edge once."""

    def __init__(self, plan: lo.Node, options: Options) -> None:
        self.steps: dict[str, Step] = {}
        self.selection = ""  # the step that selects for all queries of a group, if there is one
        self.options = options
        self._retracting: set[str] = set()  # the edges that may carry negative weights
        self._at = plan  # the node that is being lowered
        self._lowered: dict[int, tuple[lo.Node, str]] = {}  # what was lowered already, and its edge
        self._born = any(is_non_retroactive(node) for node in plan.walk())
        self._timed = goes_by_instants(plan)
        self._windows: dict[lo.Node, str] = {}
        whole = plan
        if options.synopses == "shared" and options.strategy == "upa" and not self._born:
            plan = forgetting(plan, everywhere=options.join_synopses == "shared")
        usual = options.strategy == "upa" and not self._born and not options.expiry_groups
        self._imposes = options.join_synopses == "shared" and usual
        self._names = StepNames(forgets=plan is not whole, imposes=self._imposes)
        self._errors: dict[str, Schema] = {}  # the edges that carry what fails
        if options.strategy == "direct":
            refuse_strict(plan)
        self.edge = str(self._checked(plan))

    def _checked(self, plan: lo.Node) -> str:
        """The edge of a plan that fails where something in it does."""
        edge = self.lower(plan)
        if not self._errors or self.options.lenient:
            return edge
        first = self.options.first_counted
        by_query = bool(self.selection)
        suffix = f"{'of-queries-' if by_query else ''}{self._names.of(plan)}{f'-{first}' if first else ''}"
        first = OPEN if self.options.is_open else first
        certain = [each for each in self._errors if each not in self._retracting]
        doubtful = [(each, errors) for each, errors in self._errors.items() if each in self._retracting]
        failures = tuple(
            self._named(f"failures{place or ''}-{suffix}", Failures(errors, first), each)
            for place, (each, errors) in enumerate(doubtful)
        )
        if isinstance(plan, ph.Guard):
            # It reads those that it awaits, which say nothing: so it is run whenever what it awaits moves.
            guard = Checked((), first, rows=False)
            edge = self._named(f"checked-{suffix}", guard, *certain, *failures)
            below = Pipeline(tuple(self.steps.values())).edges_below(edge)
            self.steps = {name: step for name, step in self.steps.items() if name in below}
            return self._marked(edge, False)
        retracting, checked = edge in self._retracting, Checked(plan.schema, first, by_query=by_query)
        edge = self._named(f"checked-{suffix}", checked, edge, *certain, awaited=failures)
        return self._marked(edge, retracting)

    def lower(self, node: lo.Node) -> str:
        """The edge that carries the node's rows."""
        known = self._lowered.get(id(node))
        if known is None:
            above, self._at = self._at, node
            known = self._lowered[id(node)] = node, self._lower(node)
            self._at = above
        return known[1]

    def _lower(self, node: lo.Node) -> str:
        match node:
            case lo.StreamScan():
                return SourceEdge.of(node.name, len(node.columns))
            case lo.TableScan(log=None):
                source = SourceEdge.of(node.name, len(node.columns))
                return self._generated(node, self._marked(source, node.nature not in ("APPEND ONLY", "STATIC")))
            case lo.TableScan():
                return self._generated(node, self._change_log(node))
            case lo.OneRow():
                return self._generated(node, self._step(node, linear.OneRow(), CLOCK))
            case lo.Values():
                values = [[value.value for value in row] for row in node.rows]
                return self._generated(node, self._step(node, linear.Values(node.schema, values), CLOCK))
            case lo.Filter() | lo.Project():
                return self._computed(once_possible(node) if isinstance(node, lo.Filter) else node)
            case lo.Unnest():
                unnest = Unnest(node.schema, position=node.position, outer=node.outer, lists=node.lists)
                return self._step(node, unnest, self.lower(node.input))
            case lo.Failing():
                return self._failing(node, node.input.schema, node.expressions, node.where, self.lower(node.input))
            case lo.Checked():
                edge = self.lower(node.input)
                for errors in () if self.options.lenient else node.errors:
                    self.lower(errors)
                return edge
            case ph.Stamped():
                return self._step(node, linear.Stamp(node.schema), self.lower(node.input))
            case ph.Shortened():
                return self._step(node, linear.Shorten(node.schema, node.ends), self.lower(node.input))
            case lo.Window():
                return self._window(node)
            case lo.Bounds():
                return self._bounds(node)
            case lo.Sample():
                derived = not is_base(node.input)
                edge = self._elements(node.input) if derived else self.lower(node.input)
                return self._step(node, Sample(node.schema, node.percent, node.seed, derived=derived), edge)
            case lo.RelationToStream():
                return self._to_stream(node)
            case ph.Selection():
                return self._selection(node)
            case ph.Expand():
                return self._expand(node)
            case ph.Constants():
                return self._step(node, constants_of_queries(node), self.lower(node.input), table_of=self.selection)
            case ph.QueryWindow():
                windows = QueryWindows(node.schema, node.window, expanded=is_expanded(node), timed=self._timed)
                return self._step(node, windows, self.lower(node.input), table_of=self.selection)
            case ph.CellSelection():
                return self._cell_selection(node)
            case ph.Combined():
                return self._combined(node)
            case ph.QueryRows():
                return self._marked(node.group, False)
            case ph.Matches():
                operator = Matches(node.schema, node.instants, node.kept, timed=node.timed)
                return self._step(node, operator, self.lower(node.input))
            case ph.Guard():
                return self.lower(node.input)
            case ph.RankedTree():
                shape = tree_shape(node, node.input.schema)
                return self._step(node, RankedTree(shape, node.kept), self.lower(node.input))
            case ph.TreeSelection():
                return self._tree_selection(node)
            case ph.MatchedSelection():
                return self._matched_selection(node)
            case ph.MatchScan():
                return self._marked(node.name, node.retracting)
            case ph.Runs():
                return self._runs(node, SetOperation.DISTINCT, [self.lower(node.input)], counted=True)
            case lo.Distinct():
                return self._distinct(node)
            case lo.SetOperation():
                return self._set_operation(node)
            case lo.Aggregate():
                return self._aggregate(node)
            case lo.AsofJoin():
                return self._asof_join(node)
            case lo.Top():
                return self._top(node)
            case lo.Over():
                over = Over(node.input.schema, node.order, node.calls, node.names)
                return self._marked(self._step(node, over, self.lower(node.input)), True)
            case lo.Join(join="inner"):
                return self._join(node)
            case ph.ManyJoin():
                return self._many_join(node)
            case lo.Join():
                refuse_compared(node)
                return self._existence(node) if node.join in ("semi", "anti") else self.lower(expand_join(node))
            case _:
                raise AssertionError(f"no operator for {type(node).__name__}")

    def _computed(self, node: lo.Filter | lo.Project) -> str:
        called = None if self.options.lenient else called_once(node)
        if called is None:
            edge = self.lower(node.input)
            self._note_failing(
                node, edge, conjuncts(node.condition) if isinstance(node, lo.Filter) else node.expressions
            )
            return self._step(node, row_wise(node), edge)
        edge = self.lower(called.rows)
        self._note_failing(node, edge, called.computed)
        values = [e.value if isinstance(e, Reported) else e for e in called.computed]
        if isinstance(node, lo.Project):
            return self._step(node, linear.Project(node.schema, values), edge)
        edge = self._step(node, linear.Filter(called.rows.schema, conjunction(values)), edge)
        return self._step(node, linear.Project(node.schema, columns(node.schema)), edge)

    def _note_failing(self, node: lo.Filter | lo.Project, edge: str, computed: Sequence[Expression]) -> None:
        """Errors of what a node computes are rows of an edge of their own."""
        fragile = () if self.options.lenient else tuple(dict.fromkeys(filter(can_fail, computed)))
        if fragile:
            self._failing(node, node.input.schema, fragile, where_computed(node, computed), edge)

    def _failing(
        self, node: lo.Node, rows: Schema, expressions: Sequence[Expression], where: Expression, edge: str
    ) -> str:
        """The edge with the errors of expressions; of rows that may be taken back, with these, and in a group with the
        query."""
        lineage = bool(self.selection) and not is_expanded(node)
        carried = rows if edge in self._retracting else rows[:1] if self.selection and not lineage else ()
        operator = Failing(expressions, where, carried, lineage=lineage)
        name = f"failing{'-of-queries' if self.selection else ''}-{self._names.of(node)}"
        found = self._named(name, operator, edge)
        self._errors[found] = operator.schema
        return found

    def _selection(self, node: ph.Selection) -> str:
        operator = selecting(node.input.schema, node.key, node.shapes)
        return self._selected(node, operator, node)

    def _selected(self, node: lo.Node, operator: Operator, selection: SelectionNode) -> str:
        """The step of a node that selects for all queries of a group. Of a join it reads what one of them may want."""
        asked = input_selections(self._apart(self._name(node, operator)), selection)
        edge = self._join_for_queries(selection.input, asked, self._names.of(node))
        self.selection = self._step(node, operator, edge)
        return self.selection

    def _matched_selection(self, node: ph.MatchedSelection) -> str:
        projection = linear.Project(node.schema, node.columns)
        matches = Matches(node.schema, node.instants, node.kept, timed=node.timed)
        operator = MatchedSelection(selecting(node.input.schema, node.key, node.shapes), projection, matches)
        return self._selected(node, operator, node)

    def _tree_selection(self, node: ph.TreeSelection) -> str:
        selection = selecting(node.input.schema, node.key, node.shapes)
        projection = linear.Project(node.schema, node.columns)
        operator = TreeSelection(selection, projection, tree_shape(node, node.schema), node.kept)
        return self._selected(node, operator, node)

    def _expand(self, node: ph.Expand) -> str:
        """Together with the selection, where only row-wise work is in between: lineage is too wide to be kept."""
        between: list[Operator] = []
        below = node.input
        while isinstance(below, lo.Project | lo.Filter):
            between.append(row_wise(below))
            below = below.input
        expand = Expand(node.input.schema, in_order=node.in_order)
        fragile = any(can_fail(e) for part in node.walk() for e in part.computed)
        if not isinstance(below, ph.Selection) or below.key is not None or fragile:
            return self._step(node, expand, self.lower(node.input))
        selection = GroupedSelection(below.input.schema, below.shapes)
        return self._selected(node, ExpandedSelection(selection, between[::-1], expand), below)

    def _cell_selection(self, node: ph.CellSelection) -> str:
        selection = GroupedSelection(node.input.schema, node.shapes)
        projection = linear.Project(node.schema[len(CELL) :], node.columns)
        return self._selected(node, CellSelection(selection, projection, node.window), node)

    def _combined(self, node: ph.Combined) -> str:
        return self._marked(self._step(node, combining(node), self.lower(node.input)), True)

    def _generated(self, node: lo.Node, edge: str) -> str:
        """Where instants of generation count: the edge with those of rows that come and never go."""
        if not self._born or edge in self._retracting or is_non_retroactive(node):
            return edge
        return self._step(node, TimeWindow(node.schema, Unbounded(), born=True), edge)

    def _change_log(self, node: lo.TableScan) -> str:
        if node.log is None:
            raise AssertionError(f"{node.name} has no feed")
        kept = KeyedChangeLog if node.log.enforced else ChangeLog
        operator = kept(node.schema, node.log.key, malformed=node.log.malformed)
        return self._marked(self._step(node, operator, node.log.feed), not node.log.malformed)

    def _distinct(self, node: lo.Distinct) -> str:
        return self._counted(node, SetOperation.DISTINCT, self.lower(node.input))

    def _set_operation(self, node: lo.SetOperation) -> str:
        edges = [self.lower(child) for child in node.children]
        if node.operation == "union all":
            return self._step(node, linear.UnionAll(node.schema), *edges)
        return self._counted(node, SetOperation(node.operation.upper()), *edges)

    def _counted(self, node: lo.Node, operation: SetOperation, *edges: str) -> str:
        """By what comes in: without retractions δ* keeps only how long each value stays."""
        retracting = bool(self._retracting.intersection(edges))
        is_distinct = operation in (SetOperation.DISTINCT, SetOperation.UNION)
        if is_distinct and self._born:
            return self._runs(node, operation, edges, counted=retracting or self.options.strategy == "negative")
        if is_distinct and not retracting and self.options.strategy == "upa":
            return self._step(node, DistinctStar(node.schema), *edges)
        if self.options.strategy == "direct":
            return self._marked(self._step(node, DirectMultiplicity(node.schema, operation), *edges), True)
        return self._marked(self._step(node, Multiplicity(node.schema, operation), *edges), True)

    def _runs(self, node: lo.Node, operation: SetOperation, edges: Sequence[str], *, counted: bool) -> str:
        """What is there, with the instant at which it came to be: foretold, unless rows are taken back."""
        operator = CountedRuns(node.schema, operation) if counted else ForetoldRuns(node.schema)
        return self._marked(self._step(node, operator, *edges), counted)

    def _aggregate(self, node: lo.Aggregate) -> str:
        """Keys and arguments are computed first, so that the kernel's aggregate reads columns."""
        columns: list[Expression] = list(dict.fromkeys(node.computed))
        names = tuple(str(column) for column in columns)
        computed = lo.Project(node.input, tuple(columns), names)
        edge = self.lower(computed)
        keys = tuple(columns.index(key) for key in node.keys)
        calls = kernel_calls(node.calls, columns)
        retractions = self._may_retract(edge)
        operator: Operator = Aggregate(computed.schema, keys, calls, retractions=retractions)
        table_of = ""
        if isinstance(node.input, ph.CellSelection):
            operator = summing(node, computed.schema, keys, calls, retractions=retractions)
            table_of = self.selection if isinstance(operator, CompactedCellAggregate) else ""
        return self._marked(self._step(node, operator, edge, table_of=table_of), True)

    def _asof_join(self, node: lo.AsofJoin) -> str:
        operator = AsofJoin(node.left.schema, node.right.schema, node.keys, node.nearest, node.outer)
        return self._marked(self._step(node, operator, self.lower(node.left), self.lower(node.right)), True)

    def _top(self, node: lo.Top) -> str:
        """Without retractions only what may still rise is kept."""
        edge = self.lower(node.input)
        column = node.limit.index if isinstance(node.limit, Column) else None
        retractions = self._may_retract(edge)
        operator = Top(node.schema, node.order, node.places, retractions=retractions, limit_column=column)
        return self._marked(self._step(node, operator, edge), True)

    def _may_retract(self, edge: str) -> bool:
        return edge in self._retracting or self.options.strategy != "upa"

    def _join(self, node: lo.Join) -> str:
        if is_non_retroactive(node.left) and not is_non_retroactive(node.right):
            return self.lower(swapped_join(node))
        keys = hash_keys(node)
        if keys is None:
            return self.lower(with_column_keys(node))
        if not is_non_retroactive(node.right):
            edges, windows = self._joined(node)
            return self._step(node, self._inner_join(node, keys, edges, windows), *edges)
        edges = [self.lower(node.left), self.lower(node.right)]
        arguments = node.left.schema, node.right.schema, keys.positions, keys.residual, keys.null_safe
        refuse_untraced(node.left)
        # Rows that start when they are generated meet the newest version, so older ones can be forgotten.
        lag = 0 if self._is_punctual(node.left, edges[:1]) else None
        edge = self._step(node, NonRetroactiveJoin(*arguments, lag=lag), *edges)
        return self._marked(edge, edges[0] in self._retracting)

    def _inner_join(
        self,
        node: lo.Join,
        keys: HashKeys,
        edges: Sequence[str],
        windows: Sequence[Imposed],
        selections: InputSelections | None = None,
    ) -> InnerJoin:
        synopses = self._synopsis(node.left, edges[0]), self._synopsis(node.right, edges[1])
        schemas = node.left.schema, node.right.schema
        found = missing(node.left), missing(node.right)
        lasting = edges[0] not in self._retracting, edges[1] not in self._retracting
        condition = *schemas, keys.positions, keys.residual, keys.null_safe
        return InnerJoin(*condition, synopses, selections, found, windows, lasting)

    def _joined(self, node: lo.Node) -> tuple[list[str], tuple[Imposed, ...]]:
        """The edges of a join's inputs, and the windows that it imposes on them."""
        if not self._imposes:
            return [self.lower(child) for child in joined(node)], ()
        rows, windows = zip(*map(as_elements, joined(node)), strict=True)
        return [self.lower(each) for each in rows], windows

    def _join_for_queries(self, core: lo.Node, selections: InputSelections, of: str) -> str:
        """The edge of a group's core: of a join, with only what one of its queries may want."""
        suffix, core = f"of-queries-{of}", by_stems(core)
        if isinstance(core, ph.StemJoin) and not core.jit:
            edges, windows = self._joined(core)
            operator = self._joining(core, edges, windows, selections=selections)
            add = partial(self._named, table_of=selections.step)
            ends = by_routes(operator, edges, suffix, add) if isinstance(operator, StemJoin) else []
            if ends:
                return self._named(f"unionall-{suffix}", linear.UnionAll(core.schema), *ends)
            return add(f"stemjoin-{suffix}", operator, *edges)
        if isinstance(core, ph.SizedRows | ph.SizedTop):
            edge = self.lower(core.input)
            sized = sized_rows(core, retractions=self._may_retract(edge))
            name = f"{STEP_TAGS[type(sized)]}-{suffix}"
            return self._marked(self._named(name, sized, edge, table_of=selections.step), True)
        if not (isinstance(core, lo.Join) and core.join == "inner"):
            return self.lower(core)
        keys = hash_keys(core)
        if keys is None:
            shown = with_column_keys(core)
            return self._named(
                f"project-{suffix}", row_wise(shown), self._join_for_queries(shown.input, selections, of)
            )
        edges, windows = self._joined(core)
        joining = self._inner_join(core, keys, edges, windows, selections)
        return self._named(f"innerjoin-{suffix}", joining, *edges, table_of=selections.step)

    def _many_join(self, node: ph.ManyJoin) -> str:
        if isinstance(node, ph.StemJoin) and not node.jit:
            edges, windows = self._joined(node)
            return self._step(node, self._joining(node, edges, windows), *edges)
        edges = [self.lower(child) for child in node.inputs]
        consumers = node.consumers
        as_of = any(consumer.as_of for consumer in consumers)
        if not (consumers or node.shared) or (as_of and not self._is_punctual(node, edges)):
            return self._step(node, self._joining(node, edges), *edges)
        # Who asks is no part of what makes the rows; unless it matters when they were generated, or they are dropped.
        single = len({one.alternative for one in consumers}) == 1
        static = tuple(one for one in consumers if single and is_static(one.keys) and not one.refuses)
        asked: dict[int, list[Consumer]] = {}
        for one in consumers:
            asked.setdefault(one.alternative, []).append(one.with_edge(self.lower(one.keys), static=one in static))
        alternatives = tuple(map(tuple, asked.values())) or ((),)
        made = node if as_of else replace(node, consumers=static, shared=False)
        name = producer_of(self._names.of(made))
        producer = self._named(name, self._joining(node, edges, alternatives=()), *edges)
        taken = ProducerOutput(node.schema, alternatives, generated=as_of)
        awaited = dict.fromkeys(one.edge for each in alternatives for one in each)
        return self._step(node, taken, producer, awaited=tuple(awaited))

    def _joining(
        self,
        node: ph.ManyJoin,
        edges: Sequence[str],
        windows: Sequence[Imposed] = (),
        alternatives: Alternatives | None = None,
        selections: InputSelections | None = None,
    ) -> Operator:
        synopses = [self._synopsis(child, edge) for child, edge in zip(node.inputs, edges, strict=True)]
        schemas = [child.schema for child in node.inputs]
        retracting = frozenset(number for number, edge in enumerate(edges) if edge in self._retracting)
        if isinstance(node, ph.JoinTree):
            static = frozenset(number for number, child in enumerate(node.inputs) if is_static(child))
            return JoinTree(
                schemas,
                node.shape,
                node.condition,
                synopses,
                JustInTime(DETECTIONS[node.detection]),
                retracting,
                alternatives,
                static,
            )
        if isinstance(node, ph.StemJoin):
            held = JustInTime() if node.jit else None
            return StemJoin(
                schemas,
                node.condition,
                synopses,
                node.routing,
                edges=edges,
                jit=held,
                retracting=retracting,
                alternatives=alternatives,
                selections=selections,
                windows=windows,
                found=[missing(child) for child in node.inputs],
            )
        raise AssertionError(f"no operator for {type(node).__name__}")

    def _is_punctual(self, left: lo.Node, edges: Sequence[str]) -> bool:
        """Whether the rows of a node, which come on some edges, start when they are generated."""
        left = ph.without_consumers(left)
        tables = any(isinstance(node, lo.TableScan) for node in left.walk())
        return not self._retracting.intersection(edges) and not tables and not has_runs(left)

    def _existence(self, node: lo.Join) -> str:
        """Partners that are never taken back need not be counted: δ* knows how long they stay."""
        parts, negated = existence_of(node), node.join == "anti"
        left, keys = parts.left, parts.keys
        left, window = as_elements(left) if self._imposes else (left, AS_THEY_ARE)
        edges = self.lower(left), self.lower(keys)
        foretold = (node.foretold or not negated) and edges[1] not in self._retracting
        foretold = foretold and self.options.strategy != "negative"
        presence = self._presence(keys.schema, foretold=foretold, traced=self._born and not negated)
        synopsis, found = self._synopsis(left, edges[0]), missing(left)
        operator = ExistenceJoin(
            left.schema,
            presence,
            parts.positions,
            parts.null_safe,
            synopsis,
            negated=negated,
            shared=self._imposes or bool(found),
            window=window,
            found=found,
        )
        edge = self._step(node, operator, *edges)
        self._marked(edge, negated or not foretold or edge in self._retracting)
        if len(left.schema) == len(node.schema):
            return edge
        return self._step(node, linear.Project(node.schema, columns(node.schema)), edge)

    def _presence(self, schema: Schema, *, foretold: bool, traced: bool) -> Multiplicity | DistinctStar:
        if traced:
            return ForetoldRuns(schema) if foretold else CountedRuns(schema, SetOperation.DISTINCT)
        return DistinctStar(schema) if foretold else Multiplicity(schema, SetOperation.DISTINCT)

    def _synopsis(self, plan: lo.Node, edge: str) -> Synopsis:
        """How a join keeps an input."""
        if self.options.strategy != "upa" or edge in self._retracting:
            return Consolidated()
        return synopsis_by_pattern(plan, self.options.expiry_groups, self.options.lazy_interval)

    def _step(
        self, node: lo.Node, operator: Operator, *inputs: str, awaited: tuple[str, ...] = (), table_of: str = ""
    ) -> str:
        return self._named(self._name(node, operator), operator, *inputs, awaited=awaited, table_of=table_of)

    def _name(self, node: lo.Node, operator: Operator) -> str:
        return f"{STEP_TAGS[type(operator)]}-{self._names.of(node)}"

    def _named(
        self, name: str, operator: Operator, *inputs: str, awaited: tuple[str, ...] = (), table_of: str = ""
    ) -> str:
        name = self._apart(name)
        self.steps.setdefault(
            name,
            Step(
                name,
                operator,
                tuple(map(str, inputs)),
                awaited=awaited,
                table_of=table_of,
                widths=widths_of(inputs),
                plan=self._at,
            ),
        )
        return self._marked(name, bool(self._retracting.intersection(inputs)))

    def _apart(self, name: str) -> str:
        """The name of a step, with what keeps it apart from others."""
        if self.options.strategy != "upa" or self._born:
            # The same plan run in another way keeps other state: it must not be taken for the usual one.
            name = f"{name}-{self.options.strategy}{'-born' if self._born else ''}"
        name = f"{name}-timed" if self._timed else name
        return f"{name}~{self.options.apart}" if self.options.apart else name

    def _marked(self, edge: str, retracting: bool) -> str:
        """Note whether an edge may carry negative weights; operators that pass rows on do as their inputs."""
        (self._retracting.add if retracting else self._retracting.discard)(edge)
        return edge
