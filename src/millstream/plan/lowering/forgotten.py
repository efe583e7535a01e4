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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import Column, Expression, columns_used
from millstream.kernel.windows.time import Rows
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.algebra.imposed_windows import is_base
from millstream.plan.analysis.keys import split_condition
from millstream.plan.analysis.monotonic import is_non_retroactive
from millstream.plan.lowering.selections import SelectionNode, by_stems, goes_by_routes
from millstream.types import BINARY, STRING

_OF_ANY_SIZE = (STRING, BINARY)


def forgetting(plan: lo.Node, *, everywhere: bool = True) -> lo.Node:
    """The plan, with windows that forget what they can; or else only below inner joins of two inputs that no group has,
    as it was once."""
    return _Forgetting(everywhere).read(plan, _all(plan), _all(plan))


def remembering(window: lo.Window) -> lo.Node:
    """The window as the plan has it, in which none forgets anything."""
    return window.transform(lambda node: replace(node, forgotten=()) if isinstance(node, lo.Window) else node)


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


def _finds_its_rows(core: lo.Node) -> bool:
    """Whether the join of a group finds what retractions lack: not a tree that becomes one join, which finds rows by
    other columns than its joins do, nor stops of routes."""
    return by_stems(core) is core and not goes_by_routes(core)


def _all(node: lo.Node) -> set[int]:
    return set(range(len(node.schema)))


def _used(expressions: Iterable[Expression]) -> set[int]:
    return set().union(*map(columns_used, expressions))


@dataclass(frozen=True)
class _Forgetting:
    everywhere: bool

    def read(self, node: lo.Node, needed: set[int], shown: set[int]) -> lo.Node:
        """The node, of whose retractions only some columns are read; of rows that come, those that are shown."""
        match node:
            case _ if isinstance(node, SelectionNode) and not (self.everywhere and _finds_its_rows(node.input)):
                return node
            case lo.Window(window=Rows(slide=1) as window) if is_base(node.input):
                return _without(node, needed | set(window.partition))
            case lo.Window(window=Rows() as window) if self.everywhere:
                # Elements enter after they came, or have no number of their own: what anybody reads must be remembered.
                return _without(replace(node, input=self._whole(node.input)), shown | set(window.partition))
            case lo.Join() if self.everywhere or node.join == "inner":
                return self._below(node, node.children, _by_side(node))
            case ph.StemJoin(jit=False) if self.everywhere:
                return self._below(node, node.inputs, _by_input(node))
            case lo.Filter() | lo.Project() | lo.Aggregate() if any(map(can_fail, node.computed)):
                return _over(node, self._whole(node.input))  # errors carry the rows that they are of
            case lo.Filter():
                used = columns_used(node.condition)
                return _over(node, self.read(node.input, needed | used, shown | used))
            case lo.Project():
                return _over(node, self.read(node.input, _passed(node, needed), _passed(node, shown)))
            case lo.Aggregate():
                used = _used(node.computed)
                return _over(node, self.read(node.input, used, used))
            case _:
                return _over(node, *map(self._whole, node.children))

    def _whole(self, node: lo.Node) -> lo.Node:
        return self.read(node, _all(node), _all(node))

    def _below(self, join: lo.Node, sides: Sequence[lo.Node], used: Sequence[set[int]]) -> lo.Node:
        """A join, of whose inputs it reads some columns to find the rows that are taken back."""
        found = list[lo.Node]()
        for number, side in enumerate(sides):
            others = [other for place, other in enumerate(sides) if place != number]
            is_found = all(_finds(side, other) for other in others)
            found.append(self.read(side, used[number] if is_found else _all(side), _all(side)))
        return _over(join, *found)


def _without(node: lo.Window, kept: set[int]) -> lo.Window:
    """The window, that forgets the texts that are not kept."""
    columns = enumerate(node.schema)
    forgotten = tuple(i for i, field in columns if field.type in _OF_ANY_SIZE and i not in kept)
    return replace(node, forgotten=forgotten) if forgotten else node


def _passed(node: lo.Project, needed: set[int]) -> set[int]:
    """What is read of the input of a projection, of which some columns are needed."""
    return _used(e for i, e in enumerate(node.expressions) if i in needed or not isinstance(e, Column))


def _over(node: lo.Node, *children: lo.Node) -> lo.Node:
    same = all(new is old for new, old in zip(children, node.children, strict=True))
    return node if same else node.with_children(children)


def _by_side(join: lo.Join) -> tuple[set[int], set[int]]:
    """The columns of each side that the condition reads; all of those by which the rows without a partner are found,
    where these are not told by keys (`plan.algebra.existence`)."""
    width = len(join.left.schema)
    _, residual = split_condition(join.condition, width)
    own, other = _within(join.condition, 0, width), _within(join.condition, width, len(join.right.schema))
    all_left = residual and join.join not in ("inner", "right")
    all_right = residual and join.join in ("right", "full")
    return _all(join.left) if all_left else own, _all(join.right) if all_right else other


def _by_input(join: ph.StemJoin) -> list[set[int]]:
    found, start = list[set[int]](), 0
    for side in join.inputs:
        found.append(_within(join.condition, start, len(side.schema)))
        start += len(side.schema)
    return found


def _within(condition: Expression, start: int, width: int) -> set[int]:
    return {index - start for index in columns_used(condition) if start <= index < start + width}


def _finds(side: lo.Node, other: lo.Node) -> bool:
    """Whether a join keeps all rows of a side for as long as they may be taken back: partners of them come from a
    stream, at any time."""
    if is_non_retroactive(side) or is_non_retroactive(other):
        return False
    while isinstance(side, lo.Filter | lo.Project) and not any(map(can_fail, side.computed)):
        side = side.input
    return isinstance(side, lo.Window) and any(isinstance(node, lo.StreamScan) for node in other.walk())
