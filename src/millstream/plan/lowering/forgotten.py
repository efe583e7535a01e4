"""Which columns windows that count rows need not remember: nothing that takes a row back has to say them again.

A window [ROWS n] must tell later which rows leave. Texts that nothing above reads are not kept for that; nor are those
that only the input of a join reads, which keeps the whole row anyway: there a retraction finds the row that it takes
back by its arrival number, and where that row lies, by the columns of the join's condition.

    S [ROWS n] ⋈ T:    the join has the rows of S, where they are hashed by its key; the window has numbers and keys

Values of fixed size are remembered, read or not, as they are no larger than the numbers beside them: windows of
different queries then remember the same columns, and keep them once (`kernel.windows.recent`).

What is decided here follows from the plan alone, and not from what else is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import Column, Expression, columns_used
from millstream.kernel.windows.time import Rows
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.monotonic import is_non_retroactive
from millstream.types import BINARY, STRING

_OF_ANY_SIZE = (STRING, BINARY)


def forgetting(plan: lo.Node) -> lo.Node:
    """The plan, with windows that forget what they can."""
    return _read(plan, _all(plan))


def missing(node: lo.Node) -> frozenset[int]:
    """The columns that retractions of a node's rows lack. Nobody above reads them but joins, which find them."""
    match node:
        case lo.Window():
            return frozenset(node.forgotten)
        case lo.Filter():
            return missing(node.input)
        case lo.Project():
            below = missing(node.input)
            columns = enumerate(node.expressions)
            return frozenset(i for i, e in columns if isinstance(e, Column) and e.index in below)
        case _:
            return frozenset()


def _all(node: lo.Node) -> set[int]:
    return set(range(len(node.schema)))


def _used(expressions: Iterable[Expression]) -> set[int]:
    return set().union(*map(columns_used, expressions))


def _read(node: lo.Node, needed: set[int]) -> lo.Node:
    """The node, of whose retractions only some columns are read."""
    match node:
        case ph.Selection() | ph.MatchedSelection() | ph.TreeSelection() | ph.CellSelection():
            return node  # which columns its queries read changes with who comes and goes
        case lo.Window(window=Rows(slide=1) as window) if is_base(node.input):
            kept = needed | set(window.partition)
            columns = enumerate(node.schema)
            forgotten = tuple(i for i, field in columns if field.type in _OF_ANY_SIZE and i not in kept)
            return replace(node, forgotten=forgotten) if forgotten else node
        case lo.Join(join="inner"):
            sides = zip(node.children, node.children[::-1], _by_side(node), strict=True)
            found = (_read(side, used if _finds(side, other) else _all(side)) for side, other, used in sides)
            return _over(node, *found)
        case lo.Filter() | lo.Project() | lo.Aggregate() if any(map(can_fail, node.computed)):
            return _over(node, _read(node.input, _all(node.input)))  # errors carry the rows that they are of
        case lo.Filter():
            return _over(node, _read(node.input, needed | columns_used(node.condition)))
        case lo.Project():
            computed = enumerate(node.expressions)
            used = _used(e for i, e in computed if i in needed or not isinstance(e, Column))
            return _over(node, _read(node.input, used))
        case lo.Aggregate():
            return _over(node, _read(node.input, _used(node.computed)))
        case _:
            return _over(node, *(_read(child, _all(child)) for child in node.children))


def _over(node: lo.Node, *children: lo.Node) -> lo.Node:
    same = all(new is old for new, old in zip(children, node.children, strict=True))
    return node if same else node.with_children(children)


def _by_side(join: lo.Join) -> tuple[set[int], set[int]]:
    """The columns of each side that the condition reads."""
    width, used = len(join.left.schema), columns_used(join.condition)
    return {index for index in used if index < width}, {index - width for index in used if index >= width}


def _finds(side: lo.Node, other: lo.Node) -> bool:
    """Whether a join keeps all rows of a side for as long as they may be taken back: partners of them come from a
    stream, at any time."""
    if is_non_retroactive(side) or is_non_retroactive(other):
        return False
    while isinstance(side, lo.Filter | lo.Project) and not any(map(can_fail, side.computed)):
        side = side.input
    return isinstance(side, lo.Window) and any(isinstance(node, lo.StreamScan) for node in other.walk())


def is_base(stream: lo.Node) -> bool:
    while isinstance(stream, lo.Sample):
        stream = stream.input
    return isinstance(stream, lo.StreamScan)
