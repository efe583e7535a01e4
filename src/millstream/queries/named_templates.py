"""Templates that have a name: the catalog keeps their texts, and which queries are theirs.

Queries of a group, and those of mode NONE, are found by what they share, whose entry says the name of the template.
Queries with plans of their own are in the entry of the template, with their values.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from millstream.catalog.entries import Entry
from millstream.catalog.objects import CatalogOfObjects
from millstream.errors import BindError, CatalogError, InputError, Place
from millstream.kernel.batch import value_column, value_columns
from millstream.language.bind_parameters import with_some_sizes
from millstream.language.statement_parser import parse_query
from millstream.language.syntax import numbered_parameters
from millstream.language.type_names import stored_text
from millstream.names import shown_name, why_unusable
from millstream.queries.parameters import stored_kinds
from millstream.queries.planner import Planner
from millstream.queries.registry import Registry
from millstream.queries.unopened import is_about_the_query
from millstream.query import Query, QueryContext, Template
from millstream.query.template import Single
from millstream.types import NULL, DataType, to_polars

KIND = "named_template"
OF = "of"  # in the entry of what queries share: the name of their template
_SINGLES, _NEXT, _NAME, _NUMBER = "singles", "next", "name", "number"


class NamedTemplates:
    """Those of a database, by name; names are the same in lower and upper case."""

    def __init__(self, planner: Planner, registry: Registry, context: QueryContext) -> None:
        self._planner, self._session, self._registry, self._context = planner, planner.session, registry, context
        self._templates: dict[str, Template] = {}
        self._unopened: dict[str, Exception] = {}  # those of an earlier version that this one cannot open

    def __iter__(self) -> Iterator[Template]:
        return iter([*self._templates.values()])  # others may come and go meanwhile

    def get(self, name: str) -> Template | None:
        return self._templates.get(name.lower())

    def find(self, name: str, place: Place | None = None) -> Template:
        self._check_opened(name)
        if name.lower() not in self._templates:
            raise CatalogOfObjects.unknown("template", name, [template.name for template in self], place)
        return self._templates[name.lower()]

    def planner_of(self, template: Template) -> Planner:
        """Its queries are planned under the settings that it was declared under, whatever they are now."""
        return self._planner.of(self._entry(template))

    def _check_opened(self, name: str) -> None:
        if (error := self._unopened.get(name.lower())) is not None:
            raise CatalogError(f'template "{name}" cannot be opened by this version', detail=str(error)) from error

    # Coming and going

    def declare(self, name: str, text: str, mode: str, kinds: Sequence[DataType]) -> Template:
        """A new template; the caller commits."""
        if reason := why_unusable(name):
            raise BindError(f'"{shown_name(name)}" cannot be a template\'s name', detail=reason)
        self._check_opened(name)
        template = self._made(name, text, mode, kinds, self._planner)
        self._session.declared = self._session.declared.with_entry(
            KIND,
            name,
            shown=name,
            text=text,
            mode=mode,
            parameters=[str(kind) for kind in kinds],
            settings=asdict(self._planner.settings),
            **self._session.alterations.entry(),
        )
        self._templates[name.lower()] = template
        return template

    def retype(self, template: Template, kinds: Sequence[DataType]) -> None:
        """The first rows say of which types parameters are; the caller commits."""
        made = self._made(template.name, template.text, template.mode, kinds, self.planner_of(template))
        template.parameters, template.common = made.parameters, made.common
        self._change(template, parameters=[str(kind) for kind in kinds])

    def check_same(self, template: Template, text: str, mode: str | None) -> None:
        """Refuse queries of another text or mode."""
        if parse_query(text) != parse_query(template.text):
            raise CatalogError(
                f'template "{template.name}" has another text',
                detail=template.text,
                hint="give the same text, or another name",
            )
        if mode is not None and mode.lower() != template.mode:
            raise CatalogError(f'template "{template.name}" is of mode {template.mode}', hint="all its queries are")

    def converted(self, template: Template, kinds: Sequence[DataType], values: pl.DataFrame) -> pl.DataFrame:
        """Values as parameters of a template, whose types stay what they are."""
        columns = []
        for place, (found, kind) in enumerate(zip(kinds, template.parameters, strict=True)):
            column = values[value_column(place)]
            if found != kind:
                column = _cast(column, kind, f"parameter {place + 1} of template {template.name}")
            columns.append(column)
        return pl.DataFrame(columns)

    def declare_singles(self, template: Template, names: Sequence[str], values: pl.DataFrame) -> dict[str, Single]:
        """Queries that will have plans of their own; the caller commits."""
        entry = self._entry(template)
        first = entry.get(_NEXT, 0)
        numbers = pl.Series(_NUMBER, range(first, first + len(names)), pl.Int64)
        new = values.with_columns(pl.Series(_NAME, names, pl.String), numbers)
        kept = [unpacked(entry[_SINGLES])] if _SINGLES in entry else []
        self._change(template, **{_SINGLES: packed(pl.concat([*kept, new])), _NEXT: first + len(names)})
        return _singles(new)

    def forget_single(self, template: Template, query: str) -> None:
        """A query with a plan of its own is gone; the caller commits."""
        entry = self._entry(template)
        if _SINGLES in entry:
            left = unpacked(entry[_SINGLES]).filter(pl.col(_NAME).str.to_lowercase() != query.lower())
            self._change(template, **{_SINGLES: packed(left)})

    def undeclare(self, template: Template) -> None:
        """It could not be committed."""
        self._templates.pop(template.name.lower(), None)
        self._session.declared = self._session.declared.without(KIND, template.name)

    def forget(self, template: Template) -> None:
        """It is gone, and this is committed."""
        self._templates.pop(template.name.lower(), None)
        template.close()

    # Opening a database

    def recover(self, entry: Entry) -> None:
        """Have a template that an earlier process declared, without queries yet."""
        kinds = stored_kinds(entry["parameters"])
        planner = self._planner.of(entry)
        try:
            with stored_text():
                made = self._made(entry["shown"], entry["text"], entry["mode"], kinds, planner)
        except Exception as error:
            if not is_about_the_query(error):
                raise
            self._unopened[entry["name"]] = error
        else:
            self._templates[entry["name"]] = made

    def join(self, name: str | None, queries: Iterable[Query]) -> None:
        """Queries are of the template that the entry of what they share names, if it does."""
        if name is not None and (template := self.get(name)) is not None:
            template.add(queries)

    def take_apart(self, name: str | None, queries: Sequence[str], values: pl.DataFrame) -> None:
        """Queries that shared something will have come alone."""
        if name is not None and queries and (template := self.get(name)) is not None:
            kinds = zip(value_columns(len(template.parameters)), map(to_polars, template.parameters), strict=True)
            self.declare_singles(template, queries, values.select(pl.col(name).cast(kind) for name, kind in kinds))

    def join_singles(self) -> None:
        """Queries that came alone are there now."""
        for template in self:
            entry = self._entry(template)
            found = _singles(unpacked(entry[_SINGLES])) if _SINGLES in entry else {}
            there = {name: query for name in found if (query := self._registry.get(name)) is not None}
            template.add(there.values(), {name: found[name] for name in there})

    # Entries

    def _made(self, name: str, text: str, mode: str, kinds: Sequence[DataType], planner: Planner) -> Template:
        tree = parse_query(text)
        numbered_parameters(tree)
        bound = planner.bind(text, with_some_sizes(tree), kinds)
        return Template(self._context, name, text, mode, tuple(kinds), bound)

    def _entry(self, template: Template) -> Entry:
        entry = self._session.declared.find(KIND, template.name)
        if entry is None:
            raise AssertionError(f"template {template.name} is not declared")
        return entry

    def _change(self, template: Template, **changed: Any) -> None:
        entry = self._entry(template)
        self._session.declared = self._session.declared.replacing(entry, {**entry, **changed})


def is_untyped(kinds: Sequence[DataType]) -> bool:
    """Whether no row has said yet of which types parameters are."""
    return all(kind == NULL for kind in kinds)


def _singles(rows: pl.DataFrame) -> dict[str, Single]:
    names = value_columns(rows.width - 2)
    values = rows.select(names).iter_rows()
    return {
        name.lower(): Single(number, own) for name, number, own in zip(rows[_NAME], rows[_NUMBER], values, strict=True)
    }


def _cast(column: pl.Series, kind: DataType, what: str) -> pl.Series:
    try:
        found = column.cast(to_polars(kind))
        is_same = (found.cast(column.dtype).eq_missing(column)).all()
    except pl.exceptions.PolarsError:
        is_same = False
    if not is_same:
        raise InputError(
            f"{what} is {kind}, and there are values that are not",
            hint="the first rows of a template say its types: give those as a table with wider ones",
        )
    return found


def packed(rows: pl.DataFrame) -> str:
    """Rows as a text, for an entry of the catalog."""
    content = io.BytesIO()
    rows.write_ipc(content, compression="zstd")
    return base64.b85encode(content.getvalue()).decode()


def unpacked(text: str) -> pl.DataFrame:
    return pl.read_ipc(io.BytesIO(base64.b85decode(text)))
