"""Rows of groups as their queries have them, where columns are made with a query's own constants when it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from millstream.engine.groups.many import Numbers
from millstream.kernel.batch import Batch, value_column
from millstream.kernel.relational.own_columns import made_for_many, made_for_one
from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.sharing.parameters import with_values
from millstream.kernel.storage.segments import numbers
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
        constants = self.template.constants_of(self.number)
        return [with_values(column, constants) for column in self.template.shape.own_columns]

    def own(self, rows: Batch) -> Batch:
        return made_for_one(rows, self._columns, self.template.bound.schema)

    def own_of_many(self, rows: Batch, places: Numbers, queries: Sequence[int]) -> Batch:
        """With the constants of each row's query beside it."""
        template, at = self.template, np.searchsorted(places, numbers(rows, value_column(0)))
        schema = (PLACE, *template.bound.schema)
        return made_for_many(rows, template.shape.own_columns, schema, template.constants(queries), at)
