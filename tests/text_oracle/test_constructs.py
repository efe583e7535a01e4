"""Every construct by itself, over rows with all kinds of values, in the select list and, if it is a test, in WHERE."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.properties.dice import SeededDice
from tests.text_oracle.aggregates import AGGREGATES, ORDERED
from tests.text_oracle.driver import Asked
from tests.text_oracle.kinds import CONSTANTS, TYPES, VALUES, Kind, Text, filled, same
from tests.text_oracle.known import is_known
from tests.text_oracle.lists import LIST_AGGREGATES, LISTS
from tests.text_oracle.scalars import CONSTRUCTS, Construct

COLUMNS = [(f"{kind.value}_{number}", kind) for kind in TYPES for number in (1, 2)]


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    """A stream with two columns of each kind, in Millstream and in DuckDB."""
    dice = SeededDice(16)
    rows = [(n, *(dice.pick(VALUES[kind]) for _, kind in COLUMNS)) for n in range(60)]
    declared = [("k", same("INT")), *((name, TYPES[kind][0]) for name, kind in COLUMNS)]
    subject = Asked(declared, rows)
    yield subject
    subject.close()


def _written(construct: Construct, seed: int) -> Text:
    dice = SeededDice(seed)
    return filled(construct.text, *(_argument(dice, kind) for kind in construct.arguments))


def _argument(dice: SeededDice, kind: Kind) -> Text:
    if kind is Kind.INTERVAL:
        return same("(timestamp_1 - timestamp_2)")
    columns = [name for name, other in COLUMNS if other is (Kind.DOUBLE if kind is Kind.REAL else kind)]
    return dice.pick(CONSTANTS[kind]) if dice.chance(20) else same(dice.pick(columns))


def _chunks(constructs: tuple[Construct, ...]) -> list[tuple[Construct, ...]]:
    return [constructs[start : start + 40] for start in range(0, len(constructs), 40)]


@pytest.mark.parametrize("constructs", _chunks((*CONSTRUCTS, *LISTS)), ids=lambda chunk: str(chunk[0]))
def test_scalars(asked: Asked, constructs: tuple[Construct, ...]) -> None:
    for number, construct in enumerate(constructs):
        if is_known(construct.text.cql):
            continue
        text = _written(construct, number)
        asked.check(same("SELECT k, ") + text + " AS c FROM S")
        if construct.result is Kind.BOOLEAN:
            asked.check(same("SELECT k FROM S WHERE ") + text)
            asked.check(same("SELECT k FROM S WHERE NOT (") + text + ")")
            asked.check(same("SELECT k FROM S WHERE k < 50 AND (") + text + " OR k > 40)")


@pytest.mark.parametrize(
    "constructs", _chunks((*AGGREGATES, *LIST_AGGREGATES, *ORDERED)), ids=lambda chunk: str(chunk[0])
)
def test_aggregates(asked: Asked, constructs: tuple[Construct, ...]) -> None:
    for number, construct in enumerate(constructs):
        if is_known(construct.text.cql):
            continue
        text = _written(construct, number)
        asked.check(same("SELECT integer_1, ") + text + " AS c FROM S GROUP BY integer_1")
        asked.check(same("SELECT 1 AS one, ") + text + " AS c FROM S WHERE k < 0")
        asked.check(same("SELECT 1 AS one FROM S HAVING ") + text + " IS NOT NULL")
