"""`register_many`: queries of one template, each with its own values for the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from millstream.errors import BindError, InputError, Place
from millstream.kernel.batch import value_column
from millstream.language import statements as st
from millstream.language.bind_parameters import size_parameters, with_constants
from millstream.language.remarks import remarks
from millstream.language.statement_parser import parse_query
from millstream.language.syntax import numbered_parameters
from millstream.plan.lowering.matches import is_fragile
from millstream.plan.shapes import Shape
from millstream.queries.modes import Modes
from millstream.queries.named_templates import NamedTemplates, is_untyped
from millstream.queries.none_mode import NoneTemplates
from millstream.queries.notices import of_the_past
from millstream.queries.parameters import parameter_columns
from millstream.queries.planner import Planner
from millstream.queries.registration import Registration
from millstream.queries.registry import Registry, check_query_name
from millstream.queries.sharing_choice import SharingChoice
from millstream.queries.templates import Templates, table_rows
from millstream.query import Query, Template
from millstream.types import DataType

_LOOKED_AT = 100  # of many queries, for constants that have no value: each is read for itself


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
        named: NamedTemplates,
    ) -> None:
        self._planner, self._registry, self._modes, self._choice = planner, registry, modes, choice
        self._templates, self._none_templates, self._registration = templates, none_templates, registration
        self._named = named

    def register(self, text: str, rows: Any, names: Sequence[str] | None, mode: str) -> list[Query]:
        """Queries of a template without a name."""
        kinds, values = self._read(text, rows, names)
        with self._planner.engine.lock:
            shown = self._names(values, names)
            with remarks() as said:
                made = self._made(self._planner, text, kinds, values, shown, mode) if values.height else []
            for query in made if said else ():
                query.remarks = tuple(said)
            self._remark_failures(made)
            return made

    def register_named(
        self, name: str, text: str, rows: Any, names: Sequence[str] | None, mode: str | None
    ) -> Template:
        """Queries of a template with a name, which is declared unless it is there."""
        kinds, values = self._read(text, rows, names)
        with self._planner.engine.lock:
            shown, before = self._names(values, names), self._planner.session.declared
            template = self._named.get(name)
            types = None if template is None else (template.parameters, template.common)
            if template is None:
                template = self._named.declare(name, text, (mode or "eager").lower(), kinds)
            else:
                self._named.check_same(template, text, mode)
                if is_untyped(template.parameters) and not len(template):
                    self._named.retype(template, kinds)
                values = self._named.converted(template, kinds, values)
            try:
                if values.height:
                    with remarks() as said:
                        self._add(template, values, shown)
                    template.remarks = tuple(dict.fromkeys([*said, *template.remarks]))
                else:
                    self._planner.session.declare(self._planner.session.declared)
            except BaseException:
                if not len(template):  # nothing came of it
                    self._planner.session.declared = before
                    if types is None:
                        self._named.undeclare(template)
                    else:
                        template.parameters, template.common = types
                raise
            return template

    def _add(self, template: Template, values: pl.DataFrame, names: Sequence[str]) -> None:
        planner = self._named.planner_of(template)
        made = self._together(planner, template.text, template.parameters, values, names, template.mode, template.name)
        if made is not None:
            template.add(made)
            template.remarks = (*template.remarks, *self._remark_failures(made))
            return
        session, before = self._planner.session, self._planner.session.declared
        singles = self._named.declare_singles(template, names, values)
        try:
            for name, own in zip(names, values.iter_rows(), strict=True):
                query = self._one(planner, template.text, own, name, template.mode)
                template.add([query], {name.lower(): singles[name.lower()]})
        except BaseException:
            if not any(template.query(name) is not None for name in names):
                session.declared = before
            raise

    def _remark_failures(self, made: Sequence[Query]) -> list[str]:
        """Notice constants that have no value of some of the queries that share a plan; gives what is said of the
        first such query. The others were read one by one."""
        if not made or made[0].template is None or not is_fragile(made[0].common.plan):
            return []
        first: list[str] = []
        for query in made[:_LOOKED_AT]:
            said = self._planner.certain_failures(query.bound, Place(query.cql, 0, len(query.cql)))
            query.remarks = (*query.remarks, *said)
            first = first or [f"{query.name}: {each}" for each in said]
        return first

    def _read(self, text: str, rows: Any, names: Sequence[str] | None) -> tuple[tuple[DataType, ...], pl.DataFrame]:
        """The types and values of parameters; an error where the rows do not go with the text or the names."""
        tree = parse_query(text)
        count = len(numbered_parameters(tree))
        if not count:
            raise BindError("a template without parameters", hint="write ? where queries differ, or use register")
        kinds, values = parameter_columns(rows, count)
        if names is not None and len(names) != values.height:
            raise InputError(f"{values.height} rows, and {len(names)} names")
        for name in names or ():
            check_query_name(name)
        return kinds, values

    def _names(self, values: pl.DataFrame, names: Sequence[str] | None) -> list[str]:
        shown = list(names) if names is not None else self._registry.free_names(values.height)
        self._registry.check_free(shown)
        return shown

    def _made(
        self,
        planner: Planner,
        text: str,
        kinds: tuple[DataType, ...],
        values: pl.DataFrame,
        names: Sequence[str],
        mode: str,
    ) -> list[Query]:
        made = self._together(planner, text, kinds, values, names, mode.lower())
        if made is not None:
            return made
        rows = zip(names, values.iter_rows(), strict=True)
        return [self._one(planner, text, own, name, mode.lower()) for name, own in rows]

    def _together(
        self,
        planner: Planner,
        text: str,
        kinds: tuple[DataType, ...],
        values: pl.DataFrame,
        names: Sequence[str],
        mode: str,
        of: str | None = None,
    ) -> list[Query] | None:
        """Of a template that has a name, perhaps. None where no plan can be shared."""
        tree = parse_query(text)
        numbered_parameters(tree)
        if sizes := size_parameters(tree):
            self._check_sizes(planner, text, values, sizes)
            return None  # each is bound for itself, and comes to those that share its plan
        if any(kind.is_list for kind in kinds):
            return None  # the elements of its lists are the constants of a query
        planned = planner.plan(text, tree, kinds)
        past = of_the_past(planner.engine, planned.bound)
        if past.unseen is not None:
            return None
        if mode == "none":
            return self._none_templates.register(text, planned, kinds, values, names, of)
        lazy, found = self._modes.of_group(planned, lazy=mode == "lazy")
        if found is None:
            return None
        shape = Shape(found.condition, kinds, found.own_columns)
        group = self._choice.group(found, shape, planner.options, values)
        if self._choice.differs_by_its_past(group, past):
            return None
        template = self._templates.declared(planned, group, shape, text, kinds, lazy, of)
        rows = table_rows(values, names, mode, template.name)
        return self._templates.enlist(template, rows, self._planner.settings)

    def _check_sizes(self, planner: Planner, text: str, values: pl.DataFrame, sizes: Sequence[int]) -> None:
        """Refuse sizes that windows cannot have before anything is registered."""
        columns = [value_column(number) for number in sizes]
        for own in values.unique(columns, keep="first", maintain_order=True).iter_rows():
            filled = with_constants(text, own)
            planner.bind(filled, parse_query(filled))

    def _one(self, planner: Planner, template: str, values: Sequence[object], name: str, mode: str) -> Query:
        """A query that comes alone."""
        text = with_constants(template, values)
        statement = st.AdHocQuery(Place(text, 0, len(text)), parse_query(text))
        return self._registration.register(name, mode, statement, planner)
