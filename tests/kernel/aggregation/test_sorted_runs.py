"""Keys that are looked for in sorted runs."""

from __future__ import annotations

import polars as pl
import pytest

from millstream.kernel.aggregation.sorted_runs import find

NAN = float("nan")


@pytest.mark.parametrize("kind", [pl.Float64, pl.Float32])
@pytest.mark.parametrize("stored", [[1.0, NAN], [None, 1.0, NAN], [*map(float, range(100)), NAN]])
def test_nan_is_found_however_many_are_looked_for(kind: type[pl.DataType], stored: list[float | None]) -> None:
    run = pl.DataFrame({"k": pl.Series(stored, dtype=kind)}).sort("k")
    for wanted in ([NAN], [1.0, NAN], [-1.0], [NAN, 1.0, 7.5]):
        keys = pl.DataFrame({"k": pl.Series(wanted, dtype=kind)})
        expected = [stored.index(key) if key == 1.0 else len(stored) - 1 if key != key else -1 for key in wanted]
        for asked in (keys, keys.with_columns(pl.col("k").set_sorted()) if len(wanted) < 3 else keys):
            assert find(run, ["k"], asked).tolist() == expected
