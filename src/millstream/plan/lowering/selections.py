"""The selection of a group's queries as the kernel runs it, and as what it reads is told of it."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.input_lineage import InputSelections
from millstream.kernel.sharing.keyed_selection import KeyedSelection
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.types import Schema

SelectionNode = ph.Selection | ph.MatchedSelection | ph.TreeSelection | ph.CellSelection


def selecting(
    schema: Schema, key: Expression | None, shapes: Mapping[str, Expression]
) -> GroupedSelection | KeyedSelection:
    if key is None:
        return GroupedSelection(schema, shapes)
    return KeyedSelection(schema, key, shapes)


def has_lineage(core: lo.Node) -> bool:
    """Whether the join of a group makes only what its queries want: not where it stores what inner joins make, which is
    for everybody, or holds rows back just in time."""
    if isinstance(core, lo.Join):
        return core.join == "inner" and not any(
            isinstance(node, lo.Join | ph.ManyJoin) for child in core.children for node in child.walk()
        )
    return isinstance(core, ph.StemJoin) and not core.jit


def input_selections(step: str, node: SelectionNode) -> InputSelections:
    """What the queries of a node, which that step selects for, ask of the inputs of the join that it reads."""
    widths = [len(child.schema) for child in node.input.children]
    key = None if isinstance(node, ph.CellSelection) else node.key
    return InputSelections(step, widths, selecting(node.input.schema, key, node.shapes))
