"""Left-deep trees of inner joins as one operator, to be measured beside StemJoin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from millstream.kernel.batch import Batch
from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.scalar.expressions import Call, Column, Expression, conjunction
from millstream.types import BIGINT, BOOLEAN, Schema

Place = tuple[int, int]  # an input and a column of it
Equality = tuple[Place, Place]


def condition(schemas: Sequence[Schema], equalities: Sequence[Equality]) -> Expression:
    """The equalities over the row of all inputs."""

    def column(place: Place) -> Column:
        start = sum(len(schema) for schema in schemas[: place[0]])
        return Column(BIGINT, start + place[1], schemas[place[0]][place[1]].name)

    return conjunction([Call(BOOLEAN, "=", (column(one), column(other))) for one, other in equalities])


def orders(inputs: int, equalities: Sequence[Equality]) -> Iterator[tuple[int, ...]]:
    """All orders of joining without a cross product; which of the first two comes first makes no difference."""
    classes = _classes(equalities)
    for order in permutations(range(inputs)):
        connected = all(_keys(order[:n], order[n], classes) for n in range(1, inputs))
        if order[0] < order[1] and connected:
            yield order


class LeftDeepTree(Operator):
    """((A join B) join C) ... in a given order; columns come out in that order."""

    def __init__(self, schemas: Sequence[Schema], equalities: Sequence[Equality], order: Sequence[int]) -> None:
        self.order = tuple(order)
        self.joins = []
        joined: Schema = schemas[order[0]]
        classes = _classes(equalities)
        starts = {order[0]: 0}
        for n in range(1, len(order)):
            new = order[n]
            keys = tuple((starts[source] + column, own) for (source, column), own in _keys(order[:n], new, classes))
            self.joins.append(InnerJoin(joined, schemas[new], keys))
            starts[new] = len(joined)
            joined += schemas[new]
        self.schema = joined

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        first = self.order[0]
        rows, before, reached = inputs[first], progress.before[first], progress.after[first]
        after: dict[str, tuple[Batch, ...]] = {}
        for number, (join, new) in enumerate(zip(self.joins, self.order[1:], strict=True)):
            own = {name: state.get(f"{number} {name}", ()) for name in ("left", "right")}
            moved = Progress((before, progress.before[new]), (reached, progress.after[new]))
            rows, kept = join.step((rows, inputs[new]), own, moved)
            after |= {f"{number} {name}": segments for name, segments in kept.items()}
            before, reached = moved.low_before, moved.low
        return rows, after


def _classes(equalities: Sequence[Equality]) -> list[set[Place]]:
    found: list[set[Place]] = []
    for equality in equalities:
        touched = [places for places in found if places & set(equality)]
        found = [places for places in found if places not in touched] + [set(equality).union(*touched)]
    return found


def _keys(joined: Sequence[int], new: int, classes: Sequence[set[Place]]) -> list[tuple[Place, int]]:
    """(a place of a joined input, the new input's column) for every class that connects them."""
    return [
        (min(place for place in places if place[0] in joined), own)
        for places in classes
        for source, own in sorted(places)
        if source == new and any(place[0] in joined for place in places)
    ]
