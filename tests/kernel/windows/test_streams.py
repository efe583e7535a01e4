"""ISTREAM and DSTREAM are the differences of neighbouring instants, as bags; EVERY leaves some instants of RSTREAM."""

from __future__ import annotations

from typing import Literal as OneOf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import LAST, Source, at, batch, outputs_of, run, small, sources

from millstream.kernel.batch import INF
from millstream.kernel.windows.streams import ChangeStream, EverySlide
from millstream.types import BIGINT, Field, Schema

SCHEMA: Schema = (Field("v", BIGINT),)


@pytest.mark.parametrize("kind", ["istream", "dstream"])
@given(source=sources(st.tuples(small), 3, retract=True))
@settings(max_examples=60)
def test_each_instant_is_the_difference_to_the_one_before(kind: OneOf["istream", "dstream"], source: Source) -> None:
    outputs = outputs_of(ChangeStream(SCHEMA, kind), [SCHEMA], [source])
    said = [row for output in outputs for row in output]
    assert all(end == start + 1 and weight > 0 for _, start, end, weight in said)
    rows = source.until(len(source.frontiers))
    for instant in range(min(source.frontiers[-1], 2 * LAST) + 1):
        now, before = at(rows, 1, instant), at(rows, 1, instant - 1)
        # Subtraction of counters leaves out what would be negative, as that of bags does.
        expected = now - before if kind == "istream" else before - now
        assert at(said, 1, instant) == expected


def test_what_leaves_and_comes_back_at_an_instant_is_no_change() -> None:
    rows = batch(SCHEMA, [(1, 0, 5, 1), (1, 5, INF, 1), (2, 5, 6, 1)])
    assert run(ChangeStream(SCHEMA, "istream"), [([rows], [4]), ([rows.clear()], [9])]) == [
        [(1, 0, 1, 1)],
        [(2, 5, 6, 1)],
    ]
    assert run(ChangeStream(SCHEMA, "dstream"), [([rows], [9])]) == [[(2, 6, 7, 1)]]


@given(source=sources(st.tuples(small), 3, retract=True), every=st.integers(2, 4))
@settings(max_examples=60)
def test_multiples_have_the_rows_that_were_there(source: Source, every: int) -> None:
    said = [row for output in outputs_of(EverySlide(SCHEMA, every), [SCHEMA], [source]) for row in output]
    rows = source.until(len(source.frontiers))
    for instant in range(0, min(source.frontiers[-1], 2 * LAST) + 1, every):
        assert at(said, 1, instant) == at(rows, 1, instant)
