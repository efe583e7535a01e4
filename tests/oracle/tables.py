"""DELETE and UPDATE: what a table holds after the statement."""

from __future__ import annotations

from sqlglot import exp
from tests.oracle import relational
from tests.oracle.errors import OracleError
from tests.oracle.inputs import Table
from tests.oracle.relational import Row

from millstream.language import statements as st


def changed_rows(statement: st.Delete | st.Update, table: Table, at: int) -> tuple[Row, ...]:
    if table.nature == "APPEND ONLY":
        raise OracleError(f"{table.name} is APPEND ONLY")
    condition = exp.Boolean(this=True) if statement.where is None else statement.where
    if condition.find(exp.Query):
        raise NotImplementedError("subqueries in DELETE and UPDATE")
    if isinstance(statement, st.Delete):
        select = exp.Select(expressions=[exp.Star()], where=exp.Where(this=_is_not_true(condition)))
    else:
        select = exp.Select(expressions=_assigned(statement, table, condition))
    name = exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
    select.set("from_", exp.From(this=exp.Table(this=exp.to_identifier("leaf_0"), alias=name)))
    text = relational.duckdb_text(relational.spark_tree(select))
    if isinstance(statement, st.Update):
        names = [f"c{i}" for i in range(len(table.columns))]
        casts = ", ".join(f"CAST({n} AS {c.type})" for n, c in zip(names, table.columns, strict=True))
        text = f"SELECT {casts} FROM ({text}) AS changed({', '.join(names)})"
    return relational.evaluate(text, ((table.columns, table.rows(at)),))


def _is_not_true(condition: exp.Expr) -> exp.Expr:
    return exp.Not(this=_call("coalesce", condition.copy(), exp.Boolean(this=False)))


def _assigned(statement: st.Update, table: Table, condition: exp.Expr) -> list[exp.Expr]:
    values = {column.key: value for column, value in statement.assignments}
    columns = {column.name.lower(): exp.column(column.name, quoted=True) for column in table.columns}
    unknown = values.keys() - columns.keys()
    if unknown:
        raise OracleError(f"{table.name} has no column {unknown.pop()}")
    return [
        _call("if", condition.copy(), values[name].copy(), column) if name in values else column
        for name, column in columns.items()
    ]


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))
