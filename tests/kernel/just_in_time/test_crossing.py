"""Pairs that a condition holds for, against testing them one by one."""

from __future__ import annotations

from datetime import date
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.join_conditions import compare

from millstream.kernel.just_in_time import crossing
from millstream.kernel.just_in_time.crossing import Crossing
from millstream.kernel.scalar.evaluate import select_true
from millstream.kernel.scalar.expressions import Call, Expression, conjunction
from millstream.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, DataType, to_polars

NUMBERS = st.sampled_from([None, 0, 1, 2, 3])
VALUES = {
    BIGINT: NUMBERS,
    DOUBLE: st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
    STRING: st.sampled_from([None, "", "a", "b"]),
    DATE: st.sampled_from([None, date(1970, 1, 1), date(2000, 2, 29)]),
}


def negated(function: str, one: int, other: int, kind: DataType = BIGINT) -> Expression:
    return Call(BOOLEAN, "not", (compare(function, one, other, kind),))


# Columns 0 and 1 are of one side, 2 and 3 of the other, all but 1 and 3 of the kind.
def conditions(kind: DataType) -> dict[str, Expression]:
    equal = [negated("<", 0, 2, kind), negated(">", 0, 2, kind)]
    return {
        "equal": conjunction(equal),
        "unequal": compare("<>", 0, 2, kind),
        "both": conjunction([negated("<", 1, 3), *equal, negated(">", 1, 3)]),
        "either": Call(BOOLEAN, "or", (compare("=", 0, 2, kind), compare("<", 1, 3))),
    }


@pytest.mark.parametrize("kind", VALUES, ids=str)
@settings(deadline=None, max_examples=15)
@given(data=st.data(), chunk=st.sampled_from([1, 7, 1 << 20]), name=st.sampled_from([*conditions(BIGINT)]))
def test_every_pair_is_found_once(kind: DataType, data: st.DataObject, chunk: int, name: str) -> None:
    rows, stored = (data.draw(st.lists(st.tuples(VALUES[kind], NUMBERS), max_size=8)) for _ in range(2))
    flags = data.draw(st.none() | st.lists(st.booleans(), min_size=len(stored), max_size=len(stored)))
    frames = [
        pl.DataFrame(
            {names[0]: [row[0] for row in some], names[1]: [row[1] for row in some]},
            schema={names[0]: to_polars(kind), names[1]: pl.Int64},
        )
        for names, some in ((("c0", "c1"), rows), (("c2", "c3"), stored))
    ]
    condition = conditions(kind)[name]
    with patch.object(crossing, "_CHUNK", chunk):
        counting = None if flags is None else np.array(flags, np.bool_)
        found = [*Crossing.of(condition).pairs(frames[0], frames[1], counting)]
    pairs = [(int(i), int(j)) for some, others in found for i, j in zip(some, others, strict=True)]
    numbered = frames[0].with_row_index("i").join(frames[1].with_row_index("j"), how="cross")
    expected = select_true(numbered, condition).select("i", "j").rows()
    assert sorted(pairs) == sorted((i, j) for i, j in expected if flags is None or flags[j])
