"""NON RETROACTIVE joins by their definition, instant by instant, over a small algebra that says its own text.

A relation at t is a bag of (row, born): what is there, and since when it counts as generated.

    window                  a row is generated when it comes in
    σ, UNION ALL, ⋈         each copy keeps its own instant; a pair has the later one
    DISTINCT, UNION         the least s such that the row is there at every instant of [s, t]
    EXISTS, IN              the later of the row's own, and the least s such that a partner is there throughout [s, t]
    ⋈ N                     (row, born) meets N as of born
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

Row = tuple[int | None, int | None]
Copy = tuple[Row, int]  # and when it was generated
Element = tuple[Row, int]  # and its timestamp


@dataclass
class World:
    """Elements of streams in timestamp order, and the rows of the table at every instant."""

    streams: dict[str, list[Element]] = field(default_factory=dict)
    table: Callable[[int], list[Row]] = lambda _: []


class Plan(ABC):
    """All plans have two columns, x and v."""

    def __init__(self) -> None:
        self.at: Callable[[int, int], tuple[Copy, ...]] = cache(self._at)

    @property
    @abstractmethod
    def text(self) -> str: ...

    @abstractmethod
    def _at(self, world: int, t: int) -> tuple[Copy, ...]: ...

    def since(self, t: int, is_there: Callable[[int], bool]) -> int:
        """The first instant of the run of presence that t is in."""
        while t > 0 and is_there(t - 1):
            t -= 1
        return t


WORLDS: dict[int, World] = {}  # by number, so that answers can be remembered


class Windowed(Plan):
    """RANGE, NOW, ROWS, UNBOUNDED, SLIDE: (kind, size, slide)."""

    def __init__(self, stream: str, kind: str, size: int = 0, slide: int = 1) -> None:
        super().__init__()
        self.stream, self.kind, self.size, self.slide = stream, kind, size, slide

    @property
    def text(self) -> str:
        window = {
            "NOW": "[NOW]",
            "UNBOUNDED": "[RANGE UNBOUNDED]",
            "RANGE": f"[RANGE {self.size}]",
            "SLIDE": f"[RANGE {self.size} SLIDE {self.slide}]",
            "ROWS": f"[ROWS {self.size}]",
        }[self.kind]
        return f"SELECT x, v FROM {self.stream} {window}"

    def _at(self, world: int, t: int) -> tuple[Copy, ...]:
        elements = WORLDS[world].streams[self.stream]
        found = []
        for number, (row, ts) in enumerate(elements):
            start, end = ts, t + 1
            if self.kind == "NOW":
                end = ts + 1
            elif self.kind == "RANGE":
                end = ts + self.size + 1
            elif self.kind == "SLIDE":
                start = max(-(-ts // self.slide) * self.slide, self.slide - 1)
                end = ((ts + self.size) // self.slide + 1) * self.slide
            elif self.kind == "ROWS" and number + self.size < len(elements):
                end = elements[number + self.size][1]
            if start <= t < end:
                found.append((row, start))
        return tuple(found)


class Selected(Plan):
    def __init__(self, below: Plan, least: int) -> None:
        super().__init__()
        self.below, self.least = below, least

    @property
    def text(self) -> str:
        return f"SELECT x, v FROM ({self.below.text}) AS f WHERE v >= {self.least}"

    def _at(self, world: int, t: int) -> tuple[Copy, ...]:
        return tuple(copy for copy in self.below.at(world, t) if copy[0][1] is not None and copy[0][1] >= self.least)


class Joined(Plan):
    def __init__(self, left: Plan, right: Plan) -> None:
        super().__init__()
        self.left, self.right = left, right

    @property
    def text(self) -> str:
        return f"SELECT l.x, r.v FROM ({self.left.text}) AS l JOIN ({self.right.text}) AS r ON l.x = r.x"

    def _at(self, world: int, t: int) -> tuple[Copy, ...]:
        return tuple(
            ((one[0], other[1]), max(born, later))
            for one, born in self.left.at(world, t)
            for other, later in self.right.at(world, t)
            if one[0] is not None and one[0] == other[0]
        )


class United(Plan):
    """UNION ALL, or UNION."""

    def __init__(self, left: Plan, right: Plan, *, distinct: bool) -> None:
        super().__init__()
        self.left, self.right, self.distinct = left, right, distinct

    @property
    def text(self) -> str:
        left, right = (f"SELECT x, v FROM ({side.text}) AS s" for side in (self.left, self.right))
        return f"{left} UNION {'' if self.distinct else 'ALL '}{right}"

    def _at(self, world: int, t: int) -> tuple[Copy, ...]:
        if not self.distinct:
            return self.left.at(world, t) + self.right.at(world, t)

        def since(row: Row) -> int:
            return self.since(t, lambda s: row in self._rows(world, s))

        return tuple((row, since(row)) for row in self._rows(world, t))

    def _rows(self, world: int, t: int) -> set[Row]:
        return {row for side in (self.left, self.right) for row, _ in side.at(world, t)}


class Unique(Plan):
    """DISTINCT; of x alone where it is so, v being what it was compared with."""

    def __init__(self, below: Plan) -> None:
        super().__init__()
        self.below = below

    @property
    def text(self) -> str:
        return f"SELECT DISTINCT x, v FROM ({self.below.text}) AS u"

    def _at(self, world: int, t: int) -> tuple[Copy, ...]:
        def since(row: Row) -> int:
            return self.since(t, lambda s: row in self._rows(world, s))

        return tuple((row, since(row)) for row in self._rows(world, t))

    def _rows(self, world: int, t: int) -> set[Row]:
        return {row for row, _ in self.below.at(world, t)}


class Existing(Plan):
    """EXISTS by x, or by x and a comparison of v; or x IN."""

    def __init__(self, left: Plan, right: Plan, form: str) -> None:
        super().__init__()
        self.left, self.right, self.form = left, right, form

    @property
    def text(self) -> str:
        if self.form == "IN":
            return f"SELECT x, v FROM ({self.left.text}) AS e WHERE x IN (SELECT x FROM ({self.right.text}) AS p)"
        more = " AND p.v <= e.v" if self.form == "COMPARED" else ""
        partner = f"SELECT 1 FROM ({self.right.text}) AS p WHERE p.x = e.x{more}"
        return f"SELECT x, v FROM ({self.left.text}) AS e WHERE EXISTS ({partner})"

    def _at(self, world: int, t: int) -> tuple[Copy, ...]:
        found = []
        for row, born in self.left.at(world, t):
            if self._has_partner(world, row, t):
                since = self.since(t, lambda s, row=row: self._has_partner(world, row, s))  # type: ignore[misc]
                found.append((row, max(born, since)))
        return tuple(found)

    def _has_partner(self, world: int, row: Row, t: int) -> bool:
        return any(
            row[0] is not None
            and row[0] == other[0]
            and (self.form != "COMPARED" or (row[1] is not None and other[1] is not None and other[1] <= row[1]))
            for other, _ in self.right.at(world, t)
        )


def joined_text(plan: Plan) -> str:
    return f"SELECT d.x, d.v, N.n FROM ({plan.text}) AS d, N WHERE d.x = N.x"


def joined_at(plan: Plan, world: int, t: int) -> Counter[tuple[int | None, ...]]:
    """What the join with the table has at an instant."""
    found: Counter[tuple[int | None, ...]] = Counter()
    for row, born in plan.at(world, t):
        found.update((*row, n) for x, n in WORLDS[world].table(born) if x is not None and x == row[0])
    return found
