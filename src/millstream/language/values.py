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
from millstream.language.syntax import place_of
from millstream.plan.analysis.depth import check_depth
from millstream.types import DataType, Field, Schema


def insert_rows(statement: st.Insert, columns: Schema) -> list[tuple[object, ...]]:
    """The statement's rows in the order of the columns; columns that it leaves out are NULL."""
    if (plain := plain_rows(statement, columns)) is not None:
        return plain
    if statement.literals is not None:
        statement = parsed_insert(statement)  # to find out where something is wrong
    text = statement.place.text
    positions = positions_of(statement, columns)
    for number, row in enumerate(statement.rows, 1):
        if len(row) != len(positions):
            raise InputError(
                f"{statement.target}: row {number} has {len(row)} values, not {len(positions)}",
                detail=f"the columns are {', '.join(columns[index].name for index in positions)}",
                place=place_of(row[0], text) if row else statement.place,
            )
    found: list[list[object]] = [[None] * len(statement.rows) for _ in columns]
    for given, index in enumerate(positions):
        found[index] = _column([row[given] for row in statement.rows], columns[index], text)
    return list(zip(*found, strict=True))


def plain_rows(statement: st.Insert, columns: Schema) -> list[tuple[object, ...]] | None:
    """The rows of a statement that were read as plain constants; None where they were not, or one is wrong."""
    if statement.literals is None:
        return None
    return by_position(statement.literals, positions_of(statement, columns), columns)


def together(statements: Sequence[st.Statement]) -> list[list[st.Statement]]:
    """The statements in order, with INSERTs of plain constants together that follow upon each other and differ in
    their rows only."""
    runs: list[list[st.Statement]] = []
    last: object = None
    for statement in statements:
        plain = isinstance(statement, st.Insert) and statement.literals is not None and statement.at is None
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


def assignments(statement: st.Update, columns: Schema) -> list[Expression]:
    """For every column its new value, over the old row."""
    text = statement.place.text
    binder = _binder(columns, statement.target.text, text, "SET")
    names = {field.name.lower(): index for index, field in enumerate(columns)}
    values: list[Expression] = [Column(field.type, index, field.name) for index, field in enumerate(columns)]
    for name, value in statement.assignments:
        if name.key not in names:
            hint = did_you_mean(name.text, [field.name for field in columns])
            raise NameError(f'{statement.target} has no column "{name}"', hint=hint, place=name.place)
        field = columns[names[name.key]]
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
