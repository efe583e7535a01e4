"""The conservative static test of section 6.4: does a query over these leaves only ever gain rows?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

# Of a leaf: never loses rows; may; or a NON RETROACTIVE table, whose join does not change afterwards.
MONOTONIC, CHANGING, NON_RETROACTIVE = "monotonic", "changing", "non retroactive"

_KEEPING_KINDS = ("", "INNER", "CROSS", "SEMI")


def is_monotonic(query: exp.Expr, leaves: Mapping[str, str]) -> bool:
    """`query` is plain Spark SQL over tables named as in `leaves`."""
    if isinstance(query, exp.Subquery):
        return is_monotonic(query.this, leaves) and not query.args.get("joins")
    if isinstance(query, (exp.Union, exp.Intersect)) and not (query.args.get("limit") or query.args.get("offset")):
        return is_monotonic(query.this, leaves) and is_monotonic(query.expression, leaves)
    return isinstance(query, exp.Select) and _select_is_monotonic(query, leaves)


def _select_is_monotonic(select: exp.Select, leaves: Mapping[str, str]) -> bool:
    if any(select.args.get(part) for part in ("group", "having", "limit", "offset", "qualify", "laterals")):
        return False
    if any(isinstance(part, (exp.AggFunc, exp.Window, exp.Query)) for part in _own_parts(select.expressions)):
        return False
    origin = select.args.get("from_")
    joins = [*(_nested_joins(origin.this) if origin else ()), *_joins(select)]
    if not all(_keeps_rows(join) for join in joins):
        return False
    natures = [_nature(item.this, leaves) for item in ([origin] if origin else []) + joins]
    if CHANGING in natures or (NON_RETROACTIVE in natures and MONOTONIC not in natures):
        return False
    where = select.args.get("where")
    conditions = [where.this] if where else []
    conditions += [join.args["on"] for join in joins if join.args.get("on")]
    return all(_condition_is_monotonic(part, leaves) for whole in conditions for part in _conjuncts(whole))


def _joins(of: exp.Expr) -> Iterator[exp.Join]:
    """All joins of a FROM list, those in parentheses too."""
    for join in of.args.get("joins") or []:
        yield join
        yield from _nested_joins(join.this)


def _nested_joins(item: exp.Expr) -> Iterator[exp.Join]:
    if isinstance(item, exp.Subquery) and isinstance(item.this, (exp.Table, exp.Subquery)):
        yield from _nested_joins(item.this)
        yield from _joins(item.this)


def _keeps_rows(join: exp.Join) -> bool:
    kind, side = (join.args.get("kind") or "").upper(), (join.args.get("side") or "").upper()
    return kind in _KEEPING_KINDS and (not side or kind == "SEMI")


def _nature(item: exp.Expr, leaves: Mapping[str, str]) -> str:
    if isinstance(item, exp.Table):
        return leaves[item.name]
    if isinstance(item, exp.Subquery) and isinstance(item.this, (exp.Table, exp.Subquery)):
        return _nature(item.this, leaves)  # a join in parentheses: the first of its relations
    query = item.this if isinstance(item, exp.Subquery) else item  # joins beside it are looked at by themselves
    return MONOTONIC if is_monotonic(query, leaves) else CHANGING


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    else:
        yield condition


def _condition_is_monotonic(condition: exp.Expr, leaves: Mapping[str, str]) -> bool:
    """EXISTS and IN are semi-joins; any other condition may not look at other relations."""
    if isinstance(condition, exp.Exists):
        return is_monotonic(condition.this, leaves)
    if isinstance(condition, exp.In) and condition.args.get("query"):
        nested = any(isinstance(part, exp.Query) for part in _own_parts([condition.this]))
        return not nested and is_monotonic(condition.args["query"], leaves)
    return not any(isinstance(part, exp.Query) for part in _own_parts([condition]))


def _own_parts(expressions: list[exp.Expr]) -> Iterator[exp.Expr]:
    """The nodes of expressions, down to the queries nested in them but not inside those."""
    for expression in expressions:
        yield from expression.walk(prune=lambda node: isinstance(node, exp.Query))
