"""Random windows over a stream with given columns; `scale` is how many ticks count as one."""

from __future__ import annotations

from collections.abc import Sequence

from tests.properties.dice import Dice
from tests.text_oracle.kinds import Column, Kind
from tests.text_oracle.windows import Window

_FORMS = (
    *("unbounded", "range", "range", "range", "range", "rows", "rows", "partition", "partition"),
    *(
        "now",
        "slide",
        "slide",
        "rows slide",
        "tumble",
        "hop",
        "session",
        "range on",
        "none",
        "partition slide",
        "begin end",
        "landmark",
    ),
)
_NUMBERS = (Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL)
_BOUNDED = ("range", "range", "now", "slide", "rows", "tumble", "hop", "begin end")


def window(dice: Dice, columns: Sequence[Column], scale: int = 1, *, bounded: bool = False) -> Window:
    """With `bounded`, mostly one that its elements leave again."""
    number = dice.number
    match dice.pick(_BOUNDED if bounded and dice.chance(75) else _FORMS):
        case "none":
            return Window("", "unbounded")
        case "unbounded":
            return Window(dice.pick(("[RANGE UNBOUNDED]", "[ROWS UNBOUNDED]")), "unbounded")
        case "now":
            return Window("[NOW]", "now")
        case "range":
            size = number(0, 6) * scale
            return Window(f"[RANGE {_size(size, scale)}]", "range", size)
        case "slide":
            size, slide = number(0, 8) * scale, number(1, 4) * scale
            return Window(f"[RANGE {_size(size, scale)} SLIDE {_size(slide, scale)}]", "range", size, slide)
        case "tumble":
            size = number(1, 4) * scale
            return Window(f"[TUMBLE {_size(size, scale)}]", "tumble", size)
        case "hop":
            size, slide = number(1, 8) * scale, number(1, 4) * scale
            return Window(f"[HOP {_size(size, scale)} SLIDE {_size(slide, scale)}]", "hop", size, slide)
        case "session":
            size, form = number(1, 4) * scale, dice.pick(("session", "complete"))
            by = sorted(set(dice.some(range(len(columns)), 0, 1)))
            listed = f" PARTITION BY {', '.join(columns[index].name for index in by)}" if by else ""
            complete = " COMPLETE" if form == "complete" else ""
            return Window(f"[SESSION {_size(size, scale)}{complete}{listed}]", form, size, partition=tuple(by))
        case "range on" if numbered := [n for n, column in enumerate(columns) if column.kind in _NUMBERS]:
            size, on = number(0, 4), dice.pick(numbered)
            by = sorted(set(dice.some(range(len(columns)), 0, 1)))
            listed = f"PARTITION BY {', '.join(columns[index].name for index in by)} " if by else ""
            text = f"[{listed}RANGE {size} ON {columns[on].name}]"
            return Window(text, "range on", size, partition=tuple(by), column=on)
        case "range on":
            return Window("[NOW]", "now")
        case "begin end" | "landmark" if scale > 1:
            age = number(0, 6) * scale
            return Window(f"[BEGIN {_ago(age, scale)} END NOW]", "begin end", begin_age=age)
        case "begin end":
            oldest = number(0, 6)
            if dice.chance(20):
                end = number(4, 9)
                return Window(f"[BEGIN {_ago(oldest)} END {end}]", "begin end", begin_age=oldest, end=end)
            newest = number(0, oldest)
            text = f"[BEGIN {_ago(oldest)} END {_ago(newest)}]"
            return Window(text, "begin end", begin_age=oldest, end_age=newest)
        case "landmark":
            begin = number(0, 5)
            if dice.chance(30):
                end = number(begin, 9)
                return Window(f"[BEGIN {begin} END {end}]", "begin end", begin=begin, end=end)
            age = dice.pick((0, 0, 2))
            return Window(f"[BEGIN {begin} END {_ago(age)}]", "begin end", begin=begin, end_age=age)
        case "rows":
            size = number(1, 4)
            return Window(f"[ROWS {size}]", "rows", size)
        case "rows slide":
            size, slide = number(1, 4), number(1, 3)
            return Window(f"[ROWS {size} SLIDE {slide}]", "rows", size, slide)
        case form:
            by = sorted(set(dice.some(range(len(columns)), 1, 2)))
            size, slide = number(1, 3), number(1, 2) if form == "partition slide" else 1
            listed = ", ".join(columns[index].name for index in by)
            slid = f" SLIDE {slide}" if form == "partition slide" else ""
            return Window(f"[PARTITION BY {listed} ROWS {size}{slid}]", "rows", size, slide, tuple(by))


def _size(ticks: int, scale: int) -> str:
    return str(ticks) if scale == 1 else f"{ticks // scale} SECONDS"


def _ago(ticks: int, scale: int = 1) -> str:
    return f"NOW - {_size(ticks, scale)}" if ticks else "NOW"
