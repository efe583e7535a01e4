"""Functions between times and texts of a pattern."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from millstream import errors
from millstream.kernel.scalar.coercion import can_cast, cast
from millstream.kernel.scalar.expressions import Call, Expression, Literal
from millstream.kernel.scalar.functions_time_zones import at_clock, constant_of, constant_text, on_clock, with_constant
from millstream.kernel.scalar.outcome import Outcome, by_column, fails_where_null
from millstream.kernel.scalar.signature import INSTANT, TEXT, Evaluation, Function, Rewrite, Slot, row
from millstream.kernel.scalar.time_patterns import has_zone, read_times, reader, written
from millstream.kernel.scalar.zones import session_zone
from millstream.types import BIGINT, DATE, NULL, STRING, TIMESTAMP, TIMESTAMP_NTZ, DataType

_STAMP = pl.Datetime("us", "UTC")
_DEFAULT = Literal(STRING, "yyyy-MM-dd HH:mm:ss")


def _format(node: Call, stamp: pl.Expr, pattern: pl.Expr) -> pl.Expr:
    return written(stamp, constant_of(node, 1))


def _date_format(arguments: Sequence[Expression]) -> Expression | None:
    """The clock of the session is what is written."""
    if len(arguments) != 2 or INSTANT.accept(arguments[0].type) is None:
        return None
    pattern, zone = constant_text(arguments[1], "pattern"), session_zone()
    if has_zone(pattern) and zone is not None:
        raise errors.TypeError(f"zones in the pattern {pattern!r} are written in UTC only, not in {zone}")
    stamp = cast(arguments[0], TIMESTAMP)
    return Call(STRING, "write_time", (stamp if zone is None else on_clock(stamp, zone), Literal(STRING, pattern)))


def _from_unixtime(arguments: Sequence[Expression]) -> Expression | None:
    if not 1 <= len(arguments) <= 2 or not can_cast(arguments[0].type, BIGINT) or arguments[0].type.is_temporal:
        return None
    seconds = Call(TIMESTAMP, "timestamp_seconds", (cast(arguments[0], BIGINT),))
    return _date_format([seconds, arguments[1] if len(arguments) > 1 else _DEFAULT])


def _read(lenient: bool) -> Evaluation:
    def evaluate(node: Call, text: pl.Expr, pattern: pl.Expr) -> Outcome:
        shown = constant_of(node, 1)
        ticks = by_column(lambda texts: read_times(texts, shown), [text], pl.Int64())
        failure = fails_where_null([text], f"a text is not a timestamp of the pattern {shown}")
        return Outcome(ticks.cast(_STAMP), () if lenient else (failure,))

    return evaluate


def read_time(text: Expression, pattern: Expression, *, lenient: bool = False) -> Expression:
    """TIMESTAMPs that texts of a pattern mean in the session."""
    shown, zone = constant_text(pattern, "pattern"), session_zone()
    reader(shown)
    clock = Call(TIMESTAMP, "try_read_time" if lenient else "read_time", (text, Literal(STRING, shown)))
    return clock if zone is None or has_zone(shown) else at_clock(clock, zone)


def _to_timestamp(target: DataType, *, lenient: bool = False) -> Rewrite:
    """to_timestamp(x) casts, to_timestamp(text, pattern) reads."""

    def build(arguments: Sequence[Expression]) -> Expression | None:
        if len(arguments) == 2 and arguments[0].type in (STRING, NULL):
            return cast(read_time(cast(arguments[0], STRING), arguments[1], lenient=lenient), target)
        if len(arguments) not in (1, 2):
            return None
        source = arguments[0]
        if len(arguments) == 2:
            constant_text(arguments[1], "pattern")  # which says nothing about what is a time already
            if not source.type.is_temporal:
                return None
        if can_cast(source.type, target):
            return cast(source, target, lenient=lenient)
        return cast(cast(source, STRING), target, lenient=lenient) if can_cast(source.type, STRING) else None

    name = {TIMESTAMP: "to_timestamp", DATE: "to_date"}[target]
    return Rewrite(f"try_{name}" if lenient else name, "(string, number, date or timestamp, [constant string])", build)


def _unix_timestamp(name: str) -> Rewrite:
    def build(arguments: Sequence[Expression]) -> Expression | None:
        if len(arguments) == 2 and arguments[0].type == STRING:
            return Call(BIGINT, "unix_seconds", (read_time(arguments[0], arguments[1]),))
        if not 1 <= len(arguments) <= 2 or _MOMENT.accept(arguments[0].type) is None:
            return None
        moment = cast(arguments[0], TIMESTAMP) if arguments[0].type == NULL else arguments[0]
        if moment.type == STRING and (zone := session_zone()) is not None:
            return Call(BIGINT, "unix_seconds", (at_clock(Call(TIMESTAMP, "read_time", (moment, _DEFAULT)), zone),))
        return Call(BIGINT, "seconds_since_1970", (moment if moment.type == STRING else cast(moment, TIMESTAMP),))

    return Rewrite(name, "(timestamp, date or string, [constant string])", build)


_MOMENT = Slot(
    "timestamp, date or string",
    lambda kind: kind if kind in (DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING) else TIMESTAMP if kind == NULL else None,
)
_PATTERN = "pattern"

FUNCTIONS = (
    Function("write_time", with_constant(row(INSTANT, TEXT, result=STRING), 1, _PATTERN), _format),
    Function("read_time", with_constant(row(TEXT, TEXT, result=TIMESTAMP), 1, _PATTERN), _read(lenient=False)),
    Function("try_read_time", with_constant(row(TEXT, TEXT, result=TIMESTAMP), 1, _PATTERN), _read(lenient=True)),
)
REWRITES = (
    Rewrite("date_format", "(date or timestamp, constant string)", _date_format, aliases=("to_char", "to_varchar")),
    Rewrite("from_unixtime", "(integer, [constant string])", _from_unixtime),
    _to_timestamp(TIMESTAMP),
    _to_timestamp(DATE),
    _to_timestamp(TIMESTAMP, lenient=True),
    _to_timestamp(DATE, lenient=True),
    _unix_timestamp("unix_timestamp"),
    _unix_timestamp("to_unix_timestamp"),
)
INTERNAL = {"write_time", "read_time", "try_read_time"}
