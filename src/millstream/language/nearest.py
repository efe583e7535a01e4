"""Joins that say which version or which partner of a row is meant: ASOF JOIN and FOR SYSTEM_TIME AS OF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from sqlglot import exp

from millstream.errors import BindError, NotSupportedError, Place
from millstream.kernel.joins.asof import Nearest
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import Call, Expression, columns_used, conjuncts, shift_columns
from millstream.kernel.windows.time import Now, Range, Rows, Unbounded
from millstream.language.blocks import Source
from millstream.language.scope import OuterColumn
from millstream.plan import nodes as lo
from millstream.plan.algebra.outer_joins import columns

_TURNED: dict[str, Nearest] = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}
_FORM = "write ON a.k = b.k AND a.t >= b.t"


def asof_join(left: Source, right: Source, kind: lo.JoinKind, condition: Expression, place: Place) -> lo.Node:
    """ASOF JOIN: ON has equalities and one comparison that says what is near."""
    if kind not in ("inner", "left"):
        raise NotSupportedError(f"a {kind} ASOF join", hint="write ASOF JOIN or ASOF LEFT JOIN", place=place)
    if not isinstance(left, lo.Node) or not isinstance(right, lo.Node):
        raise NotSupportedError(
            "ASOF JOIN behind LATERAL or subqueries in ON", hint="put these into a subquery in FROM", place=place
        )
    sides = _Sides(left, right)
    keys: list[tuple[int, int]] = []
    nearest: list[tuple[int, Nearest, int]] = []
    for part in conjuncts(condition):
        found = _compared(part, len(left.schema))
        if found is None:
            raise NotSupportedError(
                f"{part} in ON of an ASOF JOIN",
                detail="it takes equalities of the two sides, and one comparison by >=, >, <= or <",
                hint="put other conditions into a subquery: ASOF JOIN (SELECT .. WHERE ..) AS b ON ..",
                place=place,
            )
        own, operator, other = found
        if operator == "=":
            keys.append(sides.places(own, other))
        else:
            one, two = sides.places(own, other)
            nearest.append((one, cast(Nearest, operator), two))
    if len(nearest) != 1:
        raise BindError(
            f"an ASOF JOIN has one comparison by >=, >, <= or <, not {len(nearest)}", hint=_FORM, place=place
        )
    return sides.joined(tuple(dict.fromkeys(keys)), nearest[0], outer=kind == "left")


class _Sides:
    """The two sides, with a column for each expression that is compared."""

    def __init__(self, left: lo.Node, right: lo.Node) -> None:
        self._plans = (left, right)
        self._columns: tuple[list[Expression], list[Expression]] = [*columns(left.schema)], [*columns(right.schema)]

    def places(self, own: Expression, other: Expression) -> tuple[int, int]:
        return self._place(0, own), self._place(1, other)

    def _place(self, side: int, value: Expression) -> int:
        known = self._columns[side]
        if value not in known:
            known.append(value)
        return known.index(value)

    def joined(self, keys: tuple[tuple[int, int], ...], nearest: tuple[int, Nearest, int], *, outer: bool) -> lo.Node:
        plans = [self._with_columns(plan, known) for plan, known in zip(self._plans, self._columns, strict=True)]
        join = lo.AsofJoin(plans[0], plans[1], keys, nearest, outer)
        widths = [len(plan.schema) for plan in self._plans]
        shown = columns(join.schema)
        kept = (*shown[: widths[0]], *shown[len(plans[0].schema) :][: widths[1]])
        if len(kept) == len(shown):
            return join
        return lo.Project(join, kept, tuple(column.name for column in kept), role="within")

    def _with_columns(self, plan: lo.Node, known: Sequence[Expression]) -> lo.Node:
        if len(known) == len(plan.schema):
            return plan
        names = [field.name for field in plan.schema]
        names += [str(expression) for expression in known[len(names) :]]
        return lo.Project(plan, tuple(known), tuple(names), role="within")


def _compared(part: Expression, width: int) -> tuple[Expression, str, Expression] | None:
    """(of the left, operator, of the right), each over its own side."""
    plain = isinstance(part, Call) and part.function in ("=", *_TURNED)
    if not plain or any(isinstance(node, OuterColumn) for node in part.walk()) or can_fail(part):
        return None
    one, other = part.children
    operator = cast(Call, part).function
    used = [columns_used(side) for side in (one, other)]
    if not all(used):
        return None
    if all(index >= width for index in used[0]):
        one, other, used, operator = other, one, used[::-1], _TURNED.get(operator, operator)
    if not all(index < width for index in used[0]) or not all(index >= width for index in used[1]):
        return None
    return one, operator, shift_columns(other, -width)


def as_of(left: Source, right: Source, version: exp.Expr, stamps: Mapping[str, str], place: Place) -> lo.Node:
    """FOR SYSTEM_TIME AS OF s.ts: the table as of the instant of the stream's element, as if it were NON RETROACTIVE.
    `stamps` has the timestamps of the streams to the left by the names of these."""
    hint = "write FROM s [NOW] JOIN t FOR SYSTEM_TIME AS OF s.ts ON .., ts being the timestamp of the stream s"
    if not isinstance(right, lo.TableScan):
        raise NotSupportedError("FOR SYSTEM_TIME AS OF is for tables", hint=hint, place=place)
    windows = [node.window for node in left.walk() if isinstance(node, lo.Window)] if isinstance(left, lo.Node) else []
    if len(windows) != 1 or not _is_stamp(version, stamps):
        raise NotSupportedError(
            "FOR SYSTEM_TIME AS OF takes the timestamp of the one stream to the left of the table",
            detail="the table is joined as of the instants at which elements come; "
            "for the answer at another instant ask for it: q.result(at=..)",
            hint=hint,
            place=place,
        )
    slides = isinstance(windows[0], Range | Rows) and windows[0].slide != 1
    if slides or not isinstance(windows[0], Now | Range | Rows | Unbounded):
        raise NotSupportedError(
            "FOR SYSTEM_TIME AS OF with a window whose rows do not come when their elements do",
            hint="join the table with s [NOW] or s [RANGE ..] first, or declare it NON RETROACTIVE",
            place=place,
        )
    return replace(right, nature="NON RETROACTIVE")


def _is_stamp(version: exp.Expr, stamps: Mapping[str, str]) -> bool:
    named = version.args.get("expression")
    if version.name != "TIMESTAMP" or version.args.get("kind") != "AS OF" or not isinstance(named, exp.Column):
        return False
    tables = [named.table.lower()] if named.table else list(stamps)
    return len(tables) == 1 and stamps.get(tables[0]) == named.name.lower()
