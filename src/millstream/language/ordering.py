"""Binds ORDER BY, LIMIT, OFFSET and FETCH."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from millstream.errors import BindError, NameError, NotSupportedError, Place
from millstream.kernel.ordering.sort_keys import SortKey
from millstream.kernel.ordering.top import Places
from millstream.kernel.scalar.expressions import Expression
from millstream.language.blocks import OrderItem
from millstream.language.refusals import WITHOUT_VALUE
from millstream.language.syntax import place_of
from millstream.types import NULL

_MOST = 1 << 60  # rows

# What binds an item of ORDER BY, given the names that the select list has for expressions.
ItemBinder = Callable[[exp.Expr, Mapping[str, Expression]], Expression]


@dataclass(frozen=True)
class OrderClauses:
    """ORDER BY, LIMIT, OFFSET and FETCH of a query."""

    query: exp.Expr
    text: str

    def places(self) -> Places | None:
        """Which rows are wanted; None where all are."""
        limit, offset = self.query.args.get("limit"), self.query.args.get("offset")
        skipped = self._number(offset.args["expression"], "OFFSET") if offset is not None else 0
        if isinstance(limit, exp.Fetch):
            return self._fetched(limit, skipped)
        if limit is None or _is_all(limit.args["expression"]):
            return Places(None, skipped) if skipped else None
        if limit.args.get("offset") is not None:
            raise NotSupportedError("LIMIT with a comma", hint="write LIMIT n OFFSET m", place=self._place(limit))
        return Places(self._number(limit.args["expression"], "LIMIT"), skipped)

    def _fetched(self, fetch: exp.Fetch, skipped: int) -> Places:
        fetch.args.get("direction")  # FIRST and NEXT mean the same
        count, options = fetch.args.get("count"), fetch.args.get("limit_options")
        with_ties = False
        if options is not None:
            options.args.get("rows")
            with_ties = bool(options.args.get("with_ties"))
            if options.args.get("percent"):
                raise NotSupportedError("FETCH .. PERCENT", hint="give a number of rows", place=self._place(fetch))
        rows = 1 if count is None else self._number(count, "FETCH")
        if with_ties and not self.query.args.get("order"):
            raise BindError("WITH TIES without ORDER BY", hint="say by what rows tie", place=self._place(fetch))
        return Places(rows, skipped, with_ties)

    def _number(self, node: exp.Expr, clause: str) -> int:
        place = self._place(node)
        if isinstance(node, exp.Placeholder):
            raise BindError(
                f"{clause} of a parameter (?) without a value",
                hint=WITHOUT_VALUE,
                place=place,
            )
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and int(node.name) <= _MOST:
            return int(node.name)
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            raise BindError(f"{clause} {node.name} is too many", hint="it is at most 2^60", place=place)
        raise BindError(f"{clause} takes a number of rows", hint=f"as in {clause} 10", place=place)

    def items(self, select: Sequence[Expression], names: Sequence[str], bind: ItemBinder) -> list[OrderItem]:
        """By what rows are ordered; columns of the select list go by name or number, all else is bound."""
        order = self.query.args.get("order")
        if order is None:
            return []
        known = _by_name(select, names)
        found: list[OrderItem] = []
        for item in order.expressions:
            node, descending = item.this, bool(item.args.get("desc"))
            first = bool(item.args.get("nulls_first"))
            if _is_all(node):
                found += [OrderItem(each, descending, first) for each in select]
                continue
            found.append(OrderItem(self._bound(node, select, known, bind), descending, first))
        for each in found:
            if each.expression.type == NULL:
                raise BindError("ORDER BY NULL orders nothing", place=self._place(order))
        return found

    def _bound(
        self, node: exp.Expr, select: Sequence[Expression], known: Mapping[str, Expression | None], bind: ItemBinder
    ) -> Expression:
        if isinstance(node, exp.Literal) and not node.is_string:
            if not node.name.isdigit() or not 1 <= int(node.name) <= len(select):
                raise BindError(f"ORDER BY {node.name}: the select list has no such column", place=self._place(node))
            return select[int(node.name) - 1]
        for column in node.find_all(exp.Column):
            if not column.table and known.get(column.name.lower(), column) is None:
                raise NameError(
                    f'"{column.name}" is ambiguous',
                    detail="the select list has it twice",
                    hint="order by its number, as in ORDER BY 1",
                    place=self._place(column),
                )
        return bind(node, {name: each for name, each in known.items() if each is not None})

    def check(self, order: Sequence[OrderItem], places: Places | None, *, outermost: bool, ad_hoc: bool) -> None:
        """Refuse LIMIT without ORDER BY, which means any rows: good enough for a look, and for no answer that stands;
        and ORDER BY of what is no answer by itself."""
        if places is not None and not order and not ad_hoc:
            raise BindError(
                "LIMIT without ORDER BY",
                detail="it does not say which rows are wanted, and a standing query has to know",
                hint="write ORDER BY .. LIMIT n; the last rows that came are FROM s [ROWS n]",
                place=self._place(self.query.args.get("limit") or self.query.args["offset"]),
            )
        if places is None and order and not outermost:
            raise BindError(
                "ORDER BY without LIMIT inside of a query",
                detail="relations are bags: only an answer that is read has an order",
                hint="add LIMIT n, or leave it out here and order the outermost query",
                place=self._place(self.query.args["order"]),
            )

    def refuse_of_stream(self) -> None:
        raise BindError(
            "ORDER BY of a stream",
            detail="streams are in the order of time",
            hint="leave it out, or add LIMIT n: then it belongs to the relation below the stream",
            place=self._place(self.query.args["order"]),
        )

    def hidden(self, detail: str) -> BindError:
        return BindError(
            "ORDER BY what is not in the select list",
            detail=detail,
            hint="add it to the select list",
            place=self._place(self.query.args["order"]),
        )

    def _place(self, node: exp.Expr) -> Place:
        return place_of(node, self.text)


def keys_of(order: Sequence[OrderItem], places: Mapping[Expression, int]) -> tuple[SortKey, ...]:
    """Keys by the places where their expressions are."""
    return tuple(SortKey(places[item.expression], item.descending, item.nulls_first) for item in order)


def shown_order(order: Sequence[OrderItem], select: Sequence[Expression]) -> tuple[SortKey, ...] | None:
    """How an answer is sorted that has the columns of a select list; None where they do not say."""
    places = {expression: place for place, expression in reversed([*enumerate(select)])}
    return keys_of(order, places) if all(item.expression in places for item in order) else None


def has_order(query: exp.Expr) -> bool:
    return any(query.args.get(clause) is not None for clause in ("order", "limit", "offset"))


def _by_name(select: Sequence[Expression], names: Sequence[str]) -> dict[str, Expression | None]:
    """The items of the select list by their names, None where these mean different things."""
    found: dict[str, Expression | None] = {}
    for name, each in zip(names, select, strict=True):
        key = name.lower()
        found[key] = each if found.get(key, each) == each else None
    return found


def _is_all(node: exp.Expr) -> bool:
    return isinstance(node, exp.Var) and node.name.upper() == "ALL"
