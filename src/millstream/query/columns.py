"""The columns of a query by their own names: unnamed ones have its constants, whatever template it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.types import Schema

if TYPE_CHECKING:
    from millstream.query.query import Query


def columns_of(query: Query) -> Schema:
    """Found once for a query, since most have the names of their template."""
    common = query.common
    if query.template is None or not any("?" in field.name for field in common.schema):
        return common.schema
    if query.named is None or query.named[0] is not common:
        query.named = common, query.bound.schema
    return query.named[1]
