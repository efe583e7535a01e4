"""What is not supported, in the words of whoever writes it, and the nearest that works.

Syntax that is parsed and not bound is refused wherever it stands (`reading`, `expressions`); here is what to say.
"""

from __future__ import annotations

from sqlglot import exp

from millstream.errors import NotSupportedError, Place

# By argument of a syntax node, or by node and argument: what it is called, and what to write instead.
_CLAUSES: dict[str, tuple[str, str]] = {
    "Star.except_": ("* EXCEPT", "it stands in select lists; count(*) counts rows"),
    "limit": ("LIMIT", "write it inside of the parentheses, behind ORDER BY"),
    "Join.on": ("ON beside NATURAL or USING", "leave one of them out"),
    "DataType.expressions": ("a length of this type", "leave it out: TIMESTAMP has microseconds, STRING any length"),
    "ColumnDef.kind": ("a type in an alias", "give names alone, AS t (a, b), and cast: CAST(a AS INT)"),
    "Star.ilike": ("* ILIKE", "name the columns, or leave some out: * EXCEPT (a, b)"),
    "ordinality": ("WITH ORDINALITY", "write UNNEST(x) WITH ORDINALITY AS u(n, i), or posexplode(x) AS e(pos, n)"),
    "pivots": ("PIVOT", "write one aggregate for each value: sum(CASE WHEN k = 'x' THEN a END) AS x"),
    "unpivot": ("UNPIVOT", "write UNION ALL: SELECT 'a' AS name, a AS value FROM t UNION ALL SELECT 'b', b FROM t"),
    "sample": ("TABLESAMPLE", "write FROM s SAMPLE (10 PERCENT) [window]"),
    "match": ("MATCH_RECOGNIZE", "join the stream with itself: FROM s [RANGE 1 MINUTE] AS a, s [NOW] AS b WHERE .."),
    "join_mark": ("(+)", "write t LEFT JOIN u ON .."),
    "with_": ("WITH", "put it in front of the whole query"),
    "kind": ("AS STRUCT or AS VALUE", "list the columns: SELECT a, b"),
    "cluster": ("CLUSTER BY", "leave it out: where rows are computed is the database's own business"),
    "distribute": ("DISTRIBUTE BY", "leave it out: where rows are computed is the database's own business"),
    "sort": ("SORT BY", "write ORDER BY, which sorts the whole answer"),
    "locks": ("FOR UPDATE", "leave it out: queries lock nothing, and see one instant"),
    "hint": ("a hint", "leave it out; SET join_plan and SET strategy choose how queries are run"),
    "Table.hints": ("a hint", "leave it out: queries lock nothing, and see one instant"),
    "into": ("INTO", "write CREATE VIEW x AS SELECT .. or REGISTER QUERY x AS SELECT .."),
    "prewhere": ("PREWHERE", "write WHERE"),
    "settings": ("SETTINGS", "write SET name = value; before the query"),
    "format": ("FORMAT", "use to_timestamp(x, 'yyyy-MM-dd') or date_format(x, 'yyyy-MM-dd')"),
    "connect": ("CONNECT BY", "join the table with itself as often as there are levels: t AS a JOIN t AS b ON .."),
    "only": ("ONLY", "leave it out"),
    "Table.partition": ("PARTITION", "write WHERE"),
    "materialized": ("MATERIALIZED", "leave it out: equal parts of queries are computed once anyway"),
    "totals": ("WITH TOTALS", "write GROUP BY GROUPING SETS ((a), ())"),
    "version": ("FOR SYSTEM_TIME AS OF", "write FROM s [NOW] JOIN t FOR SYSTEM_TIME AS OF s.ts ON .."),
    "global_": ("GLOBAL", "leave it out"),
    "is_global": ("GLOBAL", "leave it out"),
    "unnest": ("IN UNNEST", "write x IN (1, 2) or x IN (SELECT ..)"),
    "search": ("SEARCH", "leave it out"),
    "indexed": ("INDEXED BY", "leave it out: the database chooses its indexes"),
    "SetOperation.on": ("BY (columns)", "list the columns on both sides"),
    "Table.rows_from": ("ROWS FROM", "write a subquery"),
    "Table.changes": ("CHANGES", "write ISTREAM(SELECT ..) for what comes, DSTREAM(SELECT ..) for what goes"),
    "Table.when": ("AT or BEFORE", "ask for an instant: q.result(at=..)"),
}
# By kind of syntax node where an expression is expected.
_NODES: dict[str, tuple[str, str | None]] = {
    "JSONExtract": ("->", "declare the fields of a source as columns of the stream"),
    "JSONExtractScalar": ("->>", "declare the fields of a source as columns of the stream"),
    "Lambda": ("a function of a function, x -> ..", "db.create_function(name, f, returns=..) takes whole columns"),
    "Collate": ("COLLATE", "compare lower(a) = lower(b), or use ILIKE"),
    "SimilarTo": ("SIMILAR TO", "use RLIKE with a regular expression"),
    "Glob": ("GLOB", "use LIKE or RLIKE"),
    "Overlaps": ("OVERLAPS", "write a_from < b_to AND b_from < a_to"),
    "Parameter": ("a variable", "use ? in a template: db.register_many(text, rows)"),
    "SessionParameter": ("a variable", "use ? in a template: db.register_many(text, rows)"),
    "QueryTransform": ("TRANSFORM .. USING", "db.create_function(name, f, returns=..) makes a function of Python"),
    "Kwarg": ("an argument with a name", "give arguments by position: f(a, b)"),
    "PropertyEQ": (":=", "write value AS name"),
    "Struct": ("a struct", "select its fields as columns of their own: a, b"),
    "Slice": ("a[i:j]", "arrays have slice(a, start, length), texts substring(s, i, n)"),
    "BitString": ("B'..'", "write the number, or X'..' for bytes"),
    "ByteString": ("b'..'", "write X'..' for bytes"),
    "Aliases": ("several names for one column", "write a AS x"),
    "StrToDate": ("CAST .. FORMAT", "use to_timestamp(x, 'yyyy-MM-dd')"),
    "StrToTime": ("CAST .. FORMAT", "use to_timestamp(x, 'yyyy-MM-dd')"),
    "TsOrDsToDate": ("CAST .. FORMAT", "use to_timestamp(x, 'yyyy-MM-dd')"),
    "Transform": ("transform(..) with a function", "db.create_function(name, f, returns=..) takes whole columns"),
    "HavingMax": ("HAVING MAX inside an aggregate", "use max_by(a, b) or min_by(a, b)"),
    "Limit": ("LIMIT inside an aggregate", "take the first rows in a subquery: FROM (SELECT .. ORDER BY .. LIMIT n)"),
    "Prior": ("PRIOR", "join the table with itself: t AS a JOIN t AS b ON .."),
    "Distance": ("<->", "write sqrt(power(x1 - x2, 2) + power(y1 - y2, 2))"),
    "JSON": ("JSON", "declare the fields of a source as columns of the stream"),
    "Dot": ("a field of a column", "declare the fields of a source as columns of the stream"),
    "Operator": ("OPERATOR(..)", "write the operator itself"),
    "GroupingSets": ("GROUPING SETS", "it stands in GROUP BY"),
    "Cube": ("CUBE", "it stands in GROUP BY"),
    "Rollup": ("ROLLUP", "it stands in GROUP BY"),
    "Distinct": ("DISTINCT", "it stands behind SELECT and inside aggregates: count(DISTINCT a)"),
    "Values": ("VALUES", "it stands in FROM and after IN: FROM VALUES (1), (2) AS v(x)"),
    "Ordered": ("ORDER BY", "it stands at the end of a query, in OVER and inside aggregates"),
    "Alias": ("AS", "names stand in select lists and FROM"),
}
_IN_FROM: dict[str, tuple[str, str]] = {
    "TableFromRows": ("TABLE(..)", "windows are TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), ..)) or s [TUMBLE ..]"),
}
JOINS = "there are JOIN, LEFT, RIGHT and FULL JOIN, CROSS JOIN, LEFT SEMI and LEFT ANTI JOIN, ASOF JOIN, and NATURAL"
WITHOUT_VALUE = "execute(text, [1]) gives one; register_many(text, rows) makes a query for each of many rows"
# What other databases start statements with.
STATEMENTS = {
    "FROM": "write SELECT a FROM s",
    "VALUES": "write SELECT * FROM VALUES (1, 2)",
    "TABLE": "write SELECT * FROM t",
    "MERGE": "write INSERT INTO t VALUES .. ON CONFLICT DO UPDATE",
    "UPSERT": "write INSERT INTO t VALUES .. ON CONFLICT DO UPDATE",
    "REPLACE": "write INSERT INTO t VALUES .. ON CONFLICT DO UPDATE",
    "TRUNCATE": "write DELETE FROM t",
    "BEGIN": "leave it out: a statement is done as a whole, and AT puts changes at one instant",
    "COMMIT": "leave it out: a statement is done as a whole, and AT puts changes at one instant",
    "ROLLBACK": "leave it out: a statement is done as a whole, and AT puts changes at one instant",
    "USE": "leave it out: a connection has one database",
    "CALL": "write SELECT f(x)",
    "COPY": "write CREATE SINK k FOR q USING parquet OPTIONS (path '..')",
    "GRANT": "tokens of the service say who may do what: millstream serve --help",
    "REVOKE": "tokens of the service say who may do what: millstream serve --help",
    "ANALYZE": "leave it out: statistics follow the data",
    "CACHE": "leave it out: REGISTER QUERY keeps its answer ready",
    "REFRESH": "leave it out: answers follow the data",
    **dict.fromkeys(("LIST", "LS"), "SHOW lists what there is: SHOW STREAMS, SHOW QUERIES"),
    "PRINT": "write SELECT * FROM s",
    "TERMINATE": "write DROP QUERY q",
    **dict.fromkeys(
        ("SUBSCRIBE", "TAIL", "FOLLOW", "WATCH"),
        "REGISTER QUERY q AS SELECT .., and then q.follow() in Python, or \\watch q in the shell",
    ),
}


def refused_clause(node: exp.Expr, argument: str, value: object, place: Place) -> NotSupportedError:
    """What was set of a node and nobody read."""
    kinds = [kind.__name__ for kind in type(node).__mro__]
    known = next((_CLAUSES[key] for kind in kinds if (key := f"{kind}.{argument}") in _CLAUSES), None)
    known = known or _CLAUSES.get(argument)
    first = value[0] if isinstance(value, list) else value
    if argument == "pivots" and isinstance(first, exp.Pivot) and first.args.get("unpivot"):
        known = _CLAUSES["unpivot"]
    if argument == "kind" and not isinstance(node, exp.Select | exp.ColumnDef):
        known = str(value), ""
    if known is not None:
        return NotSupportedError(f"{known[0]} is not supported here", hint=known[1] or None, place=place)
    words = argument.strip("_").replace("_", " ").upper()
    detail = f"it was read as {argument.strip('_')} of {type(node).__name__}"
    return NotSupportedError(f"{words} is not supported here", detail=detail, place=place)


def refused_expression(node: exp.Expr, shown: str) -> NotSupportedError:
    known = next((_NODES[kind.__name__] for kind in type(node).__mro__ if kind.__name__ in _NODES), None)
    if known is None:
        return NotSupportedError(f"{shown} is not supported here")
    return NotSupportedError(f"{known[0]} is not supported here", hint=known[1])


def refused_in_from(node: exp.Expr, place: Place) -> NotSupportedError:
    known = _IN_FROM.get(type(node).__name__)
    if known is not None:
        return NotSupportedError(f"{known[0]} is not supported in FROM", hint=known[1], place=place)
    hint = "write a name, a subquery in parentheses, or VALUES (..)"
    return NotSupportedError("this is not supported in FROM", hint=hint, place=place)
