"""Join trees: their shape, and which part of a tree tells which input what is needed.

A shape is the number of an input, or a pair of shapes: ((0, 1), (2, 3)) is (A ⋈ B) ⋈ (C ⋈ D).

A row of an input is needed by a join further up only if what stands opposite there has partners for it. So for every
join above the one that reads an input there may be a demand:

    opposite is an input          its rows that are admitted themselves
    opposite is a join, made      its stored rows; of two joins that meet, the first is made before the second
    opposite is a join, not yet   combinations of the rows of its inputs, admitted or not, found without making them
    an input beside a join        the rows of each of its inputs by themselves, admitted or not: if one has none that
                                  match, the join has none either, and those below need not wait for this row

In each case what is asked was settled before: a join that is asked is made without asking back, and an input that is
asked is admitted by the demands above both. Two sides that each waited for what the other made would wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from millstream.kernel.joins.graph import InputSet

Nesting = int | tuple["Nesting", "Nesting"]
DemandKind = Literal["input", "made", "foreseen", "arrived"]
_MOST_FORESEEN = 3  # inputs of a join that is looked through without making it


@dataclass(frozen=True)
class TreeJoin:
    """An inner node of the tree; `number` counts them, the last one being the root."""

    number: int
    left: TreeJoin | int
    right: TreeJoin | int

    @property
    def sides(self) -> tuple[TreeJoin | int, TreeJoin | int]:
        return self.left, self.right

    @property
    def inputs(self) -> InputSet:
        return inputs_of(self.left) | inputs_of(self.right)

    @property
    def first(self) -> TreeJoin | int:
        """The side that is made first: the one of more inputs, since it is the more likely one to be empty."""
        return self.right if len(inputs_of(self.right)) > len(inputs_of(self.left)) else self.left

    def sibling(self, side: TreeJoin | int) -> TreeJoin | int:
        return self.right if side == self.left else self.left

    def walk(self) -> Iterator[TreeJoin]:
        """All joins, each after those below it."""
        for side in self.sides:
            if isinstance(side, TreeJoin):
                yield from side.walk()
        yield self


@dataclass(frozen=True)
class Demand:
    """What an input is admitted by: partners in `opposite`, which is of this kind."""

    opposite: TreeJoin | int
    kind: DemandKind

    @property
    def inputs(self) -> InputSet:
        return inputs_of(self.opposite)


def inputs_of(side: TreeJoin | int) -> InputSet:
    return frozenset({side}) if isinstance(side, int) else side.inputs


def tree_of(shape: Nesting) -> TreeJoin:
    count = 0

    def build(part: Nesting) -> TreeJoin | int:
        nonlocal count
        if isinstance(part, int):
            return part
        left, right = build(part[0]), build(part[1])
        count += 1
        return TreeJoin(count - 1, left, right)

    root = build(shape)
    if isinstance(root, int):
        raise AssertionError("a tree of one input")
    return root


def left_deep(inputs: int) -> Nesting:
    shape: Nesting = 0
    for number in range(1, inputs):
        shape = (shape, number)
    return shape


def shown_shape(shape: Nesting, names: list[str]) -> str:
    return names[shape] if isinstance(shape, int) else f"({' '.join(shown_shape(part, names) for part in shape)})"


def demands_of(root: TreeJoin) -> dict[TreeJoin | int, list[Demand]]:
    """For each input and join the demands of the joins above, the topmost first."""
    found: dict[TreeJoin | int, list[Demand]] = {}

    def visit(side: TreeJoin | int, above: list[Demand]) -> None:
        found[side] = above
        if isinstance(side, int):
            return
        for child in side.sides:
            visit(child, [*above, *_demands(side, child)])

    visit(root, [])
    return found


def _demands(join: TreeJoin, side: TreeJoin | int) -> list[Demand]:
    """What the other side of a join asks of this one."""
    other = join.sibling(side)
    if isinstance(side, int):
        return [Demand(source, "arrived") for source in sorted(inputs_of(other))] if isinstance(other, TreeJoin) else []
    if isinstance(other, int):
        return [Demand(other, "input")]
    if side != join.first:
        return [Demand(other, "made")]
    # Looking through is worth it for joins of inputs only: those further up have been kept small by then.
    lowest = all(isinstance(child, int) for child in side.sides)
    return [Demand(other, "foreseen")] if lowest and len(other.inputs) <= _MOST_FORESEEN else []
