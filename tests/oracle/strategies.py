"""Random streams, windows and queries for Hypothesis: small domains, so that ties, duplicates and gaps are common."""

from __future__ import annotations

from hypothesis import strategies as st

HORIZON = 24

# A stream of these is declared (k INT, v INT) TIMESTAMP BY ts.
Input = tuple[int | None, int | None, int]

keys = st.one_of(st.none(), st.integers(0, 2))
values = st.one_of(st.none(), st.integers(-3, 6))
rows = st.tuples(keys, values, st.integers(0, HORIZON - 8))


def ordered_streams(max_size: int = 12) -> st.SearchStrategy[list[Input]]:
    """In timestamp order: nothing is late."""
    return st.lists(rows, max_size=max_size).map(lambda found: sorted(found, key=lambda row: row[2]))


def unordered_streams(max_size: int = 12) -> st.SearchStrategy[list[Input]]:
    """In any order: what is late depends on the heartbeat."""
    return st.lists(rows, max_size=max_size)


_sizes = st.integers(1, 7)
_range = st.builds("[RANGE {}]".format, st.integers(0, 7))
_range_slide = st.builds("[RANGE {} SLIDE {}]".format, st.integers(0, 9), _sizes)
_tumble = st.builds("[TUMBLE {}]".format, _sizes)
_rows = st.builds("[ROWS {}]".format, _sizes)
_rows_slide = st.builds("[ROWS {} SLIDE {}]".format, _sizes, _sizes)
_partition = st.builds("[PARTITION BY {} ROWS {}]".format, st.sampled_from(["k", "k, v"]), st.integers(1, 3))
_partition_slide = st.builds("[PARTITION BY k ROWS {} SLIDE {}]".format, st.integers(1, 3), st.integers(1, 3))
_instants = st.integers(0, HORIZON)
_offsets = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda pair: (max(pair), min(pair)))
_begin_end = st.one_of(
    _offsets.map(lambda pair: f"[BEGIN NOW - {pair[0]} END NOW - {pair[1]}]"),
    st.builds("[BEGIN NOW - {} END {}]".format, st.integers(0, 6), _instants),
    st.just("[BEGIN NOW END NOW]"),
)
_landmark = st.one_of(
    st.builds("[BEGIN {} END NOW]".format, _instants),
    st.tuples(_instants, _instants).map(lambda pair: f"[BEGIN {min(pair)} END {max(pair)}]"),
)

bounded_windows = st.one_of(
    st.just("[NOW]"), _range, _range_slide, _tumble, _rows, _rows_slide, _partition, _partition_slide, _begin_end
)
unbounded_windows = st.one_of(st.sampled_from(["", "[RANGE UNBOUNDED]", "[ROWS UNBOUNDED]"]), _landmark)
windows = st.one_of(bounded_windows, unbounded_windows)
time_windows = st.one_of(st.just("[NOW]"), _range, _range_slide, _tumble, st.just("[RANGE UNBOUNDED]"))

range_bounds = st.sampled_from(["closed", "half_open"])
operators = st.sampled_from(["ISTREAM", "DSTREAM", "RSTREAM"])
conditions = st.sampled_from(["v > 1", "k = 1 OR v < 0", "NOT (k = v)", "k IS NOT NULL", "v IN (1, 2, NULL)"])
