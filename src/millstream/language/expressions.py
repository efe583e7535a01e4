"""Binds scalar expressions: sqlglot's syntax trees to typed expressions over a scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import NoReturn, Protocol

from sqlglot import exp

from millstream import types
from millstream.errors import BindError, Error, NameError, NotSupportedError, Place, TypeError
from millstream.kernel.aggregation.aggregate_calls import UserAggregate
from millstream.kernel.scalar.coercion import can_cast, cast, common_type
from millstream.kernel.scalar.expressions import FALSE, TRUE, Call, Expression, Literal, Parameter, chained
from millstream.kernel.scalar.functions import call
from millstream.kernel.scalar.functions_chain import CHAINED, of_terms
from millstream.kernel.scalar.functions_lists import AT
from millstream.kernel.scalar.functions_logic import case, in_list
from millstream.kernel.scalar.functions_time_zones import at_time_zone
from millstream.kernel.scalar.functions_user import UserFunction
from millstream.kernel.scalar.literals import number_literal
from millstream.kernel.windows.time import UserWindow
from millstream.language.aggregates import AGGREGATES, AggregateBinder, WrittenCall, function_in, written
from millstream.language.blocks import AggregateReference, Block, SubqueryExpression
from millstream.language.durations import duration, months, span
from millstream.language.failed_expressions import note_places
from millstream.language.generators import GENERATORS
from millstream.language.group_by import grouping_reference
from millstream.language.literal_lists import constants
from millstream.language.over import WINDOW_FUNCTIONS, NamedWindows, OverBinder
from millstream.language.refusals import WITHOUT_VALUE, refused_expression
from millstream.language.remarks import remark_quotes
from millstream.language.row_values import (
    COMPARISONS,
    Side,
    compared,
    complement_of,
    listed_quantifier,
    of_each,
    quantified_subquery,
    row_of,
)
from millstream.language.scope import Scope
from millstream.language.syntax import PARAMETER, STREAM_OPERATORS, LiteralList, StreamOperator, chain_of, place_of
from millstream.language.type_names import data_type
from millstream.language.unknown_functions import check_function
from millstream.plan.nodes import AggregateCall
from millstream.types import DataType

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.And: "and",
    exp.Or: "or",
    exp.DPipe: "||",
    exp.RegexpLike: "rlike",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "shiftleft",
    exp.BitwiseRightShift: "shiftright",
}
MANY_TERMS = 50  # of a chain, from which on it is no longer nested
_SUMS, _PRODUCTS = (exp.Add, exp.Sub), (exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_CHAINS: dict[type[exp.Expr], tuple[type[exp.Expr], ...]] = {
    **dict.fromkeys(_SUMS, _SUMS),
    **dict.fromkeys(_PRODUCTS, _PRODUCTS),
    exp.DPipe: (exp.DPipe,),
}
_UNARY: dict[type[exp.Expr], str] = {exp.Not: "not", exp.Neg: "negative", exp.BitwiseNot: "~"}
_CLAUSES = {
    exp.Filter: "FILTER",
    exp.WithinGroup: "WITHIN GROUP",
    exp.IgnoreNulls: "IGNORE NULLS",
    exp.RespectNulls: "RESPECT NULLS",
}


@dataclass(frozen=True)
class UserCode:
    """Functions, aggregates and windows that users made, by name in lower case."""

    functions: Mapping[str, UserFunction] = field(default_factory=dict)
    aggregates: Mapping[str, tuple[type[UserAggregate], DataType]] = field(default_factory=dict)
    windows: Mapping[str, UserWindow] = field(default_factory=dict)

    def with_function(self, function: UserFunction) -> UserCode:
        return replace(self, functions={**self.functions, function.name: function})

    def with_window(self, window: UserWindow) -> UserCode:
        return replace(self, windows={**self.windows, window.name: window})

    def with_aggregate(self, name: str, definition: type[UserAggregate], returns: DataType) -> UserCode:
        return replace(self, aggregates={**self.aggregates, name: (definition, returns)})


class ExpressionContext(Protocol):
    """What an expression may turn to: the text it stands in, users' functions, and subqueries."""

    text: str
    code: UserCode
    parameters: Sequence[DataType]
    places: dict[str, Place] | None

    def bind_subquery(self, query: exp.Expr, scope: Scope) -> tuple[Block, list[Expression]]: ...


class ExpressionBinder:
    """Binds the expressions of one clause of one query.

    Aggregates are taken only where `aggregates` says so; `clause` names the clause in errors.
    """

    def __init__(
        self,
        binder: ExpressionContext,
        scope: Scope,
        clause: str,
        *,
        aggregates: bool = False,
        aliases: Mapping[str, Expression] | None = None,
        fallbacks: Mapping[str, Expression] | None = None,
        windows: NamedWindows | None = None,
    ) -> None:
        self.binder = binder
        self.scope = scope
        self.clause = clause
        self.aggregates = aggregates
        self.aliases = aliases or {}  # what names of the select list stand for, where they go before those of FROM
        self.fallbacks = fallbacks or {}  # the same, where only those of FROM go before
        self.windows = windows  # those that have names, where OVER may stand
        self._inside_aggregate = False
        self._arguments: ExpressionBinder | None = None  # binds those of aggregates that go with OVER

    def for_over(self) -> ExpressionBinder:
        """Binds an aggregate that goes with OVER: its arguments may be aggregates of groups."""
        binder = ExpressionBinder(self.binder, self.scope, self.clause, aggregates=True)
        binder._arguments = self
        return binder

    def bind(self, node: exp.Expr) -> Expression:
        try:
            bound = self._bind(node)
        except Error as error:
            # Type rules know nothing of the text; the innermost node that fails is the place to show.
            if error.place is None:
                error.place = place_of(node, self.binder.text)
            raise
        if self.binder.places is not None:
            note_places(bound, place_of(node, self.binder.text), self.binder.places)
        return bound

    def condition(self, node: exp.Expr) -> Expression:
        bound = self.bind(node)
        if bound.type == types.NULL:
            return cast(bound, types.BOOLEAN)
        if bound.type != types.BOOLEAN:
            raise TypeError(
                f"{self.clause} takes a condition, not a {bound.type}", place=place_of(node, self.binder.text)
            )
        return bound

    def _bind(self, node: exp.Expr) -> Expression:
        kind = type(node)
        if kind in (exp.And, exp.Or):
            return self._logic(node)
        if kind in _CHAINS and type(node.this) in _CHAINS[kind]:
            return self._chain(node)
        if kind is exp.DPipe:
            self._check_rank(node, [node.this, node.expression])
        if kind in _BINARY:
            return self._binary(_BINARY[kind], node)
        if kind in _UNARY:
            return self._unary(node)
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise refused_expression(node, _describe(node))
        return handler(self, node)

    def _binary(self, operator: str, node: exp.Expr) -> Expression:
        left, right = node.args["this"], node.args["expression"]
        if operator in COMPARISONS:
            value = self._side(left)
            if (listed := listed_quantifier(right)) is not None:
                return of_each(listed[0], [compared(operator, value, self._side(other)) for other in listed[1]])
            if (query := quantified_subquery(right)) is not None:
                return self._quantified(operator, value, *query)
            return compared(operator, value, self._side(right))
        return call(operator, [self.bind(left), self.bind(right)])

    def _side(self, node: exp.Expr) -> Side:
        """One side of a comparison: a value, or a row of them."""
        row = row_of(node)
        return self.bind(node) if row is None else [self.bind(value) for value in row]

    def _quantified(self, operator: str, value: Side, quantifier: str, query: exp.Expr) -> Expression:
        """x < ANY (Q), or x < ALL (Q), which is not x >= ANY (Q)."""
        complement = complement_of(operator, value)
        if quantifier == "any":
            return self._subquery("in", query, value, operator)
        return call("not", [self._subquery("in", query, value, complement)])

    def _logic(self, node: exp.Expr) -> Expression:
        """AND or OR; a chain of them, however long, at once."""
        function = _BINARY[type(node)]
        operands = [self.bind(operand) for operand in chain_of(node, type(node))[1]]
        if len(operands) > 2 and all(operand.type == types.BOOLEAN for operand in operands):
            return chained(function, operands)
        result = operands[0]
        for operand in operands[1:]:
            result = call(function, [result, operand])
        return result

    def _chain(self, node: exp.Expr) -> Expression:
        """Operators of one rank, from left to right; the many terms of a long chain that are of one type at once."""
        kinds, nodes = chain_of(node, *_CHAINS[type(node)])
        operands = [self.bind(operand) for operand in nodes]
        self._check_rank(node, nodes)
        few = len(operands) <= MANY_TERMS
        if type(node) is exp.DPipe and not few:
            return _concatenated(operands)
        result, terms, signs = operands[0], [operands[0]], list[str]()
        for kind, operand in zip(kinds, operands[1:], strict=True):
            operator = _BINARY[kind]
            step = call(operator, [terms[0], operand])
            plain = isinstance(step, Call) and step.function == operator and step.type == result.type
            plain = plain and operator in CHAINED and (step.type.is_integer or step.type.is_fractional)
            if few or not plain or step.children[0] != terms[0]:
                result = call(operator, [of_terms(terms, signs), operand])
                terms, signs = [result], []
            else:
                terms.append(step.children[1])
                signs.append(operator)
        return of_terms(terms, signs)

    def _check_rank(self, node: exp.Expr, operands: Sequence[exp.Expr]) -> None:
        """To Spark || and + are of one rank, to the parser they are not."""
        if isinstance(node, exp.DPipe) and any(type(operand) in _SUMS for operand in operands[1:]):
            raise NotSupportedError("+ and - behind || without parentheses", hint="write a || (b + c)")

    def _unary(self, node: exp.Expr) -> Expression:
        inner = node.this
        if isinstance(node, exp.Neg) and isinstance(inner, exp.Literal) and not inner.is_string:
            return number_literal("-" + inner.name)
        if isinstance(node, exp.Neg) and isinstance(inner, exp.Cast) and self._is_signed_number(node, inner):
            raise NotSupportedError("a sign before a number with ::", hint="write parentheses: (-1)::STRING")
        return call(_UNARY[type(node)], [self.bind(inner)])

    def _is_signed_number(self, node: exp.Expr, inner: exp.Cast) -> bool:
        """-1::STRING: to Spark the sign is the number's, to the parser it is that of the text."""
        place, text = place_of(node, self.binder.text), self.binder.text
        written = isinstance(inner.this, exp.Literal) and not inner.this.is_string
        return written and "::" in text[place.start : place.end]

    def _column(self, node: exp.Column) -> Expression:
        if isinstance(node.this, exp.Star):
            raise BindError("* stands for columns only in a select list or in COUNT(*)")
        if node.args.get("db"):
            raise NameError(f'unknown column "{node.sql(dialect="spark")}"', hint="write column or item.column")
        if not node.table and not self._inside_aggregate and node.name.lower() in self.aliases:
            return self.aliases[node.name.lower()]
        place = place_of(node, self.binder.text)
        is_alone = not node.table and not self._inside_aggregate
        known = self.fallbacks.get(node.name.lower()) if is_alone else None
        if known is not None and not self.scope.has(node.name, place):
            return known
        aliases = [*self.aliases, *self.fallbacks] if is_alone else []
        return self.scope.resolve(node.table or None, node.name, place, aliases)

    def _bytes(self, node: exp.HexString) -> Expression:
        digits = node.name if len(node.name) % 2 == 0 else f"0{node.name}"
        try:
            return Literal(types.BINARY, bytes.fromhex(digits))
        except ValueError:
            raise TypeError(f"{node.name!r} is not a hexadecimal number") from None

    def _literal(self, node: exp.Literal) -> Expression:
        if not node.is_string:
            return number_literal(node.name)
        remark_quotes(node, self.scope, self.binder.text)
        return Literal(types.STRING, node.name)

    def _cast(self, node: exp.Cast) -> Expression:
        target = data_type(node.args["to"], place_of(node, self.binder.text))
        value = self.bind(node.this)
        if not can_cast(value.type, target):
            raise TypeError(f"cannot cast {value.type} to {target}")
        return cast(value, target, lenient=isinstance(node, exp.TryCast))

    def _adjacent(self, node: exp.Concat) -> Expression:
        """Literals side by side, `'a' 'b'`, which are one; the function has its own name."""
        if not all(isinstance(part, exp.Literal) and part.is_string for part in node.expressions):
            raise NotSupportedError("only texts stand side by side", hint="use || or concat")
        return Literal(types.STRING, "".join(part.name for part in node.expressions))

    def _is(self, node: exp.Is) -> Expression:
        value = self.bind(node.this)
        if isinstance(node.expression, exp.Null):
            return call("isnull", [value])
        if isinstance(node.expression, exp.Boolean):
            wanted = TRUE if node.expression.this else FALSE
            return call("<=>", [value, wanted])
        raise NotSupportedError("IS takes NULL, TRUE or FALSE")

    def _between(self, node: exp.Between) -> Expression:
        value, low, high = (self._side(node.args[part]) for part in ("this", "low", "high"))
        inside = call("and", [compared(">=", value, low), compared("<=", value, high)])
        if not node.args.get("symmetric"):
            return inside
        return call("or", [inside, call("and", [compared(">=", value, high), compared("<=", value, low)])])

    def _like(self, node: exp.Like | exp.ILike, escape: exp.Expr | None = None) -> Expression:
        value, negated = self.bind(node.this), node.args.get("negate")

        def matched(pattern: exp.Expr) -> Expression:
            sides = [value, self.bind(pattern)]
            if isinstance(node, exp.ILike):
                sides = [call("lower", [side]) for side in sides]
            found = call("like", [*sides, *([] if escape is None else [self.bind(escape)])])
            return call("not", [found]) if negated else found

        listed = listed_quantifier(node.expression)
        if listed is None:
            return matched(node.expression)
        return of_each(listed[0], [matched(pattern) for pattern in listed[1]])

    def _escape(self, node: exp.Escape) -> Expression:
        if not isinstance(node.this, exp.Like):
            raise NotSupportedError("ESCAPE goes with LIKE")
        return self._like(node.this, node.expression)

    def _in(self, node: exp.In) -> Expression:
        value = self._side(node.this)
        if node.args.get("query"):
            return self._subquery("in", node.args["query"].this, value)
        if not node.expressions:
            raise NotSupportedError(
                "IN takes a list of values or a subquery", hint="write x IN (1, 2) or x IN (SELECT ..)"
            )
        first = node.expressions[0]
        if isinstance(first, exp.Values):
            return self._subquery("in", first, value)
        if not isinstance(value, Expression):
            return of_each("any", [compared("=", value, self._side(other)) for other in node.expressions])
        if isinstance(first, LiteralList):
            return in_list(value, constants(first))
        return in_list(value, [self.bind(item) for item in node.expressions])

    def _case(self, node: exp.Case) -> Expression:
        subject = self.bind(node.this) if node.this else None
        branches = []
        for branch in node.args["ifs"]:
            condition = self.bind(branch.this)
            if subject is not None:
                condition = call("=", [subject, condition])
            branches.append((condition, self.bind(branch.args["true"])))
        default = node.args.get("default")
        return case(branches, self.bind(default) if default is not None else None)

    def _interval(self, node: exp.Interval) -> Expression:
        if (count := months(node, self.binder.text)) is not None:
            return Literal(types.MONTHS, count)
        ticks = span(node, self.binder.text)
        ticks = duration(node, self.binder.text).amount if ticks is None else ticks
        return Literal(types.INTERVAL, timedelta(microseconds=ticks))

    def _extract(self, node: exp.Extract) -> Expression:
        return call("extract", [Literal(types.STRING, node.name), self.bind(node.expression)])

    def _substring(self, node: exp.Substring) -> Expression:
        parts = [node.this, node.args.get("start"), node.args.get("length")]
        return call("substring", [self.bind(part) for part in parts if part is not None])

    def _trim(self, node: exp.Trim) -> Expression:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
        characters = node.args.get("expression")
        return call(name, [*([self.bind(characters)] if characters else []), self.bind(node.this)])

    def _position(self, node: exp.StrPosition) -> Expression:
        parts = [node.args["substr"], node.this, node.args.get("position")]
        return call("position", [self.bind(part) for part in parts if part is not None])

    def _if(self, node: exp.If) -> Expression:
        otherwise = node.args.get("false")
        parts = [self.bind(node.this), self.bind(node.args["true"])]
        return call("if", [*parts, self.bind(otherwise) if otherwise else Literal(types.NULL, None)])

    def _function(self, node: exp.Anonymous) -> Expression:
        name = node.name.lower()
        if name.upper() in STREAM_OPERATORS:
            raise BindError(
                f"{name.upper()} cannot stand inside an expression or in {self.clause}",
                hint=f"it turns a whole relation into a stream: SELECT {name.upper()}(...) FROM ...",
            )
        if name in AGGREGATES or name in self.binder.code.aggregates:
            return self._aggregate(node, name)
        if name in GENERATORS:
            raise BindError(
                f"{name} in {self.clause}" if self.clause != "the select list" else f"{name} inside an expression",
                hint=f"it makes rows: write FROM t, LATERAL {name}(t.x) AS e(n)",
            )
        if name in ("grouping", "grouping_id") and self.aggregates:
            return grouping_reference(name, [self.bind(argument) for argument in node.expressions])
        if name in WINDOW_FUNCTIONS:
            raise BindError(f"{name} without OVER", hint=f"write {name}(..) OVER (PARTITION BY .. ORDER BY ..)")
        check_function(node.name, self.binder.code.functions)
        for argument in node.expressions:
            if isinstance(argument, exp.Distinct):
                raise BindError(f"DISTINCT inside {name}, which is not an aggregate")
            if isinstance(argument, exp.Star):
                raise BindError(f"{name}(*) means nothing", hint="only COUNT takes *")
        return call(name, [self.bind(argument) for argument in node.expressions], self.binder.code.functions)

    def _aggregate(self, node: exp.Expr, name: str) -> Expression:
        if not self.aggregates:
            hint = "use HAVING" if self.clause == "WHERE" else None
            raise BindError(f"aggregate {name} in {self.clause}", hint=hint)
        if self._inside_aggregate:
            raise BindError(f"aggregate {name} inside another aggregate", hint="compute the inner one in a subquery")
        text = written(node, name)
        if name in self.binder.code.aggregates:
            return self._user_aggregate(text, *self.binder.code.aggregates[name])
        return AggregateBinder(text, self._aggregate_argument).bound()

    def _user_aggregate(self, text: WrittenCall, definition: type[UserAggregate], returns: DataType) -> Expression:
        name = text.name
        if text.order or text.within or text.ignores_nulls or text.condition is not None:
            raise NotSupportedError(f"clauses behind {name}(..)", hint="select the rows in a subquery")
        if any(isinstance(argument, exp.Star) for argument in text.arguments):
            raise BindError(f"{name}(*) means nothing", hint="only COUNT takes *")
        if len(text.arguments) != 1:
            raise BindError(f"{name} takes one argument, not {len(text.arguments)}")
        argument = self._aggregate_argument(text.arguments[0])
        return AggregateReference(returns, AggregateCall(name, argument, text.distinct, returns, definition))

    def _with_clauses(self, node: exp.Expr) -> Expression:
        """FILTER, WITHIN GROUP or IGNORE NULLS behind a call."""
        function = function_in(node)
        name = function.name.lower() if isinstance(function, exp.Anonymous) else ""
        if isinstance(function, exp.Any) and isinstance(function.this, exp.Paren):
            name, value = "any", function.this.this
            function.replace(exp.Anonymous(this="any", expressions=[value]))
        if name not in AGGREGATES and name not in self.binder.code.aggregates:
            check_function(name, self.binder.code.functions)
            clause = next(word for kind, word in _CLAUSES.items() if isinstance(node, kind))
            raise BindError(f"{clause} goes with an aggregate")
        return self._aggregate(node, name)

    def _aggregate_argument(self, node: exp.Expr) -> Expression:
        if self._arguments is not None:
            return self._arguments.bind(node)
        self._inside_aggregate = True
        try:
            return self.bind(node)
        finally:
            self._inside_aggregate = False

    def _any(self, node: exp.Any) -> Expression:
        """The aggregate ANY(x), which sqlglot takes for the ANY of a comparison."""
        if not isinstance(node.this, exp.Paren):
            self._quantifier_alone(node)
        return self._aggregate(exp.Anonymous(this="any", expressions=[node.this.this]), "any")

    def _quantifier_alone(self, node: exp.Expr) -> NoReturn:
        raise NotSupportedError(f"{type(node).__name__.upper()} (..) goes with a comparison", hint="write x > ANY (..)")

    def _row(self, node: exp.Expr) -> Expression:
        raise NotSupportedError(
            "a row of values stands only in comparisons and before IN",
            hint="write (a, b) = (1, 2), or columns apart: a, b",
        )

    def _exists(self, node: exp.Exists) -> Expression:
        query = node.this
        return self._subquery("exists", query.this if isinstance(query, exp.Subquery) else query)

    def _scalar(self, node: exp.Subquery) -> Expression:
        return self._subquery("scalar", node.this)

    def _subquery(self, form: str, query: exp.Expr, asked: Side = (), operator: str = "=") -> Expression:
        if self._inside_aggregate:
            raise NotSupportedError("a subquery inside an aggregate", hint="compute it in a subquery in FROM")
        arguments = (asked,) if isinstance(asked, Expression) else tuple(asked)
        block, outer = self.binder.bind_subquery(query, self.scope)
        wanted = len(arguments) or 1
        if form != "exists" and len(block.select) != wanted:
            words = "one is" if wanted == 1 else f"{wanted} are"
            raise BindError(
                f"the subquery gives {len(block.select)} columns where {words} wanted",
                place=place_of(query, self.binder.text),
            )
        kind = block.select[0].type if form == "scalar" else types.BOOLEAN
        for argument, found in zip(arguments, block.select, strict=False):
            if common_type([argument.type, found.type]) is None:
                raise TypeError(f"{'IN' if operator == '=' else operator} compares {argument.type} with {found.type}")
        return SubqueryExpression(kind, form, tuple(outer), arguments, block, id(block), operator)  # type: ignore[arg-type]

    def _star(self, node: exp.Star) -> Expression:
        raise BindError("* stands for columns only in a select list or in COUNT(*)")

    def _placeholder(self, node: exp.Placeholder) -> Expression:
        number = node.meta.get(PARAMETER)
        if number is not None and number < len(self.binder.parameters):
            return Parameter(self.binder.parameters[number], number)
        raise BindError("a parameter (?) without a value", hint=WITHOUT_VALUE)

    def _listed(self, node: exp.DataType) -> Expression:
        """ARRAY[a, b], which sqlglot reads as a type with values."""
        if node.this != exp.DType.ARRAY or "values" not in node.args:
            raise refused_expression(node, _describe(node))
        for kind in node.expressions:
            kind.args.get("this"), kind.args.get("nested")
        node.args.get("nested")
        return call("array", [self.bind(value) for value in node.args["values"]])

    def _element(self, node: exp.Bracket) -> Expression:
        """x[i], counted from 0."""
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            raise refused_expression(exp.Slice(), "a[i:j]")
        return call(AT, [self.bind(node.this), self.bind(node.expressions[0])])

    def _over(self, node: exp.Window) -> Expression:
        if self.windows is None or self._inside_aggregate:
            where = "an aggregate" if self._inside_aggregate else self.clause
            raise BindError(
                f"OVER in {where}",
                hint="it stands in the select list, in QUALIFY and in ORDER BY; compute it in a subquery",
            )
        inside = ExpressionBinder(self.binder, self.scope, "OVER", aggregates=self.aggregates, aliases=self.aliases)
        return OverBinder(inside, self.windows, node).bind()


def _concatenated(texts: Sequence[Expression]) -> Expression:
    """Very many texts: by parts, and these in turn."""
    while len(texts) > MANY_TERMS:
        texts = [call("concat", texts[at : at + MANY_TERMS]) for at in range(0, len(texts), MANY_TERMS)]
    return call("concat", texts)


def _describe(node: exp.Expr) -> str:
    if isinstance(node, StreamOperator):
        return str(node.this)
    return node.sql(dialect="spark")[:60] or type(node).__name__


_HANDLERS: dict[type[exp.Expr], Callable[..., Expression]] = {
    exp.Column: ExpressionBinder._column,
    exp.Literal: ExpressionBinder._literal,
    exp.Boolean: lambda _, node: TRUE if node.this else FALSE,
    exp.Null: lambda _, node: Literal(types.NULL, None),
    exp.HexString: ExpressionBinder._bytes,
    exp.Paren: lambda self, node: self.bind(node.this),
    exp.Concat: ExpressionBinder._adjacent,
    exp.Cast: ExpressionBinder._cast,
    exp.TryCast: ExpressionBinder._cast,
    exp.Is: ExpressionBinder._is,
    exp.Between: ExpressionBinder._between,
    exp.Like: ExpressionBinder._like,
    exp.ILike: ExpressionBinder._like,
    exp.Escape: ExpressionBinder._escape,
    exp.In: ExpressionBinder._in,
    exp.Case: ExpressionBinder._case,
    exp.If: ExpressionBinder._if,
    exp.Interval: ExpressionBinder._interval,
    exp.Extract: ExpressionBinder._extract,
    exp.AtTimeZone: lambda self, node: at_time_zone(self.bind(node.this), self.bind(node.args["zone"])),
    exp.Substring: ExpressionBinder._substring,
    exp.Trim: ExpressionBinder._trim,
    exp.StrPosition: ExpressionBinder._position,
    exp.Anonymous: ExpressionBinder._function,
    **dict.fromkeys(_CLAUSES, ExpressionBinder._with_clauses),
    exp.Any: ExpressionBinder._any,
    exp.All: ExpressionBinder._quantifier_alone,
    exp.Tuple: ExpressionBinder._row,
    exp.Exists: ExpressionBinder._exists,
    exp.Subquery: ExpressionBinder._scalar,
    exp.Star: ExpressionBinder._star,
    exp.Placeholder: ExpressionBinder._placeholder,
    exp.Window: ExpressionBinder._over,
    exp.DataType: ExpressionBinder._listed,
    exp.Bracket: ExpressionBinder._element,
    exp.NullSafeNEQ: lambda self, node: call("not", [call("<=>", [self.bind(node.this), self.bind(node.expression)])]),
}
