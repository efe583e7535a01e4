"""Random schedules of queries that differ in how many of the first rows they want, among others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.properties.many_queries import ScheduleMaker
from tests.properties.patterns import Pattern
from tests.properties.skeletons import S, Skeleton
from tests.text_oracle.kinds import Column, Kind, same

_LIMITS = (0, 1, 1, 2, 2, 3, 4, 5, 7, 12, 1_500)
_LIMIT = "limit"


@dataclass
class LimitScheduleMaker(ScheduleMaker):
    """Of rows, of groups, or of what has an aggregate or a stream made of it."""

    def _value(self, kind: Kind | str, *, nulls: bool = True, most: int | None = None) -> Any:
        if kind != _LIMIT:
            return super()._value(kind, nulls=nulls, most=most)
        return self.dice.pick([limit for limit in _LIMITS if most is None or limit <= most])

    def _skeleton(self) -> Skeleton:
        dice = self.dice
        leaf, cql = self._windowed("S", S)
        offset = dice.pick(("", "", " OFFSET 1", " OFFSET 3"))
        down = dice.pick(("NULLS FIRST", "DESC NULLS LAST"))
        scope = [Column(f"r.{column.name}", column.kind) for column in S]
        operator, form = None, dice.pick(("rows", "rows", "stream", "groups", "above", "labelled"))
        listed: Sequence[tuple[str, Kind]] = (("r.a", Kind.INTEGER), ("r.b", Kind.INTEGER), ("r.c", Kind.STRING))
        grouping, order = "", f"r.b {down}, r.a NULLS FIRST, r.c NULLS FIRST"
        if form == "groups":
            listed = (("r.c", Kind.STRING), ("COUNT(*)", Kind.INTEGER), ("SUM(r.a)", Kind.INTEGER))
            grouping, order = " GROUP BY r.c", f"COUNT(*) {down}, r.c NULLS FIRST"
        own = Pattern(same("§0§"), (Kind.STRING,)) if form == "labelled" else Pattern(same(""))
        head = ", ".join(f"{text} AS c{number}" for number, (text, _) in enumerate(listed))
        if form == "labelled":
            head, listed = f"{head}, {{own}} AS c3", (*listed, ("", Kind.STRING))
        columns = tuple(Column(f"c{number}", kind) for number, (_, kind) in enumerate(listed))
        rest = [f" FROM {name} AS r WHERE {{}}{grouping} ORDER BY {order}{{having}}" for name in (cql, leaf.name)]
        texts = [f"SELECT {head}{rest[0]}", f"SELECT {head}{rest[1]}"]
        if form == "stream":
            operator = dice.pick(("ISTREAM", "DSTREAM", "RSTREAM"))
            texts[0] = f"SELECT {operator}(y.c0, y.c1, y.c2) FROM ({texts[0]}) AS y"
        if form == "above":
            texts = [f"SELECT y.c2 AS c0, COUNT(*) AS c1 FROM ({text}) AS y GROUP BY y.c2" for text in texts]
            columns = Column("c0", Kind.STRING), Column("c1", Kind.INTEGER)
        limit = Pattern(same(f" LIMIT §0§{offset}"), (_LIMIT,))
        is_fixed = dice.chance(75)  # they differ in nothing else
        cql, duck = texts
        return Skeleton(cql, duck, tuple(scope), columns, (leaf,), operator, own=own, having=limit, is_fixed=is_fixed)

    def _query(self) -> Any:
        skeleton = self.dice.pick(self._skeletons)
        return self._made(skeleton, self._shape(skeleton))
