"""The eddy: rows go where most of them end, whatever the policy they get the same bits, and it follows changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from tests.kernel.sharing.conditions import NO_TIME, query_state

from millstream.errors import InputError
from millstream.kernel.batch import batch_schema, value_columns
from millstream.kernel.eddy.filters import FLOOR, Draws, EddyMemory, FilterExperience, FilterProspects
from millstream.kernel.eddy.policies import policy
from millstream.kernel.scalar.expressions import Column, Expression, Parameter, conjunction
from millstream.kernel.scalar.functions import call
from millstream.kernel.sharing.eddy import Eddy
from millstream.kernel.sharing.grouped_selection import EDDY, GroupedSelection
from millstream.kernel.sharing.index import Index, index_of
from millstream.kernel.sharing.parameters import QUERIES
from millstream.types import BIGINT, Field

NAMES = "abcde"
MODULES = value_columns(len(NAMES))
SCHEMA = tuple(Field(name, BIGINT) for name in NAMES)


def above(*attributes: int) -> Expression:
    return conjunction(
        [call(">", [Column(BIGINT, a, NAMES[a]), Parameter(BIGINT, i)]) for i, a in enumerate(attributes)]
    )


def queries(conditions: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[tuple[Expression, pl.DataFrame]]:
    """One query for each (attributes, constants)."""
    return [
        (above(*attributes), pl.DataFrame({"query": [q]} | {f"c{i}": [c] for i, c in enumerate(constants)}))
        for q, (attributes, constants) in enumerate(conditions)
    ]


def index(parts: Sequence[tuple[Expression, pl.DataFrame]]) -> Index:
    shapes = {str(i): condition for i, (condition, _) in enumerate(parts)}
    return index_of(shapes, query_state({str(i): [table] for i, (_, table) in enumerate(parts)})[QUERIES])


def rows(count: int, seed: int = 1, low: Sequence[int] = (0,) * 5) -> pl.DataFrame:
    """Values from `low` to 99 in each attribute."""
    random = np.random.default_rng(seed)
    values = {f"c{i}": random.integers(least, 100, count) for i, least in enumerate(low)}
    return pl.DataFrame(values | {"_start": 0, "_end": 1, "_weight": 1}, schema=batch_schema(SCHEMA))


def entered(found: Index, batch: pl.DataFrame, name: str, memory: EddyMemory) -> dict[str, int]:
    """How many rows each module was given."""
    eddy = Eddy(policy(name), memory, seed=1)
    for block in found.blocks:
        bits = np.empty((batch.height, block.members.size), np.uint64)
        eddy.route(block, [axis.ranks(batch) for axis in found.axes], bits)
    return {NAMES[MODULES.index(module)]: count for module, count in eddy.entered.items()}


# The queries of the paper's Table 3: a decides most, then b, and so on.
NESTED = queries([(range(k), (90, 70, 50, 30, 10)[:k]) for k in range(1, 6)])


@pytest.mark.parametrize("name", ["ticket", "fixed", "random", "hindsight"])
def test_the_policy_does_not_change_the_answer(name: str) -> None:
    batch = rows(20_000)
    shapes = {str(i): condition for i, (condition, _) in enumerate(NESTED)}
    state = query_state({str(i): [table] for i, (_, table) in enumerate(NESTED)})
    output, _ = GroupedSelection(SCHEMA, shapes, name).step([batch], state, NO_TIME)
    values = batch.select("c0", "c1", "c2", "c3", "c4").to_numpy()
    expected = [(values[:, :k] > [90, 70, 50, 30, 10][:k]).all(axis=1) for k in range(1, 6)]
    bits = np.sum([accepted.astype(np.uint64) << np.uint64(q) for q, accepted in enumerate(expected)], axis=0)
    assert output.select(batch.columns).equals(batch.filter(pl.Series(expected[0])))
    assert (output["_lineage"].arr.first().to_numpy() == bits[expected[0]]).all()


def test_by_tickets_rows_see_hardly_more_filters_than_they_must() -> None:
    batch, memory = rows(100_000), EddyMemory()
    found = index(NESTED[::-1])
    entered(found, batch, "ticket", memory)  # to learn
    seen = sum(entered(found, batch, "ticket", memory).values()) / batch.height
    at_random = sum(entered(found, batch, "random", EddyMemory()).values()) / batch.height
    best = sum(entered(found, batch, "hindsight", EddyMemory()).values()) / batch.height
    assert 1.1 < best <= seen < 1.2 < 2.5 < at_random


def test_rows_that_have_all_their_answers_go_no_further() -> None:
    """Half of the rows are wanted by the one query that asks no more, and by no other."""
    found = index(queries([((0,), (49,)), ((1, 2), (49, 99))]))
    batch = rows(50_000)
    counts = entered(found, batch, "fixed", EddyMemory())
    assert counts["a"] == counts["b"] == batch.height
    assert counts["c"] < 0.6 * batch.height


def test_the_eddy_follows_a_change() -> None:
    """First a decides, then e: the new order is found within the rows of a few chunks."""
    found = index(queries([(range(5), (50 + q, 0, 0, 0, 50 + q)) for q in range(5)]))
    memory = EddyMemory()
    before = entered(found, rows(100_000, low=(0, 50, 50, 50, 60)), "ticket", memory)
    assert before["a"] == 100_000 > 1.5 * before["e"]
    after = entered(found, rows(200_000, low=(60, 50, 50, 50, 0)), "ticket", memory)
    assert after["e"] > 180_000 > 140_000 > after["a"]


def test_columns_of_one_name_are_different_modules() -> None:
    """Conditions that are equal but for the names of columns were seen before, under other names."""
    renamed = call(">", [Column(BIGINT, 4, "a"), Parameter(BIGINT, 0)])
    index([(renamed, pl.DataFrame({"query": [0], "c0": [50]}))])
    counts = entered(index(queries([([0], [50]), ([4], [50])])), rows(1_000), "fixed", EddyMemory())
    assert set(counts) == {"a", "e"}


def test_what_was_learnt_goes_from_step_to_step() -> None:
    shapes = {str(i): condition for i, (condition, _) in enumerate(NESTED)}
    state = query_state({str(i): [table] for i, (_, table) in enumerate(NESTED)})
    operator = GroupedSelection(SCHEMA, shapes)
    _, learnt = operator.step([rows(20_000)], state, NO_TIME)
    assert list(learnt) == [EDDY]
    shares = EddyMemory(learnt[EDDY]).shares()
    assert list(shares) == MODULES
    assert shares["c0"] > 0.5 > shares["c1"] > shares["c4"]
    _, unchanged = operator.step([rows(0)], {**state, **learnt}, NO_TIME)
    assert unchanged == learnt


@pytest.mark.parametrize(
    ("known", "chosen"),
    [
        ([FilterExperience(FLOOR, 2.0), FilterExperience(FLOOR, 1.0)], 1),  # at the floor, the cheaper one
        ([FilterExperience(FLOOR, 1.0), FilterExperience(2.0, 5.0)], 1),  # tickets before costs
        ([FilterExperience(1e6, 1.0, 1.0), FilterExperience(2.0, 1.0, 1.0)], 0),  # many tickets win
        ([FilterExperience(30.0, 1.0, 1e9), FilterExperience(30.0, 1.0, 1.0)], 1),  # not if all the work goes there
    ],
)
def test_the_lottery(known: list[FilterExperience], chosen: int) -> None:
    prospects = (FilterProspects(known, Draws(seed), lambda _: 0) for seed in range(20))
    choices = [policy("ticket").choose([0, 1], each) for each in prospects]
    assert choices.count(chosen) >= 12


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InputError, match="there is no routing policy"):
        GroupedSelection(SCHEMA, {}, "best")
