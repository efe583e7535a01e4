"""Texts with places for constants, which queries of a set fill in differently."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.properties.dice import Dice
from tests.text_oracle.expressions import condition
from tests.text_oracle.kinds import Column, Kind, Text, same, written

TYPES = {Kind.INTEGER: same("INT"), Kind.STRING: Text("STRING", "VARCHAR"), Kind.BOOLEAN: same("BOOLEAN")}
TYPES[Kind.DOUBLE] = same("DOUBLE")
ORDERS = ("=", "<>", "<", "<=", ">", ">=")
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Pattern:
    """A text with slots (§0§, §1§, ...) for constants of some kinds."""

    text: Text
    kinds: tuple[Kind | str, ...] = ()
    failures: tuple[str, ...] = ()
    words: Text | None = None  # the same in other words, if there are some

    @property
    def other(self) -> Text:
        return self.words or self.text

    def said(self, words: str) -> Pattern:
        return replace(self, words=same(words))

    def shifted(self, by: int) -> Pattern:
        def moved(text: str) -> str:
            return re.sub(r"§(\d+)§", lambda found: f"§{int(found[1]) + by}§", text)

        words = None if self.words is None else Text(*map(moved, self.words))
        return Pattern(Text(*map(moved, self.text)), self.kinds, tuple(map(moved, self.failures)), words)


NOTHING = Pattern(Text("", ""))


def filled(pattern: Text, constants: Sequence[Text]) -> Text:
    return Text(
        re.sub(r"§(\d+)§", lambda found: constants[int(found[1])].cql, pattern.cql),
        re.sub(r"§(\d+)§", lambda found: constants[int(found[1])].duck, pattern.duck),
    )


def constant(value: Any, kind: Kind | str) -> Text:
    if value is None:
        name = "STRING" if isinstance(kind, str) else TYPES[kind].cql
        return Text(f"CAST(NULL AS {name})", f"CAST(NULL AS {name.replace('STRING', 'VARCHAR')})")
    if isinstance(value, float):
        quoted = f"CAST('{value!r}' AS DOUBLE)"
        return same(quoted) if not math.isfinite(value) else Text(f"{value!r}E0", quoted)
    return written(value)


def both(cql: str, duck: str | None = None, *kinds: Kind | str) -> Pattern:
    return Pattern(Text(cql, duck or cql), kinds)


@dataclass
class Shapes:
    """Conditions of any shape over columns: comparisons, IN, BETWEEN, LIKE, IS NULL, OR, NOT, arithmetic."""

    dice: Dice
    scope: Sequence[Column]

    def shape(self, depth: int = 2) -> Pattern:
        dice = self.dice
        if depth == 0 or dice.chance(35):
            return self._atom()
        if dice.chance(15):
            inner = self.shape(depth - 1)
            return replace(inner, text=same("NOT (") + inner.text + ")", words=same("NOT (") + inner.other + ")")
        found = self.shape(depth - 1)
        for _ in range(dice.pick((1, 1, 2))):
            other = self.shape(depth - 1).shifted(len(found.kinds))
            word = dice.pick((" AND ", " AND ", " OR "))
            text = same("(") + found.text + word + other.text + ")"
            words = same("(") + other.other + word + found.other + ")"
            found = Pattern(text, (*found.kinds, *other.kinds), words=words)
        return found

    def _of(self, kind: Kind) -> list[str]:
        return [column.name for column in self.scope if column.kind is kind]

    def _atom(self) -> Pattern:
        dice = self.dice
        if dice.chance(20):
            return Pattern(condition(dice, self.scope, 2))
        column = dice.pick(self.scope)
        name, kind = column.name, column.kind
        forms = ["compare"] * 3 + ["in", "between", "null", "not null", "distinct"]
        if kind is Kind.BOOLEAN:
            forms = ["self", "not self", "null", "compare"]
        if kind is Kind.STRING:
            forms += ["like", "like", "not like"]
        if kind is Kind.INTEGER:
            forms += ["sum", "modulo", "columns", "times"]
        negated = dice.pick(("", "", "NOT "))
        match dice.pick(forms):
            case "compare":
                order = dice.pick(ORDERS)
                return both(f"{name} {order} §0§", None, kind).said(f"§0§ {_TURNED[order]} {name}")
            case "in":
                found = both(f"{name} {negated}IN (§0§, §1§, §2§)", None, kind, kind, kind)
                return found.said(f"{negated}({name} = §2§ OR {name} = §0§ OR {name} = §1§)")
            case "between":
                found = both(f"{name} {negated}BETWEEN §0§ AND §1§", None, kind, kind)
                return found.said(f"{negated}({name} <= §1§ AND {name} >= §0§)")
            case "null":
                return both(f"{name} IS NULL")
            case "not null":
                return both(f"{name} IS NOT NULL").said(f"NOT {name} IS NULL")
            case "distinct":
                return both(f"{name} <=> §0§", f"{name} IS NOT DISTINCT FROM §0§", kind)
            case "self":
                return both(name)
            case "not self":
                return both(f"NOT {name}")
            case "like":
                return both(f"{name} LIKE §0§", None, "pattern")
            case "not like":
                return both(f"{name} NOT LIKE §0§", None, "pattern")
            case "sum":
                other = dice.pick(self._of(Kind.INTEGER))
                return both(f"{name} + {other} {dice.pick(ORDERS)} §0§", None, Kind.INTEGER)
            case "modulo":
                return both(f"{name} % 3 = §0§", None, Kind.INTEGER)
            case "times":
                return both(f"{name} * 2 - §0§ < §1§", None, Kind.INTEGER, Kind.INTEGER)
            case _:
                return both(f"{name} {dice.pick(ORDERS)} {dice.pick(self._of(Kind.INTEGER))}")
