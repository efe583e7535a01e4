"""Computes scalar expressions over batches.

A list of expressions is compiled once into a program: stages of Polars expressions over a batch's columns, each stage
adding columns that later ones read; the results; and the failures, conditions that must hold on no row. An expression
that is used twice is computed once. A failure is restricted to the rows that evaluate it: those that take the CASE
branch, those on which AND, OR or COALESCE go on. Programs of expressions that cannot fail are a single select.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from millstream.errors import EvaluationError
from millstream.kernel.batch import value_column
from millstream.kernel.scalar.casts import cast_column
from millstream.kernel.scalar.casts_text import to_text
from millstream.kernel.scalar.expressions import Call, Case, Cast, Column, Expression, InList, Literal
from millstream.kernel.scalar.functions import function
from millstream.kernel.scalar.functions_user import UserCall, call_expr
from millstream.kernel.scalar.literals import from_column, to_expr
from millstream.kernel.scalar.outcome import Failure, Outcome, always, null_where_failed
from millstream.kernel.scalar.value_size import value_limit
from millstream.types import to_polars

_TEMPORARY, _FLAG = "_t", "_f"
# The rows on which an expression is evaluated: None for all, else a condition, made only when a failure needs it.
Guard = Callable[[], pl.Expr] | None


def evaluate(frame: pl.DataFrame, expressions: Sequence[Expression], names: Sequence[str]) -> pl.DataFrame:
    """One column per expression, named by `names`, over the frame's value columns (c0, c1, ...)."""
    return compile_expressions(tuple(expressions)).run(frame, names)


def select_true(frame: pl.DataFrame, condition: Expression) -> pl.DataFrame:
    """The rows on which the condition is true; neither those where it is false nor those where it is NULL."""
    program = compile_expressions((condition,))
    if not program.stages and not program.checks:
        with suppress(pl.exceptions.PanicException):  # the program says why
            return frame.filter(program.values[0])
    return frame.filter(program.run(frame, ["condition"]).to_series())


def can_fail(expression: Expression) -> bool:
    """Whether there may be rows on which it cannot be computed: users' code and dates may always be too much."""
    if any(
        isinstance(node, UserCall) or (isinstance(node, Call) and node.type.is_temporal) for node in expression.walk()
    ):
        return True
    return bool(compile_expressions((expression,)).checks)


def fold(expression: Expression) -> Expression:
    """The expression with its constant parts computed; a part that fails is left for the run to fail on."""

    def change(node: Expression) -> Expression:
        if isinstance(node, Literal | Column) or not all(isinstance(child, Literal) for child in node.children):
            return node
        if not isinstance(node, Call | Case | Cast | InList) or isinstance(node, UserCall):
            return node
        try:
            value = compile_expressions((node,)).run(pl.DataFrame(height=1), ["value"]).to_series()
        except EvaluationError:
            return node
        return from_column(value, node.type) or node

    return expression.transform(change)


def compile_expressions(expressions: tuple[Expression, ...]) -> Program:
    """The program that computes the expressions."""
    return _compiled(expressions, value_limit())


@lru_cache(maxsize=4096)
def _compiled(expressions: tuple[Expression, ...], largest_value: int) -> Program:
    return _Compiler(expressions).program()


@dataclass(frozen=True)
class Check:
    """A failure of one node: no row may satisfy `mask`."""

    mask: pl.Expr
    node: Expression
    failure: Failure

    @property
    def flag(self) -> pl.Expr:
        """Computed with the values: whether any row failed, or may have."""
        return self.mask.any() if self.failure.suspicion is None else self.failure.suspicion

    def failed(self, computed: pl.DataFrame) -> bool:
        """Whether a row did fail, once the flag is up."""
        return self.failure.suspicion is None or bool(computed.select(self.mask.any()).item())


@dataclass(frozen=True)
class Program:
    stages: tuple[tuple[pl.Expr, ...], ...]
    values: tuple[pl.Expr, ...]
    checks: tuple[Check, ...]

    def run(self, frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        if not self.values:
            return pl.DataFrame(height=frame.height)
        outputs = [value.alias(name) for value, name in zip(self.values, names, strict=True)]
        flags = [check.flag.alias(f"{_FLAG}{i}") for i, check in enumerate(self.checks)]
        try:
            # As series: Polars may know a column as one value, and then computes with a column of one row.
            computed = self._staged(_as_series(frame))
            # Not `select`, which gives one row where all results are constants (or Polars finds that they are).
            result = computed.with_columns(*outputs, *flags)
        except EvaluationError as error:
            # A user's function raised; Polars builds the error anew and writes its own context below the message.
            raise EvaluationError(error.primary.partition("\n\nThis error occurred")[0]) from None
        except pl.exceptions.PanicException:
            raise EvaluationError(
                f"a date or time is too far away for {', '.join(map(str, names))}",
                detail="years from -262143 to 262142 can be computed with",
            ) from None
        if frame.height:
            for check, flag in zip(self.checks, flags, strict=True):
                if result.get_column(flag.meta.output_name()).first() and check.failed(computed):
                    raise self._error(check, computed)
        return pl.DataFrame([result.get_column(name) for name in names])

    def _staged(self, frame: pl.DataFrame) -> pl.DataFrame:
        for stage in self.stages:
            frame = _as_series(frame.with_columns(stage))
        return frame

    def _error(self, check: Check, computed: pl.DataFrame) -> EvaluationError:
        """Names the failed expression, and shows the values it read on the first row that failed."""
        shown = self._first_row(check, computed)
        return EvaluationError(
            f"{check.failure.message} in {check.node}",
            detail=f"for {shown}" if shown else None,
            hint=check.failure.hint,
        )

    def _first_row(self, check: Check, computed: pl.DataFrame) -> str:
        columns = {node.index: node for node in check.node.walk() if isinstance(node, Column)}
        texts = [to_text(pl.col(value_column(index)), node.type) for index, node in columns.items()]
        try:
            row = computed.filter(check.mask).head(1).select(pl.concat_list(texts)).item() if columns else []
        except pl.exceptions.PanicException:  # a date that Polars cannot write
            return ""
        return ", ".join(f"{node.name} = {text}" for node, text in zip(columns.values(), row, strict=True))


def _as_series(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with all of its columns written out, also those of which Polars knows that they are constant."""
    return pl.DataFrame(frame.get_columns()) if frame.width else frame


class _Compiler:
    """Compiles expressions that are computed together."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self.expressions = expressions
        self.stages: list[list[pl.Expr]] = []
        self.checks: list[Check] = []
        self.levels: dict[str, int] = {}  # temporary column -> the stage that computes it
        self.compiled: dict[tuple[Expression, Guard], pl.Expr] = {}
        uses = Counter(node for root in expressions for node in root.walk() if node.children)
        self.repeated = {node for node, count in uses.items() if count > 1}

    def program(self) -> Program:
        values = [self.value(expression, None) for expression in self.expressions]
        return Program(tuple(map(tuple, self.stages)), tuple(values), tuple(self.checks))

    def value(self, node: Expression, guard: Guard) -> pl.Expr:
        """A node's value on every row; on rows that the guard leaves out it may be anything."""
        if isinstance(node, Column):
            return pl.col(value_column(node.index))
        if isinstance(node, Literal):
            return to_expr(node)
        for key in ((node, None), (node, guard)):
            if key in self.compiled:
                return self.compiled[key]
        value = self._compile(node, guard)
        if node in self.repeated:
            value = self._column(value)
        self.compiled[node, guard] = value
        return value

    def _compile(self, node: Expression, guard: Guard) -> pl.Expr:
        if isinstance(node, Case):
            return self._case(node, guard)
        if isinstance(node, InList):
            return self._in_list(node, guard)
        if isinstance(node, Cast):
            argument = self._argument(node.argument, guard)
            outcome = cast_column(argument, node.argument.type, node.type)
            return null_where_failed(outcome) if node.lenient else self._checked(node, outcome, guard)
        if isinstance(node, UserCall):
            arguments = [self._argument(argument, guard) for argument in node.arguments]
            return self._column(call_expr(node, arguments, None if guard is None else guard()))
        if isinstance(node, Call):
            return self._call(node, guard)
        raise NotImplementedError(f"{type(node).__name__} is not an expression that can be computed")

    def _call(self, node: Call, guard: Guard) -> pl.Expr:
        entry = function(node.function)
        arguments: list[pl.Expr] = []
        current = guard
        for argument in node.arguments:
            arguments.append(self.value(argument, current) if entry.reads_once else self._argument(argument, current))
            if entry.proceeds is not None:
                current = self._narrowed(current, arguments, len(arguments) - 1, entry.proceeds)
        if arguments and all(isinstance(argument, Literal) for argument in node.arguments):
            # Not every Polars function of constants knows that its result is one.
            arguments[0] = self._column(arguments[0])
        return self._checked(node, always(entry.evaluate(node, *arguments)), guard)

    def _case(self, node: Case, guard: Guard) -> pl.Expr:
        conditions: list[pl.Expr] = []
        values: list[pl.Expr] = []
        current = guard
        for index, (condition, value) in enumerate(node.branches):
            conditions.append(self.value(condition, current))
            values.append(self.value(value, self._narrowed(current, conditions, index, lambda c: c.fill_null(False))))
            current = self._narrowed(current, conditions, index, lambda c: ~c.fill_null(False))
        result = self.value(node.otherwise, current)
        for condition_value, value_expr in zip(reversed(conditions), reversed(values), strict=True):
            result = pl.when(condition_value).then(value_expr).otherwise(result)
        if any(value.meta.root_names() for value in (*values, self.value(node.otherwise, current))):
            return result
        # Where all rows choose the same constant Polars gives one value, and then computes with a column of one row.
        return self._column(result)

    def _in_list(self, node: InList, guard: Guard) -> pl.Expr:
        """True if a value is equal, else NULL if one of them (or the argument) is NULL."""
        argument = self._column(self.value(node.argument, guard))
        constants = [value.value for value in node.values if isinstance(value, Literal)]
        if len(constants) < len(node.values):
            return self._in_expressions(node, argument, guard)
        known = [value for value in constants if value is not None]
        found = argument.is_in(pl.Series(known, dtype=to_polars(node.argument.type)).implode())
        return found if len(known) == len(constants) else found | pl.lit(None, dtype=pl.Boolean)

    def _in_expressions(self, node: InList, argument: pl.Expr, guard: Guard) -> pl.Expr:
        equal: list[pl.Expr] = []
        for index, value in enumerate(node.values):
            equal.append(argument == self.value(value, guard))
            guard = self._narrowed(guard, equal, index, lambda e: ~e.fill_null(False))
        return pl.any_horizontal(equal)

    def _narrowed(
        self, guard: Guard, parts: list[pl.Expr], index: int, condition: Callable[[pl.Expr], pl.Expr]
    ) -> Callable[[], pl.Expr]:
        """A guard with one more condition, on a part that is computed before. Once something asks for it, the part
        becomes a column, for its own use too."""
        made: list[pl.Expr] = []

        def make() -> pl.Expr:
            if not made:
                parts[index] = self._column(parts[index])
                mask = condition(parts[index])
                made.append(self._column(mask if guard is None else guard() & mask))
            return made[0]

        return make

    def _argument(self, node: Expression, guard: Guard) -> pl.Expr:
        """An argument that is read more than once."""
        value = self.value(node, guard)
        return value if isinstance(node, Literal) else self._column(value)

    def _checked(self, node: Expression, outcome: Outcome, guard: Guard) -> pl.Expr:
        if not outcome.failures:
            return outcome.value
        value = self._column(outcome.value)
        for failure in outcome.failures:
            mask = failure.mask(value)
            self.checks.append(Check(mask if guard is None else mask & guard(), node, failure))
        return value

    def _column(self, value: pl.Expr) -> pl.Expr:
        """The value as a column of its own, computed as soon as what it reads is there."""
        if value.meta.is_column():
            return value
        level = max((self.levels.get(name, -1) for name in value.meta.root_names()), default=-1) + 1
        name = f"{_TEMPORARY}{len(self.levels)}"
        if level == len(self.stages):
            self.stages.append([])
        self.stages[level].append(value.alias(name))
        self.levels[name] = level
        return pl.col(name)
