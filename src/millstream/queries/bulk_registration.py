"""`register_many`: queries of one template, each with its own values for the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from millstream.errors import BindError, InputError, Place
from millstream.language import statements as st
from millstream.language.bind_parameters import with_constants
from millstream.language.statement_parser import parse_query
from millstream.language.syntax import numbered_parameters
from millstream.plan.grouping import Shape
from millstream.queries.modes import Modes
from millstream.queries.none_mode import NoneTemplates
from millstream.queries.notices import of_the_past
from millstream.queries.parameters import parameter_columns
from millstream.queries.planner import Planner
from millstream.queries.registration import Registration
from millstream.queries.registry import Registry, check_query_name
from millstream.queries.sharing_choice import SharingChoice
from millstream.queries.templates import Templates, table_rows
from millstream.query import Query
from millstream.types import DataType


class BulkRegistration:
    """A template always makes a group where its plan allows that."""

    def __init__(
        self,
        planner: Planner,
        registry: Registry,
        modes: Modes,
        choice: SharingChoice,
        templates: Templates,
        none_templates: NoneTemplates,
        registration: Registration,
    ) -> None:
        self._planner, self._registry, self._modes, self._choice = planner, registry, modes, choice
        self._templates, self._none_templates, self._registration = templates, none_templates, registration

    def register(self, text: str, rows: Any, names: Sequence[str] | None, mode: str) -> list[Query]:
        tree = parse_query(text)
        count = len(numbered_parameters(tree))
        if not count:
            raise BindError("a template without parameters", hint="write ? where queries differ, or use register")
        kinds, values = parameter_columns(rows, count)
        if names is not None and len(names) != values.height:
            raise InputError(f"{values.height} rows, and {len(names)} names")
        for name in names or ():
            check_query_name(name)
        with self._planner.engine.lock:
            shown = list(names) if names is not None else self._registry.free_names(values.height)
            self._registry.check_free(shown)
            if not values.height:
                return []
            made = self._together(text, tree, kinds, values, shown, mode.lower())
            return self._one_by_one(text, values, shown, mode.lower()) if made is None else made

    def _together(
        self,
        text: str,
        tree: Any,
        kinds: tuple[DataType, ...],
        values: pl.DataFrame,
        names: Sequence[str],
        mode: str,
    ) -> list[Query] | None:
        """None where no plan can be shared."""
        planned = self._planner.plan(text, tree, kinds)
        past = of_the_past(self._planner.engine, planned.bound)
        if past.unseen is not None:
            return None
        if mode == "none":
            return self._none_templates.register(text, planned, kinds, values, names)
        lazy, found = self._modes.of_group(planned, lazy=mode == "lazy")
        if found is None:
            return None
        shape = Shape(found.condition, kinds)
        group = self._choice.group(found, shape, self._planner.options, values)
        if self._choice.differs_by_its_past(group, past):
            return None
        template = self._templates.declared(planned, group, shape, text, kinds, lazy)
        rows = table_rows(values, names, mode, template.name)
        return self._templates.enlist(template, rows, self._planner.settings)

    def _one_by_one(self, template: str, values: pl.DataFrame, names: Sequence[str], mode: str) -> list[Query]:
        """Each query with a plan of its own."""
        queries = []
        for name, row in zip(names, values.iter_rows(), strict=True):
            text = with_constants(template, row)
            statement = st.AdHocQuery(Place(text, 0, len(text)), parse_query(text))
            queries.append(self._registration.register(name, mode, statement))
        return queries
