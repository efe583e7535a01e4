"""Expressions that fail on some rows, in three texts: as CQL; for DuckDB a value that is computed on every row; and
for DuckDB whether it fails there, by DESIGN's section 2a. DuckDB itself does not follow that, so it never meets one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.properties.dice import Dice
from tests.text_oracle.kinds import Column, Kind

Scope = Sequence[Column]


@dataclass(frozen=True)
class Risky:
    """`fails` is true or false and never NULL; where it is true, `value` is any."""

    cql: str
    value: str
    fails: str = "FALSE"


def verdict(conditions: Sequence[Risky]) -> tuple[str, str]:
    """Whether the conditions of a block, which are one AND, keep a row, and whether they fail on it: one that is false
    or NULL hides what fails in others."""
    if not conditions:
        return "TRUE", "FALSE"
    kept = " AND ".join(f"(NOT {c.fails} AND ({c.value}) IS TRUE)" for c in conditions)
    undecided = " AND ".join(f"({c.fails} OR ({c.value}) IS TRUE)" for c in conditions)
    return kept, f"({undecided} AND ({any_fails(conditions)}))"


def any_fails(parts: Sequence[Risky]) -> str:
    return " OR ".join(part.fails for part in parts) or "FALSE"


def number(dice: Dice, scope: Scope, depth: int = 1) -> Risky:
    numbers = [c.name for c in scope if c.kind is Kind.INTEGER]
    if depth < 0 or dice.chance(35):
        text = dice.pick(numbers) if numbers and dice.chance(80) else dice.pick(("1", "0", "2", "(-1)"))
        return Risky(text, text)
    strings = [c.name for c in scope if c.kind is Kind.STRING]
    x, y = number(dice, scope, depth - 1), number(dice, scope, depth - 1)
    match dice.pick(("/", "/", "/", "%", "+", "-", "cast", "tiny", "overflow", "coalesce", "case", "if", "nullif")):
        case "/" | "%" as operator:
            by = "//" if operator == "/" else "%"
            zero = f"COALESCE({x.value} IS NOT NULL AND {y.value} = 0, FALSE)"
            value = f"CASE WHEN {y.value} <> 0 THEN {x.value} {by} {y.value} END"
            return Risky(f"({x.cql} {operator} {y.cql})", f"({value})", f"({x.fails} OR {y.fails} OR {zero})")
        case "+" | "-" as operator:
            value = f"({x.value} {operator} {y.value})"
            return Risky(f"({x.cql} {operator} {y.cql})", value, f"({x.fails} OR {y.fails})")
        case "cast" if strings:
            text = dice.pick(strings)
            value = f"TRY_CAST({text} AS INT)"
            return Risky(f"CAST({text} AS INT)", value, f"({text} IS NOT NULL AND {value} IS NULL)")
        case "tiny" | "cast":
            fits = f"COALESCE({x.value} * 100 BETWEEN -128 AND 127, TRUE)"
            return Risky(f"CAST({x.cql} * 100 AS TINYINT)", f"({x.value} * 100)", f"({x.fails} OR NOT {fits})")
        case "overflow":
            cql = f"((CAST({x.cql} AS INT) + 2147483647) % 3)"
            value = f"((CAST({x.value} AS BIGINT) + 2147483647) % 3)"
            return Risky(cql, value, f"({x.fails} OR COALESCE({x.value} > 0, FALSE))")
        case "coalesce":
            fails = f"({x.fails} OR ({x.value} IS NULL AND {y.fails}))"
            return Risky(f"COALESCE({x.cql}, {y.cql})", f"COALESCE({x.value}, {y.value})", fails)
        case "nullif":
            return Risky(f"NULLIF({x.cql}, {y.cql})", f"NULLIF({x.value}, {y.value})", f"({x.fails} OR {y.fails})")
        case form:
            c = condition(dice, scope, depth - 1)
            chosen = f"CASE WHEN ({c.value}) IS TRUE THEN {x.fails} ELSE {y.fails} END"
            cql = f"CASE WHEN {c.cql} THEN {x.cql} ELSE {y.cql} END"
            if form == "if":
                cql = f"if({c.cql}, {x.cql}, {y.cql})"
            value = f"(CASE WHEN {c.value} THEN {x.value} ELSE {y.value} END)"
            return Risky(cql, value, f"({c.fails} OR {chosen})")


def condition(dice: Dice, scope: Scope, depth: int = 1) -> Risky:
    """One conjunct: neither an AND, nor what might be read as one."""
    form = (
        dice.pick(("compare", "compare", "compare", "or", "in", "null", "not", "and in or")) if depth > 0 else "compare"
    )
    if form in ("or", "and in or"):
        parts = [condition(dice, scope, 0) for _ in range(2)]
        if form == "and in or":
            parts[0] = _logic("AND", parts[0], condition(dice, scope, 0))
        return _logic("OR", *parts)
    x = number(dice, scope, depth)
    if form == "null":
        negated = dice.pick(("", "NOT "))
        return Risky(f"({x.cql} IS {negated}NULL)", f"({x.value} IS {negated}NULL)", x.fails)
    if form == "in":
        return _in(x, [number(dice, scope, 0) for _ in range(2)])
    y, operator = number(dice, scope, depth - 1), dice.pick(("=", "<>", "<", ">", ">="))
    compared = f"({x.cql} {operator} {y.cql})", f"({x.value} {operator} {y.value})"
    found = Risky(*compared, f"({x.fails} OR {y.fails})")
    return Risky(f"(NOT {found.cql})", f"(NOT {found.value})", found.fails) if form == "not" else found


def _logic(operator: str, one: Risky, other: Risky) -> Risky:
    decides = "TRUE" if operator == "OR" else "FALSE"
    undecided = " AND ".join(f"({part.fails} OR ({part.value}) IS NOT {decides})" for part in (one, other))
    fails = f"(({one.fails} OR {other.fails}) AND {undecided})"
    return Risky(f"({one.cql} {operator} {other.cql})", f"({one.value} {operator} {other.value})", fails)


def _in(x: Risky, options: Sequence[Risky]) -> Risky:
    """An OR of equalities."""
    listed, values = ", ".join(o.cql for o in options), ", ".join(o.value for o in options)
    hit = " OR ".join(f"(NOT {o.fails} AND ({x.value} = {o.value}) IS TRUE)" for o in options)
    fails = f"({x.fails} OR (({any_fails(options)}) AND NOT ({hit})))"
    return Risky(f"({x.cql} IN ({listed}))", f"({x.value} IN ({values}))", fails)
