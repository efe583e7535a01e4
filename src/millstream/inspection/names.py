"""What may be named in a text: streams, tables and views with their columns, queries, and functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.catalog.objects import kind_of
from millstream.catalog.session import Session
from millstream.kernel.scalar.functions import signatures
from millstream.language.aggregates import AGGREGATES

_MOST_QUERIES = 1_000


def known_names(session: Session, queries: Sequence[str]) -> dict[str, Any]:
    """Of queries the first thousand."""
    objects: dict[str, list[dict[str, Any]]] = {"streams": [], "tables": [], "views": []}
    for definition in [*session.catalog.values()]:
        columns = [{"name": column.name, "type": str(column.type)} for column in definition.columns]
        objects[f"{kind_of(definition)}s"].append({"name": definition.name, "columns": columns})
    code = session.code
    functions = {name: f"{name}({takes})" for name, takes in signatures().items()}
    functions |= {name: f"{name}(a column): an aggregate" for name in AGGREGATES}
    functions |= {
        name: f"{name}(...): {function.returns}, of this database" for name, function in code.functions.items()
    }
    functions |= {
        name: f"{name}(a column): {kind}, an aggregate of this database" for name, (_, kind) in code.aggregates.items()
    }
    return {
        **objects,
        "queries": queries[:_MOST_QUERIES],
        "functions": [{"name": name, "signature": signature} for name, signature in sorted(functions.items())],
    }
