"""A query that may fail, registered before its rows or after them."""

from __future__ import annotations

import millstream as ms

Rows = dict[str, list[tuple[int, int, int]]]


def failure(db: ms.Database, text: str, rows: Rows, mode: str, when: str) -> str:
    """What a query says when it fails, and nothing where it does not."""
    try:
        query = db.register(text, mode=mode) if when == "early" else None
        for name, some in rows.items():
            db.insert(name, some)
        db.advance(to=20)
        query = query or db.register(text, mode=mode)
        query.result()
        query.changes()
    except ms.EvaluationError as error:
        return str(error)
    return ""
