"""Constants and conditions of INSERT, DELETE and UPDATE, bound to the columns that they are for."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from millstream.errors import Error, InputError, NameError, TypeError, did_you_mean
from millstream.kernel.scalar.coercion import cast
from millstream.kernel.scalar.expressions import Column, Expression, Literal
from millstream.language import statements as st
from millstream.language.expressions import ExpressionBinder
from millstream.language.instants import ConstantsOnly, bound_constant, constant, folded, folded_together
from millstream.language.literal_rows import by_position, is_assignable
from millstream.language.reading import all_read
from millstream.language.scope import Scope, Source
from millstream.language.statement_parser import parsed_insert
from millstream.language.syntax import DefaultValue, place_of
from millstream.plan.analysis.depth import check_depth
from millstream.plan.definitions import NO_RULES, ColumnRules
from millstream.types import DataType, Field, Schema

EXCLUDED = "excluded"


def insert_rows(statement: st.Insert, columns: Schema, rules: ColumnRules = NO_RULES) -> list[tuple[object, ...]]:
    """The statement's rows in the order of the columns; columns that it leaves out have their defaults, or NULL."""
    if (plain := plain_rows(statement, columns, rules)) is not None:
        return plain
    if statement.literals is not None:
        statement = parsed_insert(statement)  # to find out where something is wrong
    text = statement.place.text
    positions = positions_of(statement, columns)
    for number, row in enumerate(statement.rows, 1):
        if len(row) != len(positions):
            raise InputError(
                f"{statement.target}: row {number} has {len(row)} value{'s' * (len(row) != 1)}, not {len(positions)}",
                detail=f"the columns are {', '.join(columns[index].name for index in positions)}",
                place=place_of(row[0], text) if row else statement.place,
            )
    found: list[list[object]] = [[rules.default(field.name)] * len(statement.rows) for field in columns]
    for given, index in enumerate(positions):
        nodes = [row[given] for row in statement.rows]
        values = iter(_column([node for node in nodes if not isinstance(node, DefaultValue)], columns[index], text))
        left_out = found[index][0] if found[index] else None
        found[index] = [left_out if isinstance(node, DefaultValue) else next(values) for node in nodes]
    return list(zip(*found, strict=True))


def plain_rows(statement: st.Insert, columns: Schema, rules: ColumnRules) -> list[tuple[object, ...]] | None:
    """The rows of a statement that were read as plain constants; None where they were not, or one is wrong."""
    if statement.literals is None:
        return None
    defaults = [rules.default(field.name) for field in columns]
    return by_position(statement.literals, positions_of(statement, columns), columns, defaults)


def assigned_constant(node: exp.Expr, field: Field, text: str) -> object:
    """The value of a constant for a column."""
    return _assigned(constant(node, text), field.type, field.name, node, text)


def together(statements: Sequence[st.Statement]) -> list[list[st.Statement]]:
    """The statements in order, with INSERTs of plain constants together that follow upon each other and differ in
    their rows only."""
    runs: list[list[st.Statement]] = []
    last: object = None
    for statement in statements:
        plain = isinstance(statement, st.Insert) and statement.literals is not None and statement.at is None
        plain = plain and isinstance(statement, st.Insert) and statement.conflict is None
        head = (statement.target.key, statement.columns) if plain and isinstance(statement, st.Insert) else None
        if head is not None and head == last:
            runs[-1].append(statement)
        else:
            runs.append([statement])
        last = head
    return runs


def condition_on(where: exp.Expr | None, columns: Schema, owner: str, text: str) -> Expression | None:
    """A WHERE over one table's columns."""
    if where is None:
        return None
    with all_read(where, text):
        bound = _binder(columns, owner, text, "WHERE").condition(where)
    check_depth(bound, place_of(where, text))
    return bound


Assignments = Sequence[tuple[st.Name, exp.Expr]]


def assignments(statement: st.Update, columns: Schema, rules: ColumnRules) -> list[Expression]:
    """For every column its new value, over the old row."""
    text, owner = statement.place.text, statement.target.text
    return _assignments(statement.assignments, columns, rules, _binder(columns, owner, text, "SET"), owner, text)


def replacements(
    conflict: st.Conflict, columns: Schema, rules: ColumnRules, owner: str, text: str
) -> tuple[list[Expression], Expression | None]:
    """What ON CONFLICT DO UPDATE makes of a row that is there and of the new one, which stands behind it: for every
    column its value, and which rows are changed at all."""
    if not conflict.assignments:
        return [Column(field.type, len(columns) + index, field.name) for index, field in enumerate(columns)], None
    scope = Scope()
    # A bare name is the row's that is there; EXCLUDED has the new one.
    scope.sources = [Source(owner, columns, 0), Source(EXCLUDED, columns, len(columns), hidden=len(columns))]
    values = _assignments(
        conflict.assignments, columns, rules, ExpressionBinder(ConstantsOnly(text), scope, "SET"), owner, text
    )
    if conflict.where is None:
        return values, None
    with all_read(conflict.where, text):
        condition = ExpressionBinder(ConstantsOnly(text), scope, "WHERE").condition(conflict.where)
    check_depth(condition, place_of(conflict.where, text))
    return values, condition


def _assignments(
    given: Assignments, columns: Schema, rules: ColumnRules, binder: ExpressionBinder, owner: str, text: str
) -> list[Expression]:
    names = {field.name.lower(): index for index, field in enumerate(columns)}
    values: list[Expression] = [Column(field.type, index, field.name) for index, field in enumerate(columns)]
    seen: set[str] = set()
    for name, value in given:
        if name.key not in names:
            hint = did_you_mean(name.text, [field.name for field in columns])
            raise NameError(f'{owner} has no column "{name}"', hint=hint, place=name.place)
        if name.key in seen:
            raise NameError(f'column "{name}" is set twice', place=name.place)
        seen.add(name.key)
        field = columns[names[name.key]]
        if isinstance(value, DefaultValue):
            values[names[name.key]] = Literal(field.type, rules.default(field.name))
            continue
        with all_read(value, text):
            bound = binder.bind(value)
        check_depth(bound, place_of(value, text))
        values[names[name.key]] = _coerced(bound, field.type, field.name, value, text)
    return values


def positions_of(statement: st.Insert | st.InsertQuery, columns: Schema) -> Sequence[int]:
    """Which columns the values of a row are for."""
    if not statement.columns:
        return range(len(columns))
    names = {field.name.lower(): index for index, field in enumerate(columns)}
    found = []
    for name in statement.columns:
        if name.key not in names:
            hint = did_you_mean(name.text, [field.name for field in columns])
            raise NameError(f'{statement.target} has no column "{name}"', hint=hint, place=name.place)
        if names[name.key] in found:
            raise NameError(f'column "{name}" is named twice', place=name.place)
        found.append(names[name.key])
    return found


def _binder(columns: Schema, owner: str, text: str, clause: str) -> ExpressionBinder:
    scope = Scope()
    scope.sources = [Source(owner, columns, 0)]
    return ExpressionBinder(ConstantsOnly(text), scope, clause)


def _column(nodes: Sequence[exp.Expr], field: Field, text: str) -> list[object]:
    """The constants for a column, computed together; one by one where some fail, to say which."""
    bound = [bound_constant(node, text) for node in nodes]
    together = folded_together(
        [_coerced(value, field.type, field.name, node, text) for value, node in zip(bound, nodes, strict=True)]
    )
    if together is not None:
        return together
    return [_assigned(constant(node, text), field.type, field.name, node, text) for node in nodes]


def _assigned(value: Literal, kind: DataType, name: str, node: exp.Expr, text: str) -> object:
    try:
        return folded(_coerced(value, kind, name, node, text))
    except Error as error:
        error.place = error.place or place_of(node, text)
        raise


def _coerced(value: Expression, kind: DataType, name: str, node: exp.Expr, text: str) -> Expression:
    if not is_assignable(value.type, kind):
        raise TypeError(f'column "{name}" is {kind}, not {value.type}', place=place_of(node, text))
    return cast(value, kind)
