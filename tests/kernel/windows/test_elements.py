"""The single elements of a derived stream are the copies of its relation at every instant, in the order of values."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import LAST, Row, Source, at, batch, outputs_of, run, small, sources

from millstream.errors import EvaluationError
from millstream.kernel.windows.elements import Elements
from millstream.types import BIGINT, Field, Schema

SCHEMA: Schema = (Field("v", BIGINT),)
MANY = 10_000


def in_order(row: Row) -> tuple[bool, int]:
    """NULL first."""
    return row[0] is not None, row[0] or 0


@given(sources(st.tuples(small), 3, retract=True))
@settings(max_examples=60)
def test_there_is_an_element_for_every_copy_at_every_instant(source: Source) -> None:
    frontiers = [min(frontier, 2 * LAST) for frontier in source.frontiers]
    outputs = outputs_of(Elements(SCHEMA, MANY), [SCHEMA], [Source(source.rows, frontiers)])
    found = sorted((row for output in outputs for row in output), key=lambda row: (row[1], row[4]))
    expected = [
        (*row, instant, instant + 1, 1, place)
        for instant in range(frontiers[-1] + 1)
        for place, row in enumerate(sorted(at(source.until(len(frontiers)), 1, instant).elements(), key=in_order))
    ]
    assert found == expected


def test_what_unfolds_without_measure_is_refused() -> None:
    rows = batch(SCHEMA, [(1, 0, 100, 5)])
    assert len(run(Elements(SCHEMA, 500), [([rows], [200])])[0]) == 500
    with pytest.raises(EvaluationError, match="a stream of 500 elements at once"):
        run(Elements(SCHEMA, 499), [([rows], [200])])
