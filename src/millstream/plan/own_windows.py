"""Windows that differ in their sizes only: these are constants of queries.

    S [RANGE n] ⋈ T [RANGE m]   of queries that differ in n and m   =   pairs of S' [RANGE N] ⋈ T' [RANGE M], each
    for as long as the windows of a query have both elements,   S' = (S, instant),  n <= N,  m <= M

N and M are the sizes of classes, powers of two: what a join keeps must not depend on who comes and goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from millstream.kernel.scalar.expressions import Expression, Literal, map_columns
from millstream.kernel.sharing.query_windows import SizedWindow
from millstream.kernel.windows.time import Hop, Range, Rows, Tumble, WindowSpecification
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.types import BIGINT

_LONGEST = 1 << 60  # ticks, so that an instant and a size can be added


def parametrised_window(window: WindowSpecification) -> tuple[SizedWindow, tuple[Literal, ...]] | None:
    """A window with the first parameters for its sizes, and these; None where it has none that could be others."""
    match window:
        case Range():
            kind = SizedWindow("range", window.half_open, (0, 1))
            return kind, (Literal(BIGINT, window.size), Literal(BIGINT, window.slide))
        case Tumble():
            return SizedWindow("tumble", True, (0,)), (Literal(BIGINT, window.size),)
        case Hop():
            return SizedWindow("hop", True, (0, 1)), (Literal(BIGINT, window.size), Literal(BIGINT, window.slide))
        case Rows(slide=1):
            return SizedWindow("rows", True, (0,)), (Literal(BIGINT, window.rows),)
        case _:
            return None


def most_ticks(size: int) -> int:
    """How long windows of a join may be that keep their elements together with one of so many ticks."""
    return 1 << (size - 1).bit_length()


@dataclass(frozen=True)
class StampedJoin:
    """An inner join of windows of time that keeps elements as long as the largest windows of a class need them: with
    their instants, and where its columns are that it had before."""

    core: lo.Node
    places: tuple[int, ...]
    instants: tuple[int, ...]
    sizes: tuple[int, ...]  # that were asked for
    half_open: bool

    @property
    def window(self) -> SizedWindow:
        return SizedWindow("joined", self.half_open, tuple(range(len(self.sizes))), self.instants)

    @property
    def constants(self) -> tuple[Literal, ...]:
        return tuple(Literal(BIGINT, size) for size in self.sizes)

    def moved(self, expression: Expression) -> Expression:
        """What is computed from the columns that the join had, from those that it has."""
        return map_columns(expression, lambda column: replace(column, index=self.places[column.index]))


def stamped_join(core: lo.Node) -> StampedJoin | None:
    """None where something else is joined than windows `[RANGE n]` on base streams."""
    match core:
        case lo.Window(window=Range(slide=1, size=size) as window) if isinstance(core.input, lo.StreamScan):
            if not 0 < size <= _LONGEST:
                return None
            stamped = ph.Stamped(replace(core, window=replace(window, size=most_ticks(size))))
            width = len(core.schema)
            return StampedJoin(stamped, tuple(range(width)), (width,), (size,), window.half_open)
        case lo.Join(join="inner"):
            return _joined(core, core.condition)
        case ph.StemJoin(jit=False):
            return _joined(core, core.condition)
        case _:
            return None


def _joined(core: lo.Node, condition: Expression) -> StampedJoin | None:
    inputs = [found for child in core.children if (found := stamped_join(child)) is not None]
    if len(inputs) < len(core.children):
        return None
    firsts = [*accumulate((len(each.core.schema) for each in inputs), initial=0)]
    joined = StampedJoin(
        core,
        tuple(first + place for first, each in zip(firsts, inputs, strict=False) for place in each.places),
        tuple(first + place for first, each in zip(firsts, inputs, strict=False) for place in each.instants),
        tuple(size for each in inputs for size in each.sizes),
        inputs[0].half_open,
    )
    cores, moved = tuple(each.core for each in inputs), joined.moved(condition)
    if isinstance(core, ph.StemJoin):
        return replace(joined, core=replace(core, inputs=cores, condition=moved))
    return replace(joined, core=lo.Join(cores[0], cores[1], "inner", moved))


def have_room(core: lo.Node, sizes: Sequence[int]) -> bool:
    """Whether windows of these sizes have their elements in a core, and not with larger or smaller ones."""
    if isinstance(core, ph.SizedRows | ph.SizedTop):
        return core.has_room_for(sizes[0])
    stamped = (node.input for node in core.walk() if isinstance(node, ph.Stamped))
    windows = (each.window for each in stamped if isinstance(each, lo.Window))
    longest = [window.size for window in windows if isinstance(window, Range)]
    return not longest or longest == [most_ticks(size) for size in sizes]
