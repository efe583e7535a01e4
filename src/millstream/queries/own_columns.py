"""Rows of groups as their queries have them, where columns are made with a query's own constants when it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from millstream.engine.groups.many import Numbers
from millstream.kernel.batch import Batch, value_column
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.relational.linear import Project
from millstream.kernel.scalar.expressions import Column, Expression, shift_columns
from millstream.kernel.sharing.parameters import parameters_as_columns, with_values
from millstream.kernel.storage.segments import gather, numbers
from millstream.query.members import PLACE
from millstream.types import Schema

if TYPE_CHECKING:
    from millstream.queries.templates import GroupTemplate


@dataclass(eq=False)
class MemberColumns:
    """For one query of a template, whose constants never change."""

    template: GroupTemplate
    number: int

    @property
    def kept(self) -> Schema:
        return self.template.group.kept

    @cached_property
    def _columns(self) -> list[Expression]:
        constants = self.template.constants([self.number]).row(0)
        return [with_values(column, constants) for column in self.template.shape.own_columns]

    def own(self, rows: Batch) -> Batch:
        return _projected(rows, self.template.bound.schema, self._columns)

    def own_of_many(self, rows: Batch, places: Numbers, queries: Sequence[int]) -> Batch:
        """With the constants of each row's query beside it."""
        template, width = self.template, 1 + len(self.kept)
        constants = template.constants(queries)
        at = np.searchsorted(places, numbers(rows, value_column(0)))
        own_constants = [
            own.alias(value_column(width + place)) for place, own in enumerate(gather(constants, constants.columns, at))
        ]
        columns = [parameters_as_columns(shift_columns(e, 1), width) for e in template.shape.own_columns]
        schema = (PLACE, *template.bound.schema)
        return _projected(rows.hstack(own_constants), schema, [Column(PLACE.type, 0, PLACE.name), *columns])


def _projected(rows: Batch, schema: Schema, columns: Sequence[Expression]) -> Batch:
    return Project(schema, columns).step([rows], NO_STATE, Progress((), ()))[0]
