"""Binds OVER: functions, the windows that WINDOW names, and frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from millstream import types
from millstream.errors import BindError, NameError, NotSupportedError, Place, TypeError, did_you_mean
from millstream.kernel.aggregation.aggregate_calls import canonical
from millstream.kernel.ordering.frames import WHOLE_UP_TO_PEERS, Frame, Unit
from millstream.kernel.ordering.window_functions import WindowFunction
from millstream.kernel.scalar.coercion import cast as cast_to
from millstream.kernel.scalar.coercion import common_type
from millstream.kernel.scalar.expressions import Expression, Literal
from millstream.language.blocks import AggregateReference, OrderItem, WindowReference
from millstream.language.syntax import place_of
from millstream.types import DataType

if TYPE_CHECKING:
    from millstream.language.expressions import ExpressionBinder

_RANKS: Mapping[str, DataType] = {
    "row_number": types.INT,
    "rank": types.INT,
    "dense_rank": types.INT,
    "percent_rank": types.DOUBLE,
    "cume_dist": types.DOUBLE,
}
_OF_FRAME = {"first": "first_value", "last": "last_value", "nth_value": "nth_value"}
_WHOLE = Frame("range", None, None)
WINDOW_FUNCTIONS = frozenset({*_RANKS, "ntile", "lag", "lead", "nth_value"})
_MOST = 1 << 40  # rows
_MOST_DIGITS = 18  # of a DECIMAL by which RANGE goes

NamedWindows = Mapping[str, exp.Window]


def named_windows(query: exp.Select, text: str) -> dict[str, exp.Window]:
    """What WINDOW w AS (..) names."""
    found: dict[str, exp.Window] = {}
    for window in query.args.get("windows") or []:
        name = window.this.name.lower()
        if name in found:
            raise NameError(f'WINDOW names "{window.this.name}" twice', place=place_of(window, text))
        found[name] = window
    return found


class OverBinder:
    """Binds one call with its OVER."""

    def __init__(self, binder: ExpressionBinder, windows: NamedWindows, node: exp.Window) -> None:
        self._binder, self._windows, self._node = binder, windows, node
        self._text = binder.binder.text

    def bind(self) -> Expression:
        node = self._node
        if str(node.args.get("over") or "OVER").upper() != "OVER":
            raise NotSupportedError(f"{node.args['over']} is not supported", place=self._place(node))
        partition, items, spec = self._window(node, ())
        order = tuple(self._order_item(item) for item in items)
        frame = self._frame(spec, order)
        function, ignores = self._function(node.this)
        name = function.name.lower() if isinstance(function, exp.Anonymous) else ""
        bound = tuple(self._binder.bind(part) for part in partition)
        if name in WINDOW_FUNCTIONS and canonical(name) not in _OF_FRAME:
            if spec is not None:
                raise BindError(f"{name} takes no frame", hint="leave ROWS or RANGE out", place=self._place(spec))
            if not order:
                raise BindError(
                    f"{name} OVER a window without order",
                    hint="add ORDER BY to its window",
                    place=self._place(node),
                )
        called = self._called(name, function, ignores, frame)

        def in_window(node: Expression) -> Expression:
            return replace(node, partition=bound, order=order) if isinstance(node, WindowReference) else node

        return called.transform(in_window)

    def check(self) -> None:
        """What a window says by itself, whoever uses it."""
        partition, items, spec = self._window(self._node, ())
        for part in partition:
            self._binder.bind(part)
        self._frame(spec, [self._order_item(item) for item in items])

    def _window(self, node: exp.Window, seen: tuple[str, ...]) -> tuple[Sequence[Any], Sequence[Any], Any]:
        """PARTITION BY, ORDER BY and the frame, with those of the window that is named in it."""
        partition, order, spec = node.args.get("partition_by") or [], node.args.get("order"), node.args.get("spec")
        items = order.expressions if order is not None else []
        alias = node.args.get("alias")
        if alias is None:
            return partition, items, spec
        name = alias.name.lower()
        if name not in self._windows or name in seen:
            raise NameError(
                f'no WINDOW is called "{alias.name}"',
                hint=did_you_mean(alias.name, list(self._windows)) or "name it: WINDOW w AS (ORDER BY ..)",
                place=self._place(alias),
            )
        base = self._windows[name]
        base.args.get("this")
        own, base_items, base_spec = self._window(base, (*seen, name))
        if partition or (items and base_items):
            what = "PARTITION BY" if partition else "ORDER BY"
            raise BindError(f'"{alias.name}" has its own {what} already', place=self._place(node))
        return own, items or base_items, spec or base_spec

    def _order_item(self, item: exp.Expr) -> OrderItem:
        bound = self._binder.bind(item.this)
        return OrderItem(bound, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))

    def _function(self, node: exp.Expr) -> tuple[exp.Expr, bool]:
        """The call without IGNORE NULLS, and whether it has them."""
        if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
            return node.this, isinstance(node, exp.IgnoreNulls)
        if isinstance(node, exp.Anonymous) and node.expressions:
            first = node.expressions[0]
            if isinstance(first, exp.IgnoreNulls | exp.RespectNulls):
                inner = exp.Anonymous(this=node.name, expressions=[first.this, *node.expressions[1:]])
                node.args.get("this")
                return inner, isinstance(first, exp.IgnoreNulls)
        return node, False

    def _called(self, name: str, function: exp.Expr, ignores: bool, frame: Frame) -> Expression:
        arguments = list(function.expressions) if isinstance(function, exp.Anonymous) else []
        kind = canonical(name)
        if name in ("first", "last", "first_value", "last_value", "any_value") and len(arguments) == 2:
            flag = self._binder.bind(arguments.pop())
            if not isinstance(flag, Literal) or not isinstance(flag.value, bool):
                raise BindError(f"{name} takes TRUE or FALSE as its second argument", place=self._place(function))
            ignores = ignores or flag.value
        if ignores and kind not in ("lag", "lead", *_OF_FRAME):
            raise BindError(f"IGNORE NULLS of {name or 'this'}", place=self._place(self._node))
        if name in _RANKS:
            self._count(name, arguments, 0)
            return WindowReference(_RANKS[name], cast(WindowFunction, name))
        if name == "ntile":
            self._count(name, arguments, 1)
            return WindowReference(types.INT, "ntile", number=self._number(arguments[0], "NTILE", least=1))
        if name in ("lag", "lead"):
            return self._shifted(name, arguments, ignores)
        if kind in _OF_FRAME and not (arguments and isinstance(arguments[0], exp.Distinct)):
            self._count(name, arguments, 2 if kind == "nth_value" else 1)
            number = self._number(arguments[1], "NTH_VALUE", least=1) if kind == "nth_value" else 1
            value = self._binder.bind(arguments[0])
            called = cast(WindowFunction, _OF_FRAME[kind])
            return WindowReference(value.type, called, (value,), number, ignores, frame=frame)
        return self._aggregate(function, frame)

    def _shifted(self, name: str, arguments: list[exp.Expr], ignores: bool) -> WindowReference:
        if not 1 <= len(arguments) <= 3:
            raise BindError(f"{name} takes a value, an offset and a default", place=self._place(self._node))
        value = self._binder.bind(arguments[0])
        number = self._number(arguments[1], name.upper(), least=None) if len(arguments) > 1 else 1
        given = [value]
        if len(arguments) > 2:
            default = self._binder.bind(arguments[2])
            common = common_type([value.type, default.type])
            if common is None:
                raise TypeError(f"{name} of {value.type} with a default of {default.type}")
            given = [cast_to(value, common), cast_to(default, common)]
        if number < 0:
            name, number = {"lag": "lead", "lead": "lag"}[name], -number
        return WindowReference(given[0].type, cast(WindowFunction, name), tuple(given), number, ignores and number > 0)

    def _aggregate(self, function: exp.Expr, frame: Frame) -> Expression:
        """An aggregate, or what is computed of several."""
        found = self._binder.for_over().bind(function)
        if not any(isinstance(node, AggregateReference) for node in found.walk()):
            raise BindError(
                "OVER goes with an aggregate or a function such as RANK or LAG", place=self._place(self._node)
            )

        def over_frame(node: Expression) -> Expression:
            if not isinstance(node, AggregateReference):
                return node
            call = node.call
            return WindowReference(call.type, "aggregate", call.arguments, frame=frame, aggregate=call)

        return found.transform(over_frame)

    # Frames

    def _frame(self, spec: exp.Expr | None, order: Sequence[OrderItem]) -> Frame:
        if spec is None:
            return WHOLE_UP_TO_PEERS if order else _WHOLE
        kind = str(spec.args.get("kind") or "").upper()
        if kind not in ("ROWS", "RANGE"):
            raise NotSupportedError(f"frames by {kind}", hint="use ROWS or RANGE", place=self._place(spec))
        if spec.args.get("exclude") is not None:
            raise NotSupportedError("EXCLUDE in a frame", place=self._place(spec))
        unit: Unit = "rows" if kind == "ROWS" else "range"
        start = self._bound(spec, "start", unit, order)
        end = self._bound(spec, "end", unit, order) if spec.args.get("end") is not None else 0
        unbounded = {side: str(spec.args.get(f"{side}_side")).upper() for side in ("start", "end")}
        wrong = start is None and unbounded["start"] == "FOLLOWING"
        wrong |= end is None and unbounded["end"] == "PRECEDING"
        if wrong or (start is not None and end is not None and start > end):
            raise BindError("a frame that ends before it starts", place=self._place(spec))
        return Frame(unit, start, end)

    def _bound(self, spec: exp.Expr, side: str, unit: Unit, order: Sequence[OrderItem]) -> int | float | None:
        bound, direction = spec.args.get(side), str(spec.args.get(f"{side}_side") or "").upper()
        if isinstance(bound, str) and bound.upper() == "CURRENT ROW":
            return 0
        if isinstance(bound, str) and bound.upper() == "UNBOUNDED":
            return None
        assert isinstance(bound, exp.Expr), bound
        if unit == "rows":
            distance: int | float = self._number(bound, "ROWS", least=0)
        else:
            distance = self._difference(bound, order)
        return -distance if direction == "PRECEDING" else distance

    def _difference(self, node: exp.Expr, order: Sequence[OrderItem]) -> int | float:
        """Of two keys, as these are stored."""
        place = self._place(node)
        if len(order) != 1:
            raise BindError("RANGE with an offset goes by one key", hint="use ROWS, or one ORDER BY", place=place)
        kind, value = order[0].expression.type, self._binder.bind(node)
        given = value.value if isinstance(value, Literal) else None
        found: int | float | None = None
        if isinstance(given, timedelta):
            ticks = given // timedelta(microseconds=1)
            if kind in (types.TIMESTAMP, types.TIMESTAMP_NTZ):
                found = ticks
            elif kind == types.DATE and given % timedelta(days=1) == timedelta(0):
                found = given.days
        elif isinstance(given, int | float | Decimal) and not isinstance(given, bool):
            if kind.is_fractional:
                found = float(given)
            elif kind.is_decimal and kind.precision <= _MOST_DIGITS:
                scaled = Decimal(str(given)).scaleb(kind.scale)
                found = int(scaled) if scaled == int(scaled) else None
            elif (kind.is_integer or kind == types.DATE) and given == int(given):
                found = int(given)
        if found is None:
            raise BindError(
                f"RANGE goes by a {kind}, and the offset does not fit",
                hint="numbers take a number, dates and timestamps an INTERVAL of days or less; ROWS counts rows",
                place=place,
            )
        if found < 0:
            raise BindError("a negative offset", hint="say PRECEDING or FOLLOWING", place=place)
        return found

    def _number(self, node: exp.Expr, what: str, *, least: int | None) -> int:
        bound = self._binder.bind(node)
        value = bound.value if isinstance(bound, Literal) else None
        if not isinstance(value, int) or isinstance(value, bool):
            raise BindError(f"{what} takes a constant number of rows", place=self._place(node))
        if abs(value) > _MOST:
            raise BindError(f"{what} takes a number up to 2^40, not {value}", place=self._place(node))
        if least is not None and value < least:
            raise BindError(f"{what} takes a number from {least} on", place=self._place(node))
        return value

    def _count(self, name: str, arguments: Sequence[exp.Expr], wanted: int) -> None:
        if len(arguments) != wanted:
            words = {0: "no argument", 1: "one argument", 2: "two arguments"}[wanted]
            raise BindError(f"{name} takes {words}, not {len(arguments)}", place=self._place(self._node))

    def _place(self, node: exp.Expr) -> Place:
        return place_of(node, self._text)
