"""Texts that differ in constants only: one like which there are some in a group is not even parsed."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from millstream.catalog.entries import Entry
from millstream.errors import Error
from millstream.kernel.batch import value_column
from millstream.kernel.scalar.expressions import Literal
from millstream.language import statements as st
from millstream.language.literal_masks import Masked, converted, in_conditions, sources_of, with_marks
from millstream.language.statement_parser import parse_query
from millstream.plan.grouping import shape_of, split
from millstream.queries.planner import Planner
from millstream.queries.templates import Template
from millstream.types import to_polars


@dataclass(frozen=True, eq=False)
class KnownText:
    """Texts of a template: which constant is which parameter, and the other constants, which are the same in all of
    them."""

    template: Template
    sources: tuple[int, ...]
    fixed: tuple[tuple[int, Literal], ...]

    def constants(self, found: Masked) -> pl.DataFrame | None:
        """The row of a text's constants; None where one is not of its parameter's type."""
        columns = []
        for index, (number, kind) in enumerate(zip(self.sources, self.template.shape.parameters, strict=True)):
            value = converted(found.constants[number], kind)
            if value is None:
                return None
            columns.append(pl.Series(value_column(index), [value], to_polars(kind)))
        return pl.DataFrame(columns)


class KnownTexts:
    """Those that were learned from queries of this process."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._texts: dict[tuple[str, ...], list[KnownText]] = {}
        self._under: tuple[Entry, ...] = ()  # what was declared when they were learned

    def find(self, found: Masked) -> KnownText | None:
        if self._under is not self._planner.session.declared.entries:
            # Something was declared since: names may mean something else now.
            self._texts.clear()
            self._under = self._planner.session.declared.entries
        for known in self._texts.get(found.tokens, ()):
            if all(found.constants[number] == constant for number, constant in known.fixed):
                return known
        return None

    def learn(self, found: Masked, statement: st.Query, template: Template) -> None:
        """Find out which constants of a text are which parameters of its template."""
        text = statement.place.text
        wanted = in_conditions(statement.query, found)
        probe, marks = with_marks(text, found, wanted)
        try:
            plan = self._planner.plan(probe, parse_query(probe)).bound.plan
        except Error:
            return  # a mark is no date, say; such texts are bound one by one
        taken = split(plan)
        if taken is None or taken.skeleton != template.group.split.skeleton:
            return
        shape, values = shape_of(taken.condition)
        sources = sources_of(values, shape.parameters, marks) if shape.name == template.shape.name else None
        if sources is not None:
            fixed = tuple((n, constant) for n, constant in enumerate(found.constants) if n not in marks)
            self._texts.setdefault(found.tokens, []).append(KnownText(template, sources, fixed))
            self._under = self._planner.session.declared.entries
