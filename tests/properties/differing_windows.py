"""Random schedules of queries that differ in the sizes of their windows too."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from tests.properties.many_queries import ScheduleMaker
from tests.properties.patterns import Pattern
from tests.properties.skeletons import Skeleton
from tests.text_oracle.evaluator import Leaf, Query
from tests.text_oracle.kinds import Column
from tests.text_oracle.windows import Window


@dataclass
class WindowScheduleMaker(ScheduleMaker):
    """Queries that come one by one have windows of the kind that their skeleton has, of any size."""

    _resized: dict[tuple[int, str, str], Skeleton] = field(default_factory=dict)

    def _windowed(self, source: str, columns: tuple[Column, ...]) -> tuple[Leaf, str]:
        dice = self.dice
        form = dice.pick(("range", "range", "range", "slide", "tumble", "rows", "partition"))
        by = (dice.number(0, len(columns) - 1),) if form == "partition" else ()
        made = self._sized(Window("", form, partition=by), columns)
        return self._leaf(source, columns, made)

    def _sized(self, window: Window, columns: tuple[Column, ...]) -> Window:
        """A window of the same kind."""
        number = self.dice.number
        match window.form:
            case "range" if window.slide > 1:
                form = "slide"
            case "rows" if window.partition:
                form = "partition"
            case form:
                pass
        match form:
            case "range":
                size = number(0, 9)
                return Window(f"[RANGE {size}]", "range", size)
            case "slide":
                size, slide = number(0, 9), number(2, 4)
                return Window(f"[RANGE {size} SLIDE {slide}]", "range", size, slide)
            case "tumble":
                size = number(1, 6)
                return Window(f"[TUMBLE {size}]", "tumble", size)
            case "rows":
                size = number(1, 6)
                return Window(f"[ROWS {size}]", "rows", size)
            case _:
                size, by = number(1, 4), window.partition
                listed = ", ".join(columns[index].name for index in by)
                return Window(f"[PARTITION BY {listed} ROWS {size}]", "rows", size, 1, by)

    def _made(self, skeleton: Skeleton, condition: Pattern) -> Query:
        for leaf in skeleton.leaves:
            if leaf.window is not None and isinstance(leaf.source, str) and self.dice.chance(75):
                other, _ = self._leaf(leaf.source, leaf.columns, self._sized(leaf.window, leaf.columns))
                key = id(skeleton), leaf.name, other.name
                if key not in self._resized:
                    self._resized[key] = _with_leaf(skeleton, leaf, other)
                skeleton = self._resized[key]
                failures = tuple(_renamed(text, leaf, other) for text in condition.failures)
                condition = replace(condition, failures=failures)
        return super()._made(skeleton, condition)


def _with_leaf(skeleton: Skeleton, leaf: Leaf, other: Leaf) -> Skeleton:
    before, after = (f"{each.source} {each.window.text if each.window else ''}" for each in (leaf, other))
    leaves = tuple(dict.fromkeys(other if each == leaf else each for each in skeleton.leaves))
    return replace(
        skeleton,
        cql=skeleton.cql.replace(before, after),
        duck=_renamed(skeleton.duck, leaf, other),
        leaves=leaves,
        fails=skeleton.fails and _renamed(skeleton.fails, leaf, other),
    )


def _renamed(text: str, leaf: Leaf, other: Leaf) -> str:
    return re.sub(rf"\b{leaf.name}\b", other.name, text)
