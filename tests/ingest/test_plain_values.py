"""Columns of plain Python values: what Polars makes of them, and what Arrow would."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable

import pyarrow as pa
import pytest

from millstream import types
from millstream.ingest import row_values
from millstream.ingest.row_values import MISFITS, column_of, inferred_column
from millstream.types import DataType

KINDS = (
    types.TINYINT,
    types.SMALLINT,
    types.INT,
    types.BIGINT,
    types.FLOAT,
    types.DOUBLE,
    types.STRING,
    types.BOOLEAN,
)
POOLS: tuple[tuple[object, ...], ...] = (
    (None, 0, 1, -1, 127, 128, -129, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(10**6000)),
    (None, 1.5, -0.0, float("nan"), float("inf"), 1e300, 1e-320),
    (None, "", "a", "ä", "\ud800"),
    (None, True, False),
)


def outcome(make: Callable[[], pa.Array]) -> object:
    try:
        made = make()
    except MISFITS:
        return "refused"
    return made.type, repr(made.to_pylist())


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_both_make_the_same(kind: DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(7)
    cases = [dice.choices(dice.choice(POOLS), k=dice.randrange(4)) for _ in range(300)]
    found = [outcome(lambda values=values: column_of(values, kind)) for values in cases]  # type: ignore[misc]
    monkeypatch.setattr(row_values, "_ALIKE", set())
    assert found == [outcome(lambda values=values: column_of(values, kind)) for values in cases]  # type: ignore[misc]


def test_the_types_that_are_found_are_those_of_arrow() -> None:
    dice = random.Random(8)
    for _ in range(500):
        values = dice.choices(dice.choice(POOLS), k=dice.randrange(4))
        found = outcome(lambda values=values: inferred_column(values))  # type: ignore[misc]
        assert found == outcome(lambda values=values: pa.array(values)), values  # type: ignore[misc]


def test_tuples_are_inserted_and_read_without_pandas() -> None:
    script = """
import sys
import millstream as ms
with ms.connect(engine="inprocess") as db:
    db.execute("CREATE STREAM s (a INT, b STRING, c DOUBLE, d BOOLEAN, ts BIGINT) TIMESTAMP BY ts")
    query = db.register("SELECT a, b FROM s [RANGE 10]")
    db.insert("s", [(1, "x", 1.5, True, 1), (None, None, None, None, 2)])
    assert query.result().num_rows == 1
    assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
