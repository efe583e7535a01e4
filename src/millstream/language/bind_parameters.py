"""The texts of templates with constants in the place of their parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from millstream.language.binder import BoundQuery
from millstream.language.dialect import CQL
from millstream.language.select import unique
from millstream.language.statement_parser import parse_query
from millstream.language.syntax import PARAMETER, SOURCE_START, SOURCE_TEXT, StreamWindow, numbered_parameters
from millstream.plan import nodes as lo


def with_constants(template: str, values: Sequence[object]) -> str:
    """The text of a template with values in the place of its parameters."""
    return filled(template, values).sql(dialect=CQL)


def size_parameters(tree: exp.Query) -> list[int]:
    """The numbers of the parameters that are sizes of windows, or say how many rows are wanted."""
    return sorted({int(node.meta[PARAMETER]) for node in _sizes(tree)})


def with_some_sizes(tree: exp.Query) -> exp.Query:
    """The tree with some size everywhere: what a query's columns are does not depend on it."""
    for node in [*_sizes(tree)]:
        node.replace(exp.Literal.number(1))
    return tree


def _sizes(tree: exp.Query) -> Iterator[exp.Placeholder]:
    for part in tree.find_all(StreamWindow, exp.Limit, exp.Offset, exp.Fetch):
        yield from part.find_all(exp.Placeholder)


def filled(template: str, values: Sequence[object]) -> exp.Query:
    tree = parse_query(template)
    for index, node in enumerate(numbered_parameters(tree)):
        node.replace(constant(values[index]))
    return tree


def with_own_names(bound: BoundQuery, values: Sequence[object]) -> BoundQuery:
    """A query of a template with the names of columns that it would have alone: unnamed ones have its constants."""
    if not any("?" in field.name for field in bound.schema):
        return bound
    said = _texts_of_items(bound.tree, values)
    own = []
    for name in (field.name for field in bound.schema):
        text = name if name in said else name.rpartition("_")[0]
        own.append(said[text].pop(0) if said.get(text) else name)
    schema = tuple(f._replace(name=name) for f, name in zip(bound.schema, unique(own), strict=True))
    renamed = {field.name: new.name for field, new in zip(bound.schema, schema, strict=True)}

    def change(node: lo.Node) -> lo.Node:
        if not isinstance(node, lo.Project):
            return node
        return replace(node, names=tuple(renamed.get(name, name) for name in node.names))

    return replace(bound, schema=schema, plan=bound.plan.transform(change))


def _texts_of_items(tree: exp.Expr, values: Sequence[object]) -> dict[str, list[str]]:
    """Of the unnamed items of select lists that have parameters: their texts with values, by those without."""
    found: dict[str, list[str]] = {}
    for item in tree.walk():
        if (text := item.meta.get(SOURCE_TEXT)) is None:
            continue
        own = text
        for node in sorted(item.find_all(exp.Placeholder), key=lambda node: -int(node.meta["start"])):
            at = node.meta["start"] - item.meta[SOURCE_START]
            own = f"{own[:at]}{constant(values[node.meta[PARAMETER]]).sql(dialect=CQL)}{own[at + 1 :]}"
        if own != text:
            found.setdefault(text, []).append(own)
    return found


def constant(value: object) -> exp.Expr:
    """A value as the text of a query says it, with the type it has."""
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[constant(element) for element in value])
    if not isinstance(value, float):
        return exp.convert(value)
    if math.isfinite(value):
        return exp.Literal.number(repr(value) if "e" in repr(value) else f"{value!r}e0")
    return exp.cast(exp.Literal.string(str(value)), "double")
