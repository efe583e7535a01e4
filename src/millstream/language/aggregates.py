"""Binds calls of aggregates, with all that may stand around their arguments: DISTINCT, ORDER BY, FILTER, WITHIN GROUP
and IGNORE NULLS.

Most of what SQL has here is another way to write one of few functions: FILTER is a CASE in the argument, several
columns under DISTINCT are one key, covariances are differences of variances, which are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from millstream import types
from millstream.errors import BindError, NotSupportedError, TypeError
from millstream.kernel.aggregation.aggregate_calls import ALIASES, FUNCTIONS, Option, canonical, resolve_aggregate
from millstream.kernel.scalar.coercion import can_cast, cast
from millstream.kernel.scalar.expressions import TRUE, Call, Expression, Literal
from millstream.kernel.scalar.functions import call
from millstream.kernel.scalar.functions_logic import case
from millstream.kernel.scalar.functions_text import ROW_KEY
from millstream.language.blocks import AggregateReference
from millstream.plan.nodes import AggregateCall
from millstream.types import BIGINT, DOUBLE, STRING, DataType

# What is written with the words of other aggregates.
_OF_PAIRS = ("corr", "covar_pop", "covar_samp")
_PERCENTILES = ("percentile_cont", "percentile_disc")
_LISTS = ("listagg", "collect_list", "collect_set")
_OTHERS = {*_OF_PAIRS, "approx_count_distinct", "percentile", "median", "collect_set"}
AGGREGATES = {*FUNCTIONS, *ALIASES, *_OTHERS} - {"single_value"}  # which serves scalar subqueries only
_AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


@dataclass
class WrittenCall:
    """A call of an aggregate as it is written."""

    name: str
    arguments: list[exp.Expr]
    distinct: bool = False
    order: list[exp.Ordered] = field(default_factory=list)
    within: list[exp.Ordered] = field(default_factory=list)
    ignores_nulls: bool = False
    condition: exp.Expr | None = None


def function_in(node: exp.Expr) -> exp.Expr:
    """The call that FILTER, WITHIN GROUP or IGNORE NULLS stands behind."""
    while isinstance(node, _AROUND):
        node = node.this
    return node


def written(node: exp.Expr, name: str) -> WrittenCall:
    """What a call of an aggregate and the clauses behind it say."""
    around: list[exp.Expr] = []
    while isinstance(node, _AROUND):
        around.append(node)
        node = node.this
    found = WrittenCall(name, list(node.expressions))
    for clause in around:
        if isinstance(clause, exp.Filter):
            found.condition = clause.expression.this
        elif isinstance(clause, exp.WithinGroup):
            found.within = list(clause.expression.expressions)
        else:
            found.ignores_nulls = isinstance(clause, exp.IgnoreNulls)
    if len(found.arguments) == 1 and isinstance(only := found.arguments[0], exp.Order):
        found.arguments, found.order = [only.this], list(only.expressions)
    if len(found.arguments) == 1 and isinstance(found.arguments[0], exp.Distinct):
        found.arguments, found.distinct = list(found.arguments[0].expressions), True
    if found.arguments and isinstance(last := found.arguments[-1], exp.Order):
        found.arguments[-1], found.order = last.this, list(last.expressions)
    if found.arguments and isinstance(first := found.arguments[0], exp.IgnoreNulls | exp.RespectNulls):
        found.arguments[0], found.ignores_nulls = first.this, isinstance(first, exp.IgnoreNulls)
    return found


class AggregateBinder:
    """Binds one call; `bind` binds expressions over the rows that are grouped."""

    def __init__(self, text: WrittenCall, bind: Callable[[exp.Expr], Expression]) -> None:
        self._text, self._name, self._bind = text, text.name, bind

    def bound(self) -> Expression:
        text, function = self._text, canonical(self._name)
        if text.order and function not in _LISTS:
            hint = "order goes with LISTAGG, STRING_AGG, COLLECT_LIST and ARRAY_AGG"
            raise NotSupportedError(f"ORDER BY in {self._name}", hint=hint)
        if text.within and function not in ("mode", *_LISTS, *_PERCENTILES):
            raise BindError(
                f"WITHIN GROUP goes with PERCENTILE_CONT, PERCENTILE_DISC, MODE and LISTAGG, not {self._name}"
            )
        if text.ignores_nulls and function not in ("first", "last"):
            raise BindError(f"IGNORE NULLS goes with FIRST, LAST and ANY_VALUE, not {self._name}")
        if any(isinstance(argument, exp.Star) for argument in text.arguments):
            return self._count_of_rows()
        match function:
            case "first" | "last":
                return self._first_or_last()
            case "count" if len(text.arguments) > 1:
                return self._count_of_several()
            case "approx_count_distinct":
                # What windows forget must be taken out again, which no sketch can do: it is counted, exactly.
                text.distinct = True
                return self._call("count", self._filtered(self._arguments(1, 1)[0]))
            case "max_by" | "min_by":
                return self._best_by(function)
            case "corr" | "covar_pop" | "covar_samp":
                return self._of_pairs(function)
            case "median" | "percentile" | "percentile_cont" | "percentile_disc":
                return self._percentile(function)
            case "mode":
                return self._mode()
            case "listagg":
                return self._joined()
            case "collect_list" | "collect_set":
                text.distinct = text.distinct or function == "collect_set"
                return self._listed()
        return self._call(self._name, self._filtered(self._arguments(1)[0]))

    # Parts of calls

    def _arguments(self, count: int, optional: int = 0) -> list[Expression]:
        given = self._text.arguments
        if not count <= len(given) <= count + optional:
            wanted = {1: "one argument", 2: "two arguments"}.get(count, f"{count} arguments")
            raise BindError(f"{self._name} takes {wanted}, not {len(given)}")
        return [self._bind(argument) for argument in given]

    def _condition(self) -> Expression | None:
        if self._text.condition is None:
            return None
        bound = self._bind(self._text.condition)
        if bound.type not in (types.BOOLEAN, types.NULL):
            raise TypeError(f"FILTER takes a condition, not a {bound.type}")
        return cast(bound, types.BOOLEAN)

    def _filtered(self, value: Expression, *others: Expression) -> Expression:
        """The value on rows that FILTER keeps, where the others are not NULL; NULL elsewhere."""
        conditions = [c for c in [self._condition()] if c is not None]
        conditions += [call("isnotnull", [other]) for other in others]
        if not conditions:
            return value
        kept = conditions[0]
        for condition in conditions[1:]:
            kept = call("and", [kept, condition])
        return case([(kept, value)], None)

    def _call(self, name: str, argument: Expression) -> Expression:
        kind = resolve_aggregate(name, argument.type, self._text.distinct)
        return AggregateReference(kind, AggregateCall(name, argument, self._text.distinct, kind))

    def _with(
        self, name: str, kind: DataType, argument: Expression, others: Sequence[Expression], *options: Option
    ) -> Expression:
        aggregate = AggregateCall(
            name, argument, self._text.distinct, kind, others=tuple(others), options=tuple(options)
        )
        return AggregateReference(kind, aggregate)

    # The functions

    def _count_of_rows(self) -> Expression:
        text = self._text
        if self._name != "count" or len(text.arguments) > 1:
            raise BindError(f"{self._name}(*) means nothing", hint="only COUNT takes *")
        if (condition := self._condition()) is not None and not text.distinct:
            return self._call("count_if", condition)
        kind = resolve_aggregate("count", None, text.distinct)
        return AggregateReference(kind, AggregateCall("count", None, False, kind))

    def _count_of_several(self) -> Expression:
        """Rows on which none is NULL; with DISTINCT, different ones."""
        values = [self._bind(argument) for argument in self._text.arguments]
        key = Call(STRING, ROW_KEY, tuple(values)) if self._text.distinct else Literal(BIGINT, 1)
        return self._call("count", self._filtered(key, *values))

    def _first_or_last(self) -> Expression:
        """A row counts if FILTER keeps it and, with IGNORE NULLS, its value is not NULL."""
        value, *more = self._arguments(1, 1)
        ignored = self._text.ignores_nulls
        if more:
            if not isinstance(more[0], Literal) or not isinstance(more[0].value, bool):
                raise TypeError(f"the second argument of {self._name} is TRUE or FALSE: whether NULL is ignored")
            ignored = more[0].value
        if not ignored and self._text.condition is None:
            return self._call(self._name, value)
        counts = self._filtered(TRUE, *([value] if ignored else []))
        return self._with(self._name, value.type, self._filtered(value), [counts])

    def _best_by(self, function: str) -> Expression:
        value, by = self._arguments(2)
        by = self._filtered(by)
        return self._with(function, value.type, case([(call("isnotnull", [by]), value)], None), [by])

    def _of_pairs(self, function: str) -> Expression:
        """2 cov(x, y) = var(x + y) - var(x) - var(y), over rows on which neither is NULL; variances are exact."""
        if self._text.distinct:
            raise NotSupportedError(f"{self._name}(DISTINCT ..)", hint="select the distinct rows in a subquery")
        given = [self._number(value) for value in self._arguments(2)]
        one, other = self._filtered(given[0], given[1]), self._filtered(given[1], given[0])
        kind = "variance" if function == "covar_samp" else "var_pop"
        both, first, second = (self._call(kind, e) for e in (call("+", [one, other]), one, other))
        covariance = call("/", [call("-", [call("-", [both, first]), second]), Literal(DOUBLE, 2.0)])
        if function != "corr":
            return covariance
        spread = call("*", [self._call("stddev_pop", one), self._call("stddev_pop", other)])
        return case([(call("<>", [spread, Literal(DOUBLE, 0.0)]), call("/", [covariance, spread]))], None)

    def _number(self, value: Expression) -> Expression:
        if not (value.type.is_numeric or value.type in (STRING, types.NULL)):
            raise TypeError(f"{self._name} takes numbers, not {value.type}")
        return cast(value, DOUBLE)

    def _percentile(self, function: str) -> Expression:
        descending = False
        if function in _PERCENTILES:
            (fraction,) = self._arguments(1)
            value, descending = self._ordered_value()
        elif function == "median":
            (value,), fraction = self._arguments(1), Literal(DOUBLE, 0.5)
        else:
            value, fraction = self._arguments(2)
        if isinstance(fraction, Call) and fraction.function == "array" and function == "percentile":
            return self._percentiles(value, fraction.arguments)
        return self._percentile_of(function, value, fraction, descending)

    def _percentiles(self, value: Expression, fractions: Sequence[Expression]) -> Expression:
        """percentile(x, array(0.25, 0.5)): a list, or NULL where there are no values."""
        found = [self._percentile_of("percentile", value, fraction, False) for fraction in fractions]
        listed = call("array", found) if found else Call(types.array(DOUBLE), "array", ())
        return case([(call("isnotnull", [found[0]]), listed)], None) if found else listed

    def _percentile_of(self, function: str, value: Expression, fraction: Expression, descending: bool) -> Expression:
        share = cast(fraction, DOUBLE) if fraction.type.is_numeric else fraction
        if not isinstance(share, Literal) or not isinstance(share.value, float) or not 0 <= share.value <= 1:
            raise TypeError(f"the percentage of {self._name} is a constant from 0 to 1, not {fraction}")
        kind = function if function == "percentile_disc" else "percentile_cont"
        return self._with(kind, DOUBLE, self._filtered(self._number(value)), [], share.value, descending)

    def _ordered_value(self) -> tuple[Expression, bool]:
        if len(self._text.within) != 1:
            hint = f"as in {self._name}(..) WITHIN GROUP (ORDER BY x)"
            raise BindError(f"{self._name} takes one column in WITHIN GROUP (ORDER BY ..)", hint=hint)
        ordered = self._text.within[0]
        ordered.args.get("nulls_first")  # which are not among the values
        return self._bind(ordered.this), bool(ordered.args.get("desc"))

    def _mode(self) -> Expression:
        """The most frequent value; of several the least, or the greatest by WITHIN GROUP (ORDER BY x DESC)."""
        if self._text.within:
            self._arguments(0)
            value, descending = self._ordered_value()
        else:
            value, *more = self._arguments(1, 1)
            descending = False
            if more and more[0] != TRUE:
                raise TypeError("the second argument of mode is TRUE: of several values the least is taken")
        return self._with("mode", value.type, self._filtered(value), [], descending)

    def _joined(self) -> Expression:
        value, *more = self._arguments(1, 1)
        separator: Expression = more[0] if more else Literal(STRING, "")
        if not isinstance(separator, Literal) or not (isinstance(separator.value, str) or separator.value is None):
            raise TypeError(f"the separator of {self._name} must be a constant text, not {separator}")
        if not can_cast(value.type, STRING) or value.type == types.BINARY:
            raise TypeError(f"{self._name} takes a text, not {value.type}")
        order = self._order(value)
        if not order and value.type != STRING:
            order = [(value, False, True)]  # by values, not by their texts
        return self._in_order(STRING, cast(value, STRING), order, separator.value or "")

    def _listed(self) -> Expression:
        """The values that are not NULL; over nothing there is a list without any."""
        (value,) = self._arguments(1)
        kind = types.array(value.type)
        listed = self._in_order(kind, value, self._order(value), "", name="collect_list")
        return call("coalesce", [listed, Call(kind, "array", ())])

    def _order(self, value: Expression) -> list[tuple[Expression, bool, bool]]:
        """The columns of ORDER BY in the call, each with whether it descends and whether NULL comes first."""
        order = [
            (self._bind(item.this), bool(item.args.get("desc")), bool(item.args.get("nulls_first")))
            for item in (self._text.within or self._text.order)
        ]
        if self._text.distinct and any(by != value for by, _, _ in order):
            raise BindError(f"{self._name}(DISTINCT x) is ordered by x, or not at all")
        return order

    def _in_order(
        self,
        kind: DataType,
        value: Expression,
        order: list[tuple[Expression, bool, bool]],
        separator: str,
        name: str | None = None,
    ) -> Expression:
        options: list[Option] = [separator, *(flag for _, *flags in order for flag in flags)]
        return self._with(name or self._name, kind, self._filtered(value), [by for by, _, _ in order], *options)
