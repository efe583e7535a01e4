"""The selection of a group's queries as the kernel runs it, and as what it reads is told of it."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.kernel.joins.graph import JoinGraph
from millstream.kernel.ordering.first_rows_of_queries import FirstRowsOfQueries
from millstream.kernel.scalar.expressions import Expression, conjunction, conjuncts, shift_columns
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.input_lineage import InputSelections
from millstream.kernel.sharing.keyed_selection import KeyedSelection
from millstream.kernel.sharing.rows_of_queries import RowsOfQueries
from millstream.kernel.windows.time import Rows
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.lowering.routes import routes
from millstream.types import Schema

SelectionNode = ph.Selection | ph.MatchedSelection | ph.TreeSelection | ph.CellSelection


def selecting(
    schema: Schema, key: Expression | None, shapes: Mapping[str, Expression]
) -> GroupedSelection | KeyedSelection:
    if key is None:
        return GroupedSelection(schema, shapes)
    return KeyedSelection(schema, key, shapes)


def sized_rows(core: ph.SizedRows | ph.SizedTop, *, retractions: bool) -> RowsOfQueries | FirstRowsOfQueries:
    """What gives the rows of a core in which queries have sizes of their own."""
    if isinstance(core, ph.SizedTop):
        return FirstRowsOfQueries(core.input.schema, core.order, core.places, core.place, retractions=retractions)
    if not isinstance(core.window, Rows):
        raise AssertionError("no window that counts rows")
    return RowsOfQueries(core.input.schema, core.window, core.place)


def has_lineage(core: lo.Node) -> bool:
    """Whether the join of a group makes only what its queries want: not where it stores what inner joins make, which is
    for everybody, or holds rows back just in time."""
    core = by_stems(core)
    if isinstance(core, lo.Join):
        return core.join == "inner" and not any(
            isinstance(node, lo.Join | ph.ManyJoin) for child in core.children for node in child.walk()
        )
    return isinstance(core, ph.StemJoin) and not core.jit


def by_stems(core: lo.Node) -> lo.Node:
    """The core of a group as it is joined: a tree of three inputs or more by SteMs, which make nothing that no query
    wants, and store nothing that is of some queries only. It stays a tree where rows could not be spread over shards,
    neither by a column that is equal in all inputs nor on routes."""
    inputs, conditions = _gathered(core)
    if len(inputs) < 3:
        return core
    condition = conjunction(conditions)
    graph = JoinGraph([len(child.schema) for child in inputs], condition)
    return ph.StemJoin(tuple(inputs), condition) if graph.common_keys()[0] or routes(graph) else core


def goes_by_routes(core: lo.Node) -> bool:
    """Whether the rows of all inputs could not be spread alike, so that each new row goes from SteM to SteM."""
    if not isinstance(core, ph.StemJoin) or core.jit:
        return False
    graph = JoinGraph([len(child.schema) for child in core.inputs], core.condition)
    return not graph.common_keys()[0] and bool(routes(graph))


def _gathered(node: lo.Node) -> tuple[list[lo.Node], list[Expression]]:
    """The inputs of neighbouring joins, and all that these ask of the row of all inputs."""
    if not (isinstance(node, lo.Join) and node.join == "inner"):
        return [node], []
    (inputs, conditions), (others, more) = map(_gathered, node.children)
    width = len(node.left.schema)
    conditions += [shift_columns(condition, width) for condition in more]
    return inputs + others, [*conditions, *conjuncts(node.condition)]


def input_selections(step: str, node: SelectionNode) -> InputSelections:
    """What the queries of a node, which that step selects for, ask of the inputs of the join that it reads."""
    widths = [len(child.schema) for child in by_stems(node.input).children]
    key = None if isinstance(node, ph.CellSelection) else node.key
    return InputSelections(step, widths, selecting(node.input.schema, key, node.shapes))
