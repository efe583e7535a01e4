"""What the queries of several groups ask of the inputs of one join.

Their query tables are put together to one, with the numbers of each group apart from the others', and its conditions
over the columns of this join; so there is one index for all of them, and a pair is made if some query of any group may
want it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import is_

import polars as pl

from millstream.kernel.columns import with_columns
from millstream.kernel.operator import Segment, State
from millstream.kernel.scalar.expressions import Column, Expression, map_columns
from millstream.kernel.sharing.identity import Recent, serial_of
from millstream.kernel.sharing.index import Index, index_of
from millstream.kernel.sharing.input_lineage import InputLineage, InputSelections
from millstream.kernel.sharing.parameters import QUERIES, QUERY, SHAPE

_APART = 1 << 40  # between the numbers of the queries of different groups
_VERSIONS = 256


@dataclass(frozen=True)
class AskedPairs:
    """What queries ask of a join of more inputs, two of which are those of this one, in this order."""

    selections: InputSelections
    inputs: tuple[int, int]

    def shapes(self) -> dict[str, Expression]:
        """The conditions over the pairs of the two inputs; columns of others are beyond those."""
        widths = self.selections.widths
        starts = [sum(widths[:source]) for source in range(len(widths))]
        places = {starts[self.inputs[0]] + index: index for index in range(widths[self.inputs[0]])}
        first = len(places)
        places |= {starts[self.inputs[1]] + index: first + index for index in range(widths[self.inputs[1]])}
        width = len(places)

        def moved(column: Column) -> Expression:
            return Column(column.type, places.get(column.index, width + column.index), column.name)

        conditions = self.selections.selection.shapes
        return {self.named(name): map_columns(condition, moved) for name, condition in conditions.items()}

    def named(self, shape: str) -> str:
        return f"{self.selections.step} {shape}"


class SelectionsOfGroups(InputSelections):
    """What a group's own queries ask, and those of others who go on with the pairs."""

    def __init__(self, own: InputSelections, others: tuple[AskedPairs, ...]) -> None:
        super().__init__(own.step, own.widths, own.selection)
        self.others = others
        self._last: tuple[tuple[Segment, ...], Index] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_last": None}

    def of(self, state: State) -> InputLineage:
        table = [*state.get(QUERIES, ())]
        for number, other in enumerate(self.others, 1):
            own = state.get(other_table(other.selections.step), ())
            table += (self._moved(segment, number, other) for segment in own)
        if self._last is None or len(table) != len(self._last[0]) or not all(map(is_, table, self._last[0])):
            self._last = tuple(table), index_of(self._shapes(), table)
        return self.lineage(self._last[1])

    def _shapes(self) -> Mapping[str, Expression]:
        found = dict(self.selection.shapes)
        for other in self.others:
            found |= other.shapes()
        return found

    def _moved(self, segment: Segment, number: int, other: AskedPairs) -> Segment:
        def made() -> Segment:
            shapes = segment[SHAPE].cast(pl.String)
            named = {shape: other.named(shape) for shape in shapes.unique()}
            return with_columns(segment, segment[QUERY] + number * _APART, shapes.replace_strict(named).alias(SHAPE))

        return _moved_tables.get((serial_of(segment), self.step, number, other.selections.step), made)


def other_table(selection: str) -> str:
    """The synopsis in which a join finds the query table of another group's selection."""
    return f"{QUERIES} {selection}"


_moved_tables: Recent[Segment] = Recent(_VERSIONS, lambda made: 1)
