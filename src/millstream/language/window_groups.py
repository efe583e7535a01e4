"""Spark's `GROUP BY window(ts, '10 minutes', '5 minutes')` as a window in FROM and its bounds.

    FROM s .. GROUP BY k, window(ts, '10 minutes', '5 minutes')
    = FROM s [HOP 10 MINUTES SLIDE 5 MINUTES] .. GROUP BY k, window_start, window_end

and `window.start`, `window.end` are the bounds. Without a slide it is TUMBLE. It is done to the tree before anything is
bound, so that the text with the defaults has it.
"""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from millstream.errors import BindError, NotSupportedError, SyntaxError
from millstream.language.durations import MICROSECONDS, written_microseconds
from millstream.language.syntax import WINDOW, StreamOperator, StreamWindow, place_of
from millstream.plan.nodes import BOUND_NAMES

_BOUNDS = {"start": "window_start", "end": "window_end"}
_PART = re.compile(r"\s*(\d+)\s*([a-z]+)\s*", re.IGNORECASE)


def with_windows(query: exp.Query, text: str) -> exp.Query:
    """The tree with windows in FROM in the place of those in GROUP BY."""
    for select in [*query.find_all(exp.Select)]:
        group = select.args.get("group")
        calls = [key for key in (group.expressions if group is not None else []) if _is_window(key)]
        if len(calls) > 1:
            raise BindError("two windows in GROUP BY", place=place_of(calls[1], text))
        if calls:
            _WindowGroup(select, calls[0], text).replace()
    return query


def _is_window(key: exp.Expr) -> bool:
    return isinstance(key, exp.Anonymous) and key.name.lower() in ("window", "session_window")


class _WindowGroup:
    def __init__(self, select: exp.Select, call: exp.Expr, text: str) -> None:
        self.select, self.call, self.text = select, call, text
        if call.name.lower() == "session_window":
            hint = "write FROM s [SESSION 5 MINUTES PARTITION BY k], and window_start, window_end"
            raise NotSupportedError("session_window is not supported", hint=hint, place=place_of(call, text))
        if not 2 <= len(call.expressions) <= 3 or not isinstance(call.expressions[0], exp.Column):
            raise NotSupportedError(
                "window takes a timestamp, a size and perhaps a slide",
                hint="as in window(ts, '10 minutes', '5 minutes')",
                place=place_of(call, text),
            )

    def replace(self) -> None:
        column, *sizes = self.call.expressions
        size, slide = self._size(sizes[0]), self._size(sizes[-1])
        window = StreamWindow(kind="TUMBLE", size=size, descriptor=column.copy())
        if len(sizes) > 1:
            window = StreamWindow(kind="HOP", size=size, slide=slide, descriptor=column.copy())
        window.meta.update(self.call.meta)
        self._stream(column).set(WINDOW, window)
        group = self.select.args["group"]
        bounds: list[exp.Expr] = [exp.column(name) for name in BOUND_NAMES]
        keys = [bounds if key is self.call else [key] for key in group.expressions]
        group.set("expressions", [part for parts in keys for part in parts])
        for item in [*self.select.find_all(exp.Column)]:
            self._bound(item)

    def _bound(self, column: exp.Column) -> None:
        """`window.start` as the column window_start, under the name that Spark gives it."""
        if column.parent_select is not self.select or (column.table or column.name).lower() != "window":
            return
        if not column.table or column.name.lower() not in _BOUNDS:
            raise NotSupportedError(
                "a window has no value of its own",
                hint="use window.start and window.end",
                place=place_of(column, self.text),
            )
        bound: Any = exp.column(_BOUNDS[column.name.lower()])
        bound.this.meta.update(column.this.meta)
        is_item = isinstance(column.parent, exp.Select | StreamOperator) and column.arg_key == "expressions"
        column.replace(exp.alias_(bound, column.name) if is_item else bound)

    def _stream(self, column: exp.Column) -> exp.Table:
        origin = self.select.args.get("from_")
        joins = self.select.args.get("joins") or []
        items = [*([origin.this] if origin is not None else []), *(join.this for join in joins)]
        tables = [item for item in items if isinstance(item, exp.Table) and item.args.get(WINDOW) is None]
        named = [table for table in tables if not column.table or table.alias_or_name.lower() == column.table.lower()]
        if len(named) != 1:
            raise BindError(
                "it is not clear which stream the window is on",
                hint="qualify the timestamp, as in window(s.ts, '10 minutes'); or write s [TUMBLE 10 MINUTES] in FROM",
                place=place_of(self.call, self.text),
            )
        return named[0]

    def _size(self, size: exp.Expr) -> exp.Expr:
        """`'1 hour 30 minutes'` as an interval."""
        if isinstance(size, exp.Interval):
            return size
        written = size.name.removeprefix("interval ") if isinstance(size, exp.Literal) and size.is_string else ""
        parts = [*_PART.finditer(written)]
        units = [part.group(2).upper().removesuffix("S") for part in parts]
        whole = "".join(part.group(0) for part in parts) == written and all(unit in MICROSECONDS for unit in units)
        if not parts or not whole:
            raise SyntaxError(
                "cannot read the size of the window", hint="as in '10 minutes'", place=place_of(size, self.text)
            )
        total = sum(int(part.group(1)) * MICROSECONDS[unit] for part, unit in zip(parts, units, strict=True))
        interval = written_microseconds(total)
        interval.meta.update(size.meta)
        return interval
