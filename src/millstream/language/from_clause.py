"""Binds FROM: its items and joins, in the order in which they are written.

A column is found by its place in the row of all items so far, so the scope and the plan grow together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, cast

from sqlglot import exp

from millstream.errors import BindError, NotSupportedError, Place
from millstream.kernel.scalar.expressions import TRUE, Expression, conjunction, conjuncts
from millstream.kernel.scalar.functions import call
from millstream.language.blocks import BoundSubquery, LateralSource, Source, UnnestedSource
from millstream.language.expressions import ExpressionBinder, ExpressionContext
from millstream.language.generators import Generator, check_list, generator_of
from millstream.language.nearest import as_of, asof_join
from millstream.language.refusals import JOINS, refused_in_from
from millstream.language.scope import Scope
from millstream.language.syntax import WINDOW, StreamWindow, place_of
from millstream.language.unnest import joined
from millstream.plan import nodes as lo
from millstream.types import Field


class Relations(ExpressionContext, Protocol):
    """What an item of FROM may be: a name, or a query; and how it becomes a relation."""

    def table(self, item: exp.Table) -> tuple[BoundSubquery, str]: ...

    def timestamp_of(self, item: exp.Table) -> str | None: ...

    def query(self, query: exp.Expr) -> BoundSubquery: ...

    def relation(
        self, bound: BoundSubquery, item: exp.Expr, shown: str, window: StreamWindow | None
    ) -> BoundSubquery: ...

    def with_bounds(self, windowed: BoundSubquery) -> BoundSubquery: ...

    def check_descriptor(self, item: exp.Expr, window: StreamWindow | None) -> None: ...


class FromBinder:
    def __init__(self, binder: Relations) -> None:
        self._binder = binder
        self._stamps: dict[str, str] = {}  # the timestamps of the streams so far, by the names of these

    def bind(self, query: exp.Select, scope: Scope) -> Source:
        """What a SELECT ranges over; its names are added to the scope."""
        from_ = query.args.get("from_")
        if from_ is None:
            if query.args.get("joins"):
                raise BindError("a join without FROM", place=self._place(query))
            return lo.OneRow()
        trailing = query.args.get(WINDOW)
        plan: Source
        joins: list[exp.Join] = []
        if (generator := self._generator(from_.this)) is not None:
            plan = self._unnested(lo.OneRow(), from_.this, generator, scope, "inner", None)
            joins = from_.this.args.get("joins") or []
        else:
            plan = self._from_item(from_.this, scope, trailing)
        if isinstance(plan, lo.Node) and (version := from_.this.args.get("version")):
            plan = as_of(plan, plan, version, {}, self._place(version))
        for join in (*joins, *(query.args.get("joins") or [])):
            plan = self._join(plan, join, scope, trailing)
        for view in query.args.get("laterals") or []:
            plan = self._lateral_view(plan, view, scope)
        return plan

    def _lateral_view(self, left: Source, view: exp.Lateral, scope: Scope) -> Source:
        """Hive's LATERAL VIEW [OUTER] explode(x) e AS n."""
        generator = self._generator(view)
        if generator is None:
            shown = view.this.sql(dialect="spark")[:40]
            hint = "write LATERAL VIEW explode(x) e AS n"
            raise NotSupportedError(f"LATERAL VIEW of {shown}", hint=hint, place=self._place(view))
        view.args.get("view")
        return self._unnested(left, view, generator, scope, "left" if view.args.get("outer") else "inner", None)

    def _unnested(
        self,
        left: Source,
        item: exp.Expr,
        generator: Generator,
        scope: Scope,
        kind: lo.JoinKind,
        on: exp.Expr | None,
    ) -> UnnestedSource:
        """Rows of a list, which may use the columns of what stands before it in FROM."""
        place = self._place(item)
        if kind not in ("inner", "left"):
            hint = "write CROSS JOIN, LEFT JOIN .. ON TRUE or a comma"
            raise NotSupportedError(f"a {kind} join with rows of an array", hint=hint, place=place)
        lists = [ExpressionBinder(self._binder, scope, "FROM").bind(value) for value in generator.values]
        for value, written in zip(lists, generator.values, strict=True):
            check_list(value, self._place(written))
        alias = item.args.get("alias")
        columns = list((alias and alias.args.get("columns")) or [])
        if isinstance(item, exp.Unnest) and isinstance(item.args.get("offset"), exp.Identifier):
            columns.append(item.args["offset"])
        given = [f.name for f in generator.schema(lists, [])]
        if isinstance(item, exp.Unnest) and item.alias and not columns:
            given[0] = item.alias
        schema = generator.schema(lists, renamed(given, columns, item.alias, self._binder.text))
        scope.add(item.alias, schema, place)
        condition: Expression = TRUE
        if on is not None:
            condition = ExpressionBinder(self._binder, scope, "ON").condition(on)
        if kind == "left" and condition != TRUE:
            raise NotSupportedError(
                "a condition in ON of a left join with rows of an array",
                hint="write LEFT JOIN LATERAL (SELECT n FROM UNNEST(t.x) AS u(n) WHERE ..) AS v ON TRUE",
                place=place,
            )
        generator = replace(generator, outer=generator.outer or kind == "left")
        return UnnestedSource(left, tuple(lists), generator, condition)

    def _from_item(self, item: exp.Expr, scope: Scope, trailing: StreamWindow | None) -> Source:
        place = self._place(item)
        window = item.args.get(WINDOW) or trailing
        if isinstance(item, exp.Table):
            bound, name = self._binder.table(item)
            if (stamp := self._binder.timestamp_of(item)) is not None:
                self._stamps[(item.alias or name).lower()] = stamp.lower()
        elif isinstance(item, exp.Subquery):
            if isinstance(item.this, exp.Table | exp.Subquery) and _is_parenthesised_join(item):
                return self._parenthesised(item, scope, trailing)
            bound, name = self._binder.query(item.this), item.alias
        elif isinstance(item, exp.Values):
            bound, name = self._binder.query(item), item.alias
        elif isinstance(item, exp.Lateral):
            raise BindError("LATERAL stands behind another item of FROM", hint="leave the word out", place=place)
        else:
            raise refused_in_from(item, place)
        shown = f'"{name}"' if name else "the subquery"
        is_relation = bound.plan.kind == "relation" and window is None
        bound = self._binder.relation(bound, item, shown, window)
        if not is_relation:
            self._binder.check_descriptor(item, window)
            bound = self._binder.with_bounds(bound)
            if window is not None and window.args.get("descriptor") is not None:
                bound.hidden = 0  # Flink's table functions have the bounds among their columns
        alias = item.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            named = len(bound.names) - bound.hidden
            given = renamed(bound.names[:named], alias.args["columns"], alias.name, self._binder.text)
            bound.names = [*given, *bound.names[named:]]
        scope.add(
            item.alias or name,
            bound.schema,
            place,
            hidden=bound.hidden,
            without_bounds=bound.without_bounds,
            instant=self._binder.timestamp_of(item) if isinstance(item, exp.Table) else None,
        )
        plan: Source = bound.plan
        for join in item.args.get("joins") or []:
            plan = self._join(plan, join, scope, trailing)
        return plan

    def _parenthesised(self, item: exp.Subquery, scope: Scope, trailing: StreamWindow | None) -> Source:
        """(a JOIN b ON ..): the items keep their own names; an alias for all of them hides those."""
        if item.args.get(WINDOW) or item.alias:
            raise NotSupportedError(
                "a window or an alias on a join in parentheses",
                hint="write a subquery: (SELECT ... FROM a JOIN b ON ...)",
                place=self._place(item),
            )
        if scope.sources:
            # Positions inside the parentheses start at 0 and are moved behind what FROM already holds.
            inner = Scope(scope.parent)
            inner.outer = scope.outer  # what is taken from the query around is taken once for all of FROM
            plan = self._from_item(item.this, inner, trailing)
            scope.merged += [merged.moved(scope.width) for merged in inner.merged]
            for source in inner.sources:
                scope.add(
                    source.name,
                    source.schema,
                    self._place(item),
                    hidden=source.hidden,
                    without_bounds=source.without_bounds,
                )
        else:
            plan = self._from_item(item.this, scope, trailing)
        for join in item.args.get("joins") or []:
            plan = self._join(plan, join, scope, trailing)
        return plan

    def _join(self, left: Source, join: exp.Join, scope: Scope, trailing: StreamWindow | None) -> Source:
        place = self._place(join)
        scope.join(place)
        kind = _join_kind(join)
        if kind is None:
            words = " ".join(word for word in (join.method, join.side, join.kind) if word)
            raise NotSupportedError(f"{words.upper()} JOIN is not supported", hint=JOINS, place=place)
        before, merged = list(scope.sources), list(scope.merged)
        stamps = dict(self._stamps)
        if (generator := self._generator(join.this)) is not None:
            if join.method or join.args.get("using"):
                hint = "write CROSS JOIN, LEFT JOIN .. ON TRUE or a comma"
                raise NotSupportedError("USING, NATURAL or ASOF with rows of an array", hint=hint, place=place)
            return self._unnested(left, join.this, generator, scope, kind, join.args.get("on"))
        right: Source | LateralSource
        if isinstance(join.this, exp.Lateral):
            right = self._lateral(join.this, scope, kind)
        else:
            right = self._from_item(join.this, scope, trailing)
            if version := join.this.args.get("version"):
                right = as_of(left, right, version, stamps, self._place(version))
        added = scope.sources[len(before) :]
        sides = scope.part(before, merged), scope.part(added, [m for m in scope.merged if m not in merged])
        using = [identifier.name for identifier in join.args.get("using") or []]
        if join.method == "NATURAL":
            names = {name.lower() for name, _ in sides[1].columns(None, place)}
            using = [name for name, _ in sides[0].columns(None, place) if name.lower() in names]
        condition: Expression = TRUE
        if using:
            condition = _using(using, scope, sides, kind, place)
        elif join.args.get("on") is not None:
            condition = ExpressionBinder(self._binder, scope, "ON").condition(join.args["on"])
        if join.method == "ASOF" and not isinstance(right, LateralSource):
            near = join.args.get("match_condition")
            match = ExpressionBinder(self._binder, scope, "MATCH_CONDITION").condition(near) if near else TRUE
            return asof_join(left, right, kind, conjunction([*conjuncts(condition), *conjuncts(match)]), place)
        if kind in ("semi", "anti"):
            scope.forget(len(before))
        return joined(left, right, kind, condition, place)

    def _generator(self, item: exp.Expr) -> Generator | None:
        """What makes rows of a list where an item of FROM stands: UNNEST(x), explode(x), LATERAL explode(x)."""
        if isinstance(item, exp.Lateral) and isinstance(item.this, exp.Subquery):
            return None
        item.args.get("outer")
        return generator_of(item.this if isinstance(item, exp.Lateral | exp.Table) else item, self._binder.text)

    def _lateral(self, item: exp.Lateral, scope: Scope, kind: lo.JoinKind) -> LateralSource:
        """LATERAL (SELECT ..), which may use the columns of what stands before it in FROM."""
        place, query = self._place(item), item.this
        if kind not in ("inner", "left"):
            hint = "write JOIN LATERAL, LEFT JOIN LATERAL or a comma"
            raise NotSupportedError(f"a {kind} join with LATERAL", hint=hint, place=place)
        if not isinstance(query, exp.Subquery):
            shown = query.sql(dialect="spark")[:40]
            raise NotSupportedError(f"{shown} after LATERAL", hint="write LATERAL (SELECT ..)", place=place)
        block, operands = self._binder.bind_subquery(query.this, scope)
        alias = item.args.get("alias")
        names = renamed(block.names, (alias and alias.args.get("columns")) or [], item.alias, self._binder.text)
        schema = tuple(Field(name, value.type) for name, value in zip(names, block.select, strict=True))
        scope.add(item.alias, schema, place)
        return LateralSource(block, tuple(operands))

    def _place(self, node: exp.Expr) -> Place:
        return place_of(node, self._binder.text)


def _using(names: list[str], scope: Scope, sides: tuple[Scope, Scope], kind: lo.JoinKind, place: Place) -> Expression:
    """The condition of USING (names), each of which means one column from then on."""
    equalities = []
    for name in dict.fromkeys(name.lower() for name in names):
        left, right = (side.resolve(None, name, place) for side in sides)
        equalities.append(call("=", [left, right]))
        shown = next(known for known, _ in sides[0].columns(None, place) if known.lower() == name)
        if kind in ("semi", "anti"):
            scope.merge(shown, left, [left])
        else:
            value = call("coalesce", [left, right]) if kind == "full" else right if kind == "right" else left
            scope.merge(shown, value, [left, right])
    condition = equalities[0]
    for equality in equalities[1:]:
        condition = call("and", [condition, equality])
    return condition


def renamed(names: list[str], columns: list[Any], owner: str, text: str) -> list[str]:
    """The names that an alias gives, if it gives any: t(a, b)."""
    if not columns:
        return names
    if len(columns) != len(names):
        raise BindError(
            f'"{owner}" names {len(columns)} columns, but there are {len(names)}',
            place=place_of(columns[0], text),
        )
    return [column.name for column in columns]


def _is_parenthesised_join(item: exp.Subquery) -> bool:
    inner = item.this
    while isinstance(inner, exp.Subquery) and not inner.args.get("joins"):
        inner = inner.this
    return isinstance(inner, exp.Table | exp.Subquery)


def _join_kind(join: exp.Join) -> lo.JoinKind | None:
    side, kind = (join.side or "").upper(), (join.kind or "").upper()
    if join.method and join.method.upper() not in ("NATURAL", "ASOF"):
        return None
    if kind in ("SEMI", "ANTI") and side in ("", "LEFT"):
        return cast(lo.JoinKind, kind.lower())
    if kind in ("", "INNER", "CROSS", "OUTER") and side in ("", "LEFT", "RIGHT", "FULL"):
        return cast(lo.JoinKind, side.lower()) if side else "inner"
    return None
