"""What those who hold rows back can ask about the rest of a join during a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from millstream.kernel.just_in_time.look_ahead import LookAhead
from millstream.kernel.just_in_time.partners import RowValues, Stored
from millstream.kernel.just_in_time.tree_shape import TreeJoin
from millstream.kernel.operator import Segment


class Surroundings(Protocol):
    """The rows of inputs and of inner joins."""

    def stored(self, side: TreeJoin | int) -> list[Stored]:
        """The rows of an input that are in, or of a join, with the new ones."""
        ...

    def new(self, side: TreeJoin | int) -> Segment: ...

    @property
    def open_from(self) -> int:
        """The first instant of which the output was not final before the step."""
        ...

    @property
    def arrived(self) -> Sequence[Segment]:
        """The new rows of each input, admitted or not."""
        ...

    def all_rows(self, source: int) -> list[Segment]:
        """Those of an input, in or not."""
        ...

    def arrived_rows(self, source: int) -> list[Stored]:
        """The same, those left out that nothing can meet any more."""
        ...

    def look_ahead(self, join: TreeJoin, view: LookAhead) -> RowValues:
        """The new combinations."""
        ...
