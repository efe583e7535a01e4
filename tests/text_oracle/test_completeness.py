"""What the language takes is in a generator: the only test here that looks into Millstream.

The texts that generators write are parsed, and what is found in them is compared with what the binder has handlers for:
syntax nodes, scalar functions, aggregates, set operations, joins, windows, clauses, statements, settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from sqlglot import exp
from tests.properties.dice import SeededDice
from tests.text_oracle.aggregates import AGGREGATES, ORDERED
from tests.text_oracle.cases import RULES, CaseMaker
from tests.text_oracle.kinds import CONSTANTS, filled
from tests.text_oracle.lists import LIST_AGGREGATES, LISTS
from tests.text_oracle.scalars import CONSTRUCTS
from tests.text_oracle.user_code import AGGREGATES as USER_AGGREGATES
from tests.text_oracle.user_code import FUNCTIONS

from millstream.kernel.scalar.functions import function_names
from millstream.language import aggregates, expressions, from_clause, over, set_operations
from millstream.language import statements as st
from millstream.language.statement_parser import parse
from millstream.language.syntax import SAMPLE, WINDOW, StreamOperator, StreamWindow
from millstream.plan.rewrite import rule_names

# Operators under a name of their own: users write the operator, and its node is looked for.
OPERATORS = {name for name in function_names() if not name.isidentifier()} | {"and", "or", "not", "like", "rlike"}
WITH_NODES = {"position", "substr"}  # which have syntax, and so nodes, of their own
# Nodes that are there to be refused, or that come with another one.
REFUSED = {exp.Star, exp.Placeholder}
# Statements that say nothing about rows.
WITHOUT_ROWS = {st.Explain, st.Show, st.Drop, st.CreateSink, st.SetOption, st.AdHocQuery}
WITHOUT_ROWS |= {st.ShowCreate, st.Describe, st.Comment, st.AddColumn, st.Rename, st.SetRetain}


@cache
def texts() -> list[str]:
    """One statement for each construct, and those of many random cases."""
    found = []
    for construct in (*CONSTRUCTS, *LISTS, *AGGREGATES, *LIST_AGGREGATES, *ORDERED):
        written = filled(construct.text, *(CONSTANTS[kind][0] for kind in construct.arguments)).cql
        found.append(f"SELECT 1 AS one, {written} AS c FROM S [NOW]")
    return [*found, *(str(CaseMaker(SeededDice(seed)).case()) for seed in range(400))]


@cache
def statements() -> list[st.Statement]:
    return [statement for text in texts() for statement in parse(text)]


def _nodes() -> Iterator[exp.Expr]:
    for statement in statements():
        for value in vars(statement).values():
            for part in value if isinstance(value, tuple) else (value,):
                for node in part if isinstance(part, tuple) else (part,):
                    if isinstance(node, exp.Expr):
                        yield from node.walk()


@cache
def nodes() -> list[exp.Expr]:
    return list(_nodes())


def test_every_node_that_has_a_handler() -> None:
    taken = {*expressions._BINARY, *expressions._UNARY, *expressions._HANDLERS} - REFUSED
    assert not {kind.__name__ for kind in taken - {type(node) for node in nodes()}}


def test_every_function() -> None:
    called = {node.name.lower() for node in nodes() if isinstance(node, exp.Anonymous)}
    written = called | {type(node).__name__.lower() for node in nodes()}
    missing = set(function_names()) - OPERATORS - WITH_NODES - written
    assert not missing


def test_every_aggregate() -> None:
    called = {node.name.lower() for node in nodes() if isinstance(node, exp.Anonymous)}
    distinct = {
        node.name.lower()
        for node in nodes()
        if isinstance(node, exp.Anonymous) and any(isinstance(a, exp.Distinct) for a in node.expressions)
    }
    written = " ".join(construct.text.cql for construct in AGGREGATES).lower()
    assert not {name for name in aggregates.AGGREGATES - called if f"{name}(" not in written}
    assert {"count", "sum", "avg", "min", "max", "stddev"} <= distinct


def test_every_set_operation() -> None:
    found = {(type(n), bool(n.args.get("distinct"))) for n in nodes() if isinstance(n, exp.SetOperation)}
    assert set(set_operations.KINDS) == found


def test_rows_quantifiers_and_values() -> None:
    assert any(node.args.get("by_name") for node in nodes() if isinstance(node, exp.SetOperation))
    within = [node for node in nodes() if isinstance(node, exp.In)]
    assert any(isinstance(node.this, exp.Tuple) and node.args.get("query") for node in within)
    assert {type(node) for node in nodes() if isinstance(node, exp.Any | exp.All)} == {exp.Any, exp.All}
    assert any(isinstance(node, exp.Values) for node in nodes())


def test_every_join() -> None:
    kinds = {from_clause._join_kind(node) for node in nodes() if isinstance(node, exp.Join)}
    assert kinds == {"inner", "left", "right", "full", "semi", "anti"}
    joins = [node for node in nodes() if isinstance(node, exp.Join)]
    unnested = [join for join in joins if isinstance(join.this, exp.Unnest)]
    assert {join.side for join in unnested} == {"", "LEFT"}
    assert any(join.this.args.get("offset") for join in unnested)
    assert any(len(join.this.expressions) > 1 for join in unnested)
    assert any(isinstance(join.this, exp.Lateral) and isinstance(join.this.this, exp.Anonymous) for join in joins)
    assert any(join.args.get("using") for join in joins)
    assert any(join.method == "NATURAL" for join in joins)
    assert any(join.kind == "CROSS" for join in joins)
    assert any(isinstance(join.this, exp.Lateral) for join in joins)
    assert {join.side for join in joins if join.method == "ASOF"} == {"", "LEFT"}
    assert any(join.args.get("on") is not None and join.args["on"].find(exp.Select) for join in joins)


def test_every_clause() -> None:
    found = {clause for n in nodes() if isinstance(n, exp.Select) for clause, value in n.args.items() if value}
    clauses = {"expressions", "from_", "joins", "where", "group", "having", "distinct", "with_", WINDOW}
    assert not (clauses | {"order", "limit", "offset", "windows", "qualify"}) - found
    fetched = [node.args.get("limit_options") for node in nodes() if isinstance(node, exp.Fetch)]
    assert {bool(options and options.args.get("with_ties")) for options in fetched} == {False, True}


def test_every_function_over_windows() -> None:
    called = [node.find(exp.Anonymous) for node in nodes() if isinstance(node, exp.Window) and node.args.get("over")]
    found = {function.name.lower() for function in called if function is not None}
    assert found >= {*over.WINDOW_FUNCTIONS, "first_value", "last_value", "count", "sum", "min", "max"}
    assert any(isinstance(node, exp.IgnoreNulls) for node in nodes())
    assert {node.args["kind"] for node in nodes() if isinstance(node, exp.WindowSpec)} == {"ROWS", "RANGE"}


def test_every_window_and_operator() -> None:
    windows = [node for node in nodes() if isinstance(node, StreamWindow)]
    assert {window.args["kind"] for window in windows} == {
        *("NOW", "RANGE", "ROWS", "TUMBLE", "HOP", "SESSION", "BEGIN", "RANGE ON")
    }
    assert any(window.args.get("slide") for window in windows)
    assert any(window.args.get("partition") for window in windows)
    assert any(window.args.get("complete") for window in windows)
    assert {node.this for node in nodes() if isinstance(node, StreamOperator)} == {"ISTREAM", "DSTREAM", "RSTREAM"}
    assert any(node.args.get("every") for node in nodes() if isinstance(node, StreamOperator))
    assert any(node.args.get(SAMPLE) for node in nodes())
    assert any(node.args.get(WINDOW) for node in nodes() if isinstance(node, exp.Subquery))


def test_every_star() -> None:
    stars = [node for node in nodes() if isinstance(node, exp.Star)]
    assert all(any(star.args.get(part) for star in stars) for part in ("except_", "replace", "rename"))
    assert any(isinstance(star.parent, exp.Column) for star in stars)


def test_every_negated_form() -> None:
    """A node that sqlglot negates by an argument is written both ways."""
    can_be = {type(node) for node in nodes() if "negate" in node.arg_types}
    are = {type(node) for node in nodes() if node.args.get("negate")}
    assert can_be <= are | {type(node.this) for node in nodes() if isinstance(node, exp.Not)}


def test_every_statement() -> None:
    kinds = {kind for kind in vars(st).values() if isinstance(kind, type) and issubclass(kind, st.Statement)}
    assert not kinds - {st.Statement} - WITHOUT_ROWS - {type(statement) for statement in statements()}


def test_every_kind_of_table() -> None:
    tables = [statement for statement in statements() if isinstance(statement, st.CreateTable)]
    assert {table.nature for table in tables} >= {"NON RETROACTIVE", "APPEND ONLY", "STATIC"}
    fed = [table for table in tables if table.changes_by is not None]
    assert any(table.key for table in fed)
    assert any(table.nature == "NON RETROACTIVE" for table in fed)
    changes = [statement for statement in statements() if isinstance(statement, st.TableChange)]
    timed = {type(statement) for statement in changes if statement.at is not None}
    assert timed == {st.Insert, st.InsertQuery, st.Delete, st.Update}


def test_joins_in_parentheses_and_code_of_users() -> None:
    assert any(" JOIN (S " in text or " JOIN (U " in text for text in texts())
    for name in (*FUNCTIONS, *USER_AGGREGATES):
        assert any(f"{name}(" in text for text in texts()), name


def test_every_rule() -> None:
    assert set(RULES) == set(rule_names())
