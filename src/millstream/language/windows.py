"""Binds windows and SAMPLE: sizes in ticks, partition columns as positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from math import ceil, floor
from types import MappingProxyType

from sqlglot import exp

from millstream.bounds import MAX_ROWS
from millstream.errors import BindError, Error, NameError, TypeError, did_you_mean
from millstream.kernel.windows.time import (
    BeginEnd,
    Hop,
    Now,
    Range,
    RangeOn,
    Rows,
    Sessions,
    Tumble,
    Unbounded,
    UserWindow,
    WindowSpecification,
)
from millstream.language.definer import ticks
from millstream.language.durations import duration
from millstream.language.instants import constant, instant
from millstream.language.remarks import remark
from millstream.language.syntax import Instant, StreamOperator, StreamSample, StreamWindow, place_of
from millstream.plan import nodes as lo
from millstream.plan.definitions import TimeDomain
from millstream.settings import Settings
from millstream.types import DATE, Schema

_LIKELY_SECONDS = 1_000_000  # a number without a unit below it is hardly meant as one of microseconds
MAX_CUTS = 10_000  # pieces that an element is cut into where bounds are read
_EXAMPLES = {"TUMBLE": "[TUMBLE 1 MINUTE]", "HOP": "[HOP 10 MINUTES SLIDE 1 MINUTE]", "SESSION": "[SESSION 5 MINUTES]"}


def bind_window(
    window: StreamWindow,
    schema: Schema,
    domain: TimeDomain | None,
    settings: Settings,
    text: str,
    windows: Mapping[str, UserWindow] = MappingProxyType({}),
) -> WindowSpecification:
    """Of the kinds that there are, or by one of the functions of users."""
    if window.args["kind"] != "USER":
        return _WindowBinder(schema, domain or TimeDomain(None), settings, text).bind(window)
    name = window.args["name"].this
    if name.lower() not in windows:
        raise NameError(
            f'there is no window called "{name}"',
            hint="windows are [NOW], [RANGE ..], [ROWS ..], [TUMBLE ..], [HOP .. SLIDE ..], [SESSION ..], "
            "[BEGIN .. END ..], and those of db.create_window",
            place=place_of(window, text),
        )
    return windows[name.lower()]


def with_bounds(plan: lo.Window, domain: TimeDomain | None) -> lo.Bounds | lo.Window | str:
    """The window with its bounds as columns, or why it has none."""
    window, domain = plan.window, domain or TimeDomain(None)
    match window:
        case Range() | Hop():
            size, slide = window.size, window.slide
        case Tumble():
            size = slide = window.size
        case Sessions():
            return replace(plan, window=replace(window, bounds=(domain.type, _unit(domain))))
        case _:
            return f"{window} does not slide by time"
    if slide == 1:
        return "the window slides by one tick, so that its bounds change at every instant"
    if size > MAX_CUTS * slide:
        return f"the window has more than {MAX_CUTS:,} slides"
    return lo.Bounds(plan, size, slide, domain.type, _unit(domain))


def _unit(domain: TimeDomain) -> int:
    """What a tick counts in the type of the timestamp."""
    return (domain.tick or 1) if domain.type.is_temporal else 1


def asks_for_bounds(query: exp.Query) -> bool:
    """Whether some text may mean bounds: by their names, or by a form that has them among its columns."""
    if any(name.this.lower() in lo.BOUND_NAMES for name in query.find_all(exp.Identifier)):
        return True
    return any(window.args.get("descriptor") is not None for window in query.find_all(StreamWindow))


def hides_windows(plan: lo.Node) -> bool:
    """Whether groups of windows that slide are told apart by nothing, so that equal ones follow one another unseen."""
    while isinstance(plan, lo.Project | lo.Filter | lo.Distinct):
        plan = plan.input
    if not isinstance(plan, lo.Aggregate) or any(isinstance(node, lo.Bounds) for node in plan.walk()):
        return False
    windows = [node.window for node in plan.walk() if isinstance(node, lo.Window)]
    return bool(windows) and all(isinstance(window, Tumble | Hop) for window in windows)


def bind_every(operator: StreamOperator, domain: TimeDomain | None, text: str) -> int:
    """The ticks of RSTREAM(..) EVERY size."""
    size = operator.args["every"]
    place = place_of(size, text)
    if operator.this != "RSTREAM":
        raise BindError(
            f"EVERY with {operator.this}",
            hint="RSTREAM is said at all instants, or EVERY so often; ISTREAM and DSTREAM where something changes",
            place=place,
        )
    if size.find(exp.Placeholder):
        raise BindError("EVERY takes a constant", hint="write a template for each, or leave ? out of it", place=place)
    every = ticks(duration(size, text), domain or TimeDomain(None))
    if every <= 0:
        raise BindError("EVERY takes a span of time", hint="as in RSTREAM(..) EVERY 10 SECONDS", place=place)
    return every


def implied_every(plan: lo.Node) -> int | None:
    """The slide that all windows of a relation have."""
    slides = {_slide(window.window) for window in _outermost_windows(plan)}
    return slides.pop() if len(slides) == 1 else None


def _outermost_windows(plan: lo.Node) -> Iterator[lo.Window]:
    if isinstance(plan, lo.Window):
        yield plan
        return
    for child in plan.children:
        yield from _outermost_windows(child)


def _slide(window: WindowSpecification) -> int | None:
    match window:
        case Range(slide=slide) | Hop(slide=slide) if slide > 1:
            return slide
        case Tumble():
            return window.size
        case _:
            return None


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
        if window.find(exp.Placeholder):
            raise self._error(window, "a window whose size is a parameter", "only templates have those: register_many")
        if window.args.get("partition") and kind not in ("ROWS", "SESSION", "RANGE ON"):
            raise self._error(
                window, f"PARTITION BY with {kind}", "partitioned windows count rows: PARTITION BY a ROWS 5"
            )
        if kind == "BEGIN":
            return self._begin_end(window)
        if kind == "RANGE ON":
            return self._range_on(window)
        size, slide = window.args.get("size"), window.args.get("slide")
        if kind == "NOW":
            self._no_slide(window, "NOW")
            return Now()
        if isinstance(size, exp.Var) and size.name == "UNBOUNDED":
            if kind in _EXAMPLES:
                raise self._error(window, f"{kind} UNBOUNDED means nothing", f"give a size, as in {_EXAMPLES[kind]}")
            self._no_slide(window, "UNBOUNDED")
            return Unbounded()
        if kind == "ROWS":
            return self._rows(window)
        span = duration(window.args["size"], self.text)
        length = ticks(span, self.domain)
        if span.in_ticks and self.domain.is_microseconds and 0 < length < _LIKELY_SECONDS:
            remark(
                f"line {span.place.line}, column {span.place.column}: {length} means microseconds, the ticks of "
                f"this stream: write [{kind} {length} SECONDS] for seconds"
            )
        if kind == "TUMBLE":
            self._no_slide(window, "TUMBLE")
            return Tumble(self._positive(length, window, "TUMBLE"))
        if kind == "HOP":
            return self._hop(window, length)
        if kind == "SESSION":
            return self._session(window, self._positive(length, window, "SESSION"))
        step = 1 if slide is None else ticks(duration(slide, self.text), self.domain)
        if length == 0 and slide is None and not self.half_open:
            return Now()
        return Range(length, self._positive(step, window, "SLIDE"), self.half_open)

    def _hop(self, window: StreamWindow, length: int) -> Hop:
        slide = window.args.get("slide")
        if slide is None:
            raise self._error(window, "HOP without SLIDE", f"say how far windows lie apart: {_EXAMPLES['HOP']}")
        step = ticks(duration(slide, self.text), self.domain)
        hop = Hop(self._positive(length, window, "HOP"), self._positive(step, window, "SLIDE"))
        if window.args.get("descriptor") is not None and hop.size % hop.slide:
            raise self._error(
                window,
                "the size is not a multiple of the slide",
                "then windows of Spark begin at multiples of the slide, and [HOP .. SLIDE ..] ends there: write that",
            )
        return hop

    def _session(self, window: StreamWindow, gap: int) -> Sessions:
        """Kept open by what [RANGE gap] has; those of Flink are half open."""
        self._no_slide(window, "SESSION")
        half_open = self.half_open or window.args.get("descriptor") is not None
        columns = tuple(self._column(column) for column in window.args.get("partition") or [])
        return Sessions(gap, gap if half_open else gap + 1, bool(window.args.get("complete")), columns)

    def _range_on(self, window: StreamWindow) -> RangeOn:
        """The distance is one of the column's type: a number, or an interval of times."""
        column, size = self._column(window.args["column"], "RANGE .. ON"), window.args["size"]
        kind, place = self.schema[column].type, place_of(window, self.text)
        if isinstance(size, exp.Var):
            raise self._error(window, "RANGE UNBOUNDED ON a column", "leave ON out")
        if not (kind.is_temporal or kind.is_numeric) or (kind.is_decimal and kind.precision > 18):
            hint = "a window goes by a number of up to 18 digits, a DATE or a TIMESTAMP"
            raise TypeError(f"RANGE .. ON a {kind}", hint=hint, place=place)
        by = tuple(self._column(each) for each in window.args.get("partition") or [])
        if isinstance(size, exp.Interval) != kind.is_temporal:
            hint = "as in [RANGE 10 MINUTES ON ts]" if kind.is_temporal else "as in [RANGE 10 ON n]"
            raise self._error(window, f"this distance does not fit a {kind}", hint)
        unit = 86_400_000_000 if kind == DATE else 10**kind.scale
        amount = Decimal(duration(size, self.text).amount) / unit if kind.is_temporal else Decimal(size.name) * unit
        if amount < 0 or amount > 2**62:
            raise self._error(window, "a distance is not negative, and below 2^62", None)
        if kind.is_fractional:
            return RangeOn(column, float(amount), self.half_open, by)
        whole = ceil(amount) if self.half_open else floor(amount)  # between whole numbers, it is the same
        return RangeOn(column, whole, self.half_open, by)

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

    def _column(self, column: exp.Expr, clause: str = "PARTITION BY") -> int:
        positions = {field.name.lower(): index for index, field in enumerate(self.schema)}
        if not isinstance(column, exp.Column) or column.name.lower() not in positions:
            raise NameError(
                f'{clause} unknown column "{column.sql(dialect="spark")}"',
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
            raise self._error(window, f"{kind} with SLIDE", "leave SLIDE out, or use [HOP size SLIDE step]")

    def _positive(self, number: int, window: StreamWindow, keyword: str) -> int:
        if number <= 0:
            raise self._error(window, f"{keyword} must be greater than 0, not {number}", None)
        return number

    def _error(self, window: StreamWindow, primary: str, hint: str | None) -> Error:
        return BindError(primary, hint=hint, place=place_of(window, self.text))
