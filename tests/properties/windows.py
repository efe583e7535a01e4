"""Random windows over a stream with given columns."""

from __future__ import annotations

from collections.abc import Sequence

from tests.properties.dice import Dice
from tests.properties.inputs import HORIZON
from tests.properties.kinds import Column

_FORMS = (
    *("unbounded", "range", "range", "range", "range", "rows", "rows", "rows", "partition", "partition"),
    *("now", "slide", "slide", "rows slide", "tumble", "none", "partition slide", "begin end", "landmark"),
)
_TIME_FORMS = ("unbounded", "range", "range", "now", "slide", "tumble")


def window(dice: Dice, columns: Sequence[Column], *, time_only: bool = False) -> str:
    """In brackets, or nothing. Sizes are in ticks."""
    match dice.pick(_TIME_FORMS if time_only else _FORMS):
        case "none":
            return ""
        case "begin end":
            oldest = dice.number(0, 6)
            end = str(dice.number(4, HORIZON)) if dice.chance(20) else _ago(dice.number(0, oldest))
            return f"[BEGIN {_ago(oldest)} END {end}]"
        case "landmark":
            begin = dice.number(0, 5)
            end = str(dice.number(begin, HORIZON)) if dice.chance(30) else _ago(dice.pick((0, 0, 2)))
            return f"[BEGIN {begin} END {end}]"
        case "unbounded":
            return dice.pick(("[RANGE UNBOUNDED]", "[ROWS UNBOUNDED]"))
        case "now":
            return "[NOW]"
        case "range":
            return f"[RANGE {dice.number(0, 6)}]"
        case "slide":
            return f"[RANGE {dice.number(0, 8)} SLIDE {dice.number(1, 4)}]"
        case "tumble":
            return f"[TUMBLE {dice.number(1, 4)}]"
        case "rows":
            return f"[ROWS {dice.number(1, 4)}]"
        case "rows slide":
            return f"[ROWS {dice.number(1, 4)} SLIDE {dice.number(1, 3)}]"
        case "partition":
            return f"[PARTITION BY {_some(dice, columns)} ROWS {dice.number(1, 3)}]"
        case _:
            return f"[PARTITION BY {_some(dice, columns)} ROWS {dice.number(1, 3)} SLIDE {dice.number(1, 2)}]"


def _some(dice: Dice, columns: Sequence[Column]) -> str:
    return ", ".join(column.name for column in dict.fromkeys(dice.some(columns, 1, 2)))


def _ago(ticks: int) -> str:
    return f"NOW - {ticks}" if ticks else "NOW"
