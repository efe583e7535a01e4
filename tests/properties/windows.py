"""Random windows over a stream with given columns."""

from __future__ import annotations

from collections.abc import Sequence

from tests.properties.dice import Dice
from tests.properties.inputs import HORIZON
from tests.properties.kinds import Column

_FORMS = (
    *("unbounded", "range", "range", "range", "now", "rows", "rows", "partition", "slide", "rows slide", "tumble"),
    *("none", "partition slide", "begin end", "landmark"),
)


def window(dice: Dice, columns: Sequence[Column], *, time_only: bool = False) -> str:
    """In brackets, or nothing. Sizes are in ticks."""
    forms = ("unbounded", "range", "now", "slide", "tumble") if time_only else _FORMS
    form = dice.pick(forms)
    if form == "none":
        return ""
    if form == "begin end":
        return f"[BEGIN {_moving(dice)} END {dice.pick((_moving(dice), _fixed(dice)))}]"
    if form == "landmark":
        return f"[BEGIN {_fixed(dice)} END {dice.pick((_moving(dice), _fixed(dice)))}]"
    size = dice.number(1, 4)
    by = ", ".join(column.name for column in dict.fromkeys(dice.some(columns, 1, 2)))
    texts = {
        "unbounded": dice.pick(("RANGE UNBOUNDED", "ROWS UNBOUNDED")),
        "now": "NOW",
        "range": f"RANGE {size * 2 - 2}",
        "slide": f"RANGE {size * 2 - 2} SLIDE {dice.number(1, 5)}",
        "tumble": f"TUMBLE {size}",
        "rows": f"ROWS {size}",
        "rows slide": f"ROWS {size} SLIDE {dice.number(1, 4)}",
        "partition": f"PARTITION BY {by} ROWS {size}",
        "partition slide": f"PARTITION BY {by} ROWS {size} SLIDE {dice.number(1, 3)}",
    }
    return f"[{texts[form]}]"


def _moving(dice: Dice) -> str:
    return f"NOW - {dice.number(1, 6)}" if dice.chance(70) else "NOW"


def _fixed(dice: Dice) -> str:
    return str(dice.number(0, HORIZON))
