"""Binds windows and SAMPLE: sizes in ticks, partition columns as positions."""

from __future__ import annotations

from sqlglot import exp

from millstream.bounds import MAX_ROWS
from millstream.errors import BindError, Error, NameError, did_you_mean
from millstream.kernel.windows.time import BeginEnd, Now, Range, Rows, Tumble, Unbounded, WindowSpecification
from millstream.language.definer import ticks
from millstream.language.durations import duration
from millstream.language.instants import constant, instant
from millstream.language.syntax import Instant, StreamSample, StreamWindow, place_of
from millstream.plan import nodes as lo
from millstream.plan.definitions import TimeDomain
from millstream.settings import Settings
from millstream.types import Schema


def bind_window(
    window: StreamWindow, schema: Schema, domain: TimeDomain | None, settings: Settings, text: str
) -> WindowSpecification:
    return _WindowBinder(schema, domain or TimeDomain(None), settings, text).bind(window)


def bind_sample(plan: lo.Node, sample: StreamSample, settings: Settings, text: str) -> lo.Node:
    percent = float(sample.this.name)
    if not 0 <= percent <= 100:
        raise BindError(f"SAMPLE takes 0 to 100 percent, not {sample.this.name}", place=place_of(sample, text))
    return lo.Sample(plan, percent, settings.sample_seed)


class _WindowBinder:
    def __init__(self, schema: Schema, domain: TimeDomain, settings: Settings, text: str) -> None:
        self.schema = schema
        self.domain = domain
        self.half_open = settings.range_bounds == "half_open"
        self.text = text

    def bind(self, window: StreamWindow) -> WindowSpecification:
        kind = window.args["kind"]
        if window.args.get("partition") and kind != "ROWS":
            raise self._error(
                window, f"PARTITION BY with {kind}", "partitioned windows count rows: PARTITION BY a ROWS 5"
            )
        if kind == "BEGIN":
            return self._begin_end(window)
        size, slide = window.args.get("size"), window.args.get("slide")
        if kind == "NOW":
            self._no_slide(window, "NOW")
            return Now()
        if isinstance(size, exp.Var) and size.name == "UNBOUNDED":
            if kind == "TUMBLE":
                raise self._error(window, "TUMBLE UNBOUNDED means nothing", "give a size, as in [TUMBLE 1 MINUTE]")
            self._no_slide(window, "UNBOUNDED")
            return Unbounded()
        if kind == "ROWS":
            return self._rows(window)
        length = ticks(duration(window.args["size"], self.text), self.domain)
        if kind == "TUMBLE":
            self._no_slide(window, "TUMBLE")
            return Tumble(self._positive(length, window, "TUMBLE"))
        step = 1 if slide is None else ticks(duration(slide, self.text), self.domain)
        if length == 0 and slide is None and not self.half_open:
            return Now()
        return Range(length, self._positive(step, window, "SLIDE"), self.half_open)

    def _rows(self, window: StreamWindow) -> Rows:
        rows = self._count(window, "size", "ROWS")
        slide = self._count(window, "slide", "SLIDE") if window.args.get("slide") else 1
        return Rows(rows, slide, tuple(self._column(column) for column in window.args.get("partition") or []))

    def _count(self, window: StreamWindow, part: str, keyword: str) -> int:
        span = duration(window.args[part], self.text)
        if not span.in_ticks:
            raise self._error(window, f"{keyword} of a ROWS window counts rows, not time", "use RANGE for time")
        if span.amount > MAX_ROWS:
            raise BindError(
                f"{keyword} {span.amount} is too many",
                hint="a window counts at most 2^60 rows; use [ROWS UNBOUNDED] for all",
                place=span.place,
            )
        return self._positive(span.amount, window, keyword)

    def _column(self, column: exp.Expr) -> int:
        positions = {field.name.lower(): index for index, field in enumerate(self.schema)}
        if not isinstance(column, exp.Column) or column.name.lower() not in positions:
            raise NameError(
                f'PARTITION BY unknown column "{column.sql(dialect="spark")}"',
                hint=did_you_mean(column.name, [field.name for field in self.schema]),
                place=place_of(column, self.text),
            )
        return positions[column.name.lower()]

    def _begin_end(self, window: StreamWindow) -> BeginEnd:
        begin, begin_age = self._bound(window.args["begin"])
        end, end_age = self._bound(window.args["end"])
        empty = (
            begin_age < end_age
            if begin is None and end is None
            else begin is not None and end is not None and begin > end
        )
        if empty:
            raise self._error(window, "the window begins after it ends", "write the older bound first")
        return BeginEnd(begin, begin_age, end, end_age)

    def _bound(self, bound: Instant) -> tuple[int | None, int]:
        if bound.args["now"]:
            offset = bound.args.get("offset")
            return None, 0 if offset is None else ticks(duration(offset, self.text), self.domain)
        place = place_of(bound, self.text)
        return instant(constant(bound.args["at"], self.text).value, self.domain, place), 0

    def _no_slide(self, window: StreamWindow, kind: str) -> None:
        if window.args.get("slide") is not None:
            raise self._error(window, f"{kind} with SLIDE", "leave SLIDE out, or use [RANGE size SLIDE step]")

    def _positive(self, number: int, window: StreamWindow, keyword: str) -> int:
        if number <= 0:
            raise self._error(window, f"{keyword} must be greater than 0, not {number}", None)
        return number

    def _error(self, window: StreamWindow, primary: str, hint: str | None) -> Error:
        return BindError(primary, hint=hint, place=place_of(window, self.text))
