"""Compiles scalar expressions to programs.

A list of expressions is compiled once into a program: stages of Polars expressions over a batch's columns, each stage
adding columns that later ones read; the results; and the checks, conditions on which a result does not count. An
expression that is used twice is computed once. Everything is computed on every row, so that nothing may raise on the
way, and errors follow SQL's logic from the inside out:

    false AND error = false,  true OR error = true,  whichever comes first; otherwise they are errors
    CASE and COALESCE fail where what they choose does, or what they have to look at before they choose
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import polars as pl

from millstream.kernel.batch import value_column
from millstream.kernel.scalar.casts import cast_column
from millstream.kernel.scalar.chains import LONG, memberships, operands
from millstream.kernel.scalar.expressions import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    InList,
    Literal,
    Reported,
    Tried,
    column_names,
)
from millstream.kernel.scalar.functions import function
from millstream.kernel.scalar.functions_user import UserCall, call_outcome
from millstream.kernel.scalar.literals import to_expr
from millstream.kernel.scalar.outcome import Failure, Outcome, always, null_where_failed
from millstream.kernel.scalar.program import Check, Program, dtypes_of
from millstream.kernel.step_limits import StepLimits, step_limits
from millstream.types import to_polars

_TEMPORARY = "_t"
_NESTED = 50  # branches of a CASE inside one another: what Polars takes for them grows with the square of their number
# The rows on which users' code is called: None for all, else a condition, made only when a call needs it.
GuardExpression = Callable[[], pl.Expr] | None


def compile_expressions(expressions: tuple[Expression, ...]) -> Program:
    """The program that computes the expressions."""
    return _compiled(expressions, tuple(map(column_names, expressions)), step_limits())


@lru_cache(maxsize=4096)
def _compiled(expressions: tuple[Expression, ...], names: tuple[tuple[str, ...], ...], limits: StepLimits) -> Program:
    """Errors show the names of columns."""
    return _Compiler(expressions).program()


@dataclass(frozen=True)
class Computed:
    """A value for every row, and where it does not count."""

    value: pl.Expr
    checks: tuple[Check, ...] = ()

    @property
    def failed(self) -> pl.Expr:
        """Whether it does not count."""
        masks = [check.mask.fill_null(False) for check in self.checks]
        return pl.any_horizontal(masks) if masks else pl.lit(False)


class _Compiler:
    """Compiles expressions that are computed together."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self.expressions = expressions
        self.stages: list[list[pl.Expr]] = []
        self.levels: dict[str, int] = {}  # temporary column -> the stage that computes it
        self.compiled: dict[tuple[Expression, GuardExpression], Computed] = {}
        uses = Counter(node for root in expressions for node in root.walk() if node.children)
        self.repeated = {node for node, count in uses.items() if count > 1}
        self.by_users = _calling_users(expressions)

    def program(self) -> Program:
        computed = [self.computed(expression, None) for expression in self.expressions]
        checks = {id(check): check for each in computed for check in each.checks}
        values = tuple(_constant_or_column(each.value) for each in computed)
        far = any(isinstance(n, Call) and n.type.is_temporal for root in self.expressions for n in root.walk())
        stages = tuple(map(tuple, self.stages))
        return Program(stages, values, tuple(checks.values()), dtypes_of(self.expressions), far)

    def computed(self, node: Expression, guard: GuardExpression) -> Computed:
        """A node on every row; on rows that the guard leaves out it may be anything."""
        if isinstance(node, Column):
            return Computed(pl.col(value_column(node.index)))
        if isinstance(node, Literal):
            return Computed(to_expr(node))
        guard = guard if node in self.by_users else None
        for key in ((node, None), (node, guard)):
            if key in self.compiled:
                return self.compiled[key]
        found = self._compile(node, guard)
        if node in self.repeated:
            found = replace(found, value=self._column(found.value))
        self.compiled[node, guard] = found
        return found

    def _compile(self, node: Expression, guard: GuardExpression) -> Computed:
        match node:
            case Case():
                return self._case(node, guard)
            case InList():
                return self._in_list(node, guard)
            case Tried():
                return self._tried(node, guard)
            case Cast():
                argument = self._argument(node.argument, guard)
                outcome = cast_column(argument.value, node.argument.type, node.type, lenient=node.lenient)
                own = Outcome(null_where_failed(outcome)) if node.lenient else outcome
                return self._checked(node, own, argument.checks)
            case UserCall():
                arguments = [self._argument(argument, guard) for argument in node.arguments]
                outcome = call_outcome(
                    node, [each.value for each in arguments], None if guard is None else guard(), self._column
                )
                return self._checked(node, outcome, _all_checks(arguments))
            case Call():
                return self._call(node, guard)
            case Reported():
                value, error = self._argument(node.value, guard), self._argument(node.error, guard)
                reported = Failure(lambda _: error.value.is_not_null(), "", node.hint, text=error.value)
                return self._checked(node, Outcome(value.value, (reported,)), (*value.checks, *error.checks))
        raise NotImplementedError(f"{type(node).__name__} is not an expression that can be computed")

    def _call(self, node: Call, guard: GuardExpression) -> Computed:
        if node.function in ("and", "or") and len(node.arguments) == 2:
            return self._chain(node, guard) or self._logic(node, guard)
        entry = function(node.function)
        arguments: list[Computed] = []
        current, reached = guard, None
        for argument in node.arguments:
            found = self.computed(argument, current) if entry.reads_once else self._argument(argument, current)
            arguments.append(self._restricted(found, reached))
            if entry.proceeds is not None and argument is not node.arguments[-1]:
                arguments[-1] = replace(arguments[-1], value=self._column(found.value))
                proceeds = entry.proceeds(arguments[-1].value)
                reached = self._column(proceeds if reached is None else reached & proceeds)
                current = _and(guard, reached)
        values = [each.value for each in arguments]
        if values and all(isinstance(argument, Literal) for argument in node.arguments):
            # Not every Polars function of constants knows that its result is one.
            values[0] = self._column(values[0])
        outcome = always(entry.evaluate(node, *values))
        if node.function == "coalesce" and any(isinstance(argument, Literal) for argument in node.arguments):
            # Where all rows choose the same constant Polars gives one value, and computes with a column of one row.
            outcome = replace(outcome, value=self._column(outcome.value))
        return self._checked(node, outcome, _all_checks(arguments))

    def _chain(self, node: Call, guard: GuardExpression) -> Computed | None:
        """A long AND or OR of conditions that never fail, at once."""
        if node in self.by_users:
            return None
        parts = operands(node, self.repeated.__contains__)
        if len(parts) < LONG:
            return None
        values, others = memberships(node.function, parts)
        computed = [self.computed(part, guard) for part in others]
        if any(part.checks for part in computed):
            return None
        values += (_constant_or_column(part.value) for part in computed)
        return Computed(pl.any_horizontal(values) if node.function == "or" else pl.all_horizontal(values))

    def _logic(self, node: Call, guard: GuardExpression) -> Computed:
        """AND and OR: an error on one side does not count where the other side decides."""
        decides = node.function == "or"
        left = self.computed(node.arguments[0], guard)
        parts = [left]
        if node.arguments[1] in self.by_users:
            left = replace(left, value=self._column(left.value))
            undecided = left.value.fill_null(not decides) != decides
            parts = [left, self.computed(node.arguments[1], _and(guard, undecided | left.failed))]
        else:
            parts.append(self.computed(node.arguments[1], guard))
        if any(part.checks for part in parts):
            parts = [replace(part, value=self._column(part.value)) for part in parts]
        checks: list[Check] = []
        for own, other in (parts, parts[::-1]):
            if own.checks:
                open_there = (other.value.fill_null(not decides) != decides) | other.failed
                checks += self._restricted(own, self._column(open_there)).checks
        one, second = parts[0].value, parts[1].value
        return Computed(one | second if decides else one & second, tuple(checks))

    def _case(self, node: Case, guard: GuardExpression) -> Computed:
        conditions: list[pl.Expr] = []
        parts: list[Computed] = []
        checks: list[Check] = []
        reached: pl.Expr | None = None
        fallible = any(self._can_fail_or_called(child, guard) for child in node.children)
        for condition, value in node.branches:
            found = self._restricted(self.computed(condition, _and(guard, reached)), reached)
            checks += found.checks
            truth = self._column(found.value) if fallible else found.value
            conditions.append(truth)
            taken = None
            if fallible:
                holds = truth.fill_null(False)
                taken = self._column(holds if reached is None else reached & holds)
                reached = self._column(~holds if reached is None else reached & ~holds)
            parts.append(self._restricted(self.computed(value, _and(guard, taken)), taken))
        parts.append(self._restricted(self.computed(node.otherwise, _and(guard, reached)), reached))
        result = parts[-1].value
        for place, (truth, part) in enumerate(zip(reversed(conditions), reversed(parts[:-1]), strict=True), 1):
            result = pl.when(truth).then(part.value).otherwise(result)
            if not place % _NESTED:
                result = self._column(result)
        if not any(part.value.meta.root_names() for part in parts):
            # Where all rows choose the same constant Polars gives one value, and computes with a column of one row.
            result = self._column(result)
        return Computed(result, (*checks, *_all_checks(parts)))

    def _can_fail_or_called(self, node: Expression, guard: GuardExpression) -> bool:
        return node in self.by_users or bool(self.computed(node, guard).checks)

    def _in_list(self, node: InList, guard: GuardExpression) -> Computed:
        """True if a value is equal, else NULL if one of them (or the argument) is NULL."""
        tested = self.computed(node.argument, guard)
        argument = self._column(tested.value)
        constants = [value.value for value in node.values if isinstance(value, Literal)]
        if len(constants) < len(node.values):
            return self._in_expressions(node, replace(tested, value=argument), guard)
        known = [value for value in constants if value is not None]
        found = argument.is_in(pl.Series(known, dtype=to_polars(node.argument.type)).implode())
        value = found if len(known) == len(constants) else found | pl.lit(None, dtype=pl.Boolean)
        return Computed(value, tested.checks)

    def _in_expressions(self, node: InList, argument: Computed, guard: GuardExpression) -> Computed:
        """An OR of equalities: a value that fails does not count where another one is equal."""
        values = [self.computed(value, guard) for value in node.values]
        equal = [argument.value == value.value for value in values]
        checks = list(argument.checks)
        if any(value.checks for value in values):
            equal = [self._column(each) for each in equal]
            pairs = zip(equal, values, strict=True)
            hits = [each.fill_null(False) & ~value.failed if value.checks else each for each, value in pairs]
            missed = self._column(~pl.any_horizontal(hits).fill_null(False))
            checks += [check for value in values for check in self._restricted(value, missed).checks]
        return Computed(pl.any_horizontal(equal), tuple(checks))

    def _tried(self, node: Tried, guard: GuardExpression) -> Computed:
        """What can always be said of the argument."""
        found = self.computed(node.argument, guard)
        if node.question == "value":
            return Computed(self._column(pl.when(~found.failed).then(found.value)))
        if node.question == "text":
            texts = [pl.when(check.mask.fill_null(False)).then(check.text) for check in found.checks]
            return Computed(self._column(pl.coalesce([*texts, pl.lit(None, pl.String)])))
        if node.question == "fails":
            return Computed(self._column(found.failed))
        return Computed(self._column(found.value.fill_null(False) | found.failed))

    def _restricted(self, found: Computed, condition: pl.Expr | None) -> Computed:
        if condition is None or not found.checks:
            return found
        return replace(found, checks=tuple(replace(check, mask=check.mask & condition) for check in found.checks))

    def _argument(self, node: Expression, guard: GuardExpression) -> Computed:
        """An argument that is read more than once."""
        found = self.computed(node, guard)
        return found if isinstance(node, Literal) else replace(found, value=self._column(found.value))

    def _checked(self, node: Expression, outcome: Outcome, below: tuple[Check, ...]) -> Computed:
        if not outcome.failures:
            return Computed(outcome.value, below)
        value = self._column(outcome.value)
        own = (Check(failure.mask(value), node, failure) for failure in outcome.failures)
        return Computed(value, (*below, *own))

    def _column(self, value: pl.Expr) -> pl.Expr:
        """The value as a column of its own, computed as soon as what it reads is there."""
        if value.meta.is_column():
            return value
        level = max((self.levels.get(name, -1) for name in value.meta.root_names()), default=-1) + 1
        name = f"{_TEMPORARY}{len(self.levels)}"
        if level == len(self.stages):
            self.stages.append([])
        self.stages[level].append(_constant_or_column(value).alias(name))
        self.levels[name] = level
        return pl.col(name)


def _constant_or_column(value: pl.Expr) -> pl.Expr:
    """What reads no column is one value for all rows: not every Polars function of constants knows that its result is
    one, and Polars refuses a column of one row among others."""
    return value if value.meta.root_names() else value.first()


def _calling_users(expressions: Sequence[Expression]) -> set[Expression]:
    """The nodes that are calls of users' code, or have some below them."""
    if not any(isinstance(node, UserCall) for root in expressions for node in root.walk()):
        return set()
    nodes = {node for root in expressions for node in root.walk() if node.children or isinstance(node, UserCall)}
    return {node for node in nodes if any(isinstance(part, UserCall) for part in node.walk())}


def _all_checks(parts: Sequence[Computed]) -> tuple[Check, ...]:
    return tuple(check for part in parts for check in part.checks)


def _and(guard: GuardExpression, condition: pl.Expr | None) -> GuardExpression:
    if condition is None:
        return guard
    return (lambda: condition) if guard is None else (lambda: guard() & condition)
