"""Matches of many queries: rows once, and of each query a list or a bitmap."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from millstream.kernel.lazy.postings import BITS, DENSE, LISTED, Postings, is_packed, merged, pack, pack_lineage
from millstream.kernel.sharing.lineage import BLOCK_SIZE, WORD_BITS, WORDS, bitmap

Pairs = set[tuple[int, int]]


def rows_of(times: list[int]) -> pl.DataFrame:
    """Rows that are known by their number."""
    return pl.DataFrame({"c0": range(len(times)), "_t0": times}, schema={"c0": pl.Int64, "_t0": pl.Int64})


def packed(times: list[int], pairs: Pairs) -> pl.DataFrame:
    row, query = (np.array([pair[side] for pair in sorted(pairs)], np.int64) for side in (0, 1))
    return pack(rows_of(times), row.astype(np.intp), query)


@st.composite
def matches(draw: st.DrawFn) -> tuple[list[int], Pairs]:
    times = draw(st.lists(st.integers(0, 20), min_size=1, max_size=40))
    queries = draw(st.sampled_from([[0, 1, 7, 70, 1024, 5000], [7, 1024]]))  # few of them want many rows each
    pair = st.tuples(st.integers(0, len(times) - 1), st.sampled_from(queries))
    return times, draw(st.sets(pair, max_size=120))


@given(matches(), st.integers(1, WORDS))
def test_bits_are_packed_as_pairs_are(found: tuple[list[int], Pairs], width: int) -> None:
    times, pairs = found
    pairs = {(row, query) for row, query in pairs if query % BLOCK_SIZE < width * WORD_BITS}
    rows = sorted({(row, query // BLOCK_SIZE) for row, query in pairs})
    lineage = np.zeros((len(rows), width), np.uint64)
    for row, query in pairs:
        lineage[rows.index((row, query // BLOCK_SIZE))] |= bitmap(np.array([query]))[:width]
    of_row = np.array([row for row, _ in rows], np.intp)
    block = np.array([block for _, block in rows], np.uint32)
    assert pack_lineage(rows_of(times), of_row, block, lineage).equals(packed(times, pairs))


@given(matches(), st.integers(0, 20), st.integers(0, 20))
def test_a_query_finds_its_rows_between_two_instants(found: tuple[list[int], Pairs], first: int, last: int) -> None:
    times, pairs = found
    segment = packed(times, pairs)
    assert segment.height == (1 if pairs else 0)
    for query in (0, 1, 7, 1024, 5000, 3):
        right = sorted((times[row], row) for row, own in pairs if own == query and first <= times[row] <= last)
        rows = Postings(segment).rows_of(query, first, last) if segment.height else rows_of([])
        assert sorted(zip(rows["_t0"], rows["c0"], strict=True)) == right
        assert rows["_t0"].is_sorted()


@given(st.lists(matches(), min_size=1, max_size=4), st.integers(0, 10))
def test_merging_changes_nothing_but_what_is_forgotten(found: list[tuple[list[int], Pairs]], first: int) -> None:
    segments = [packed(times, pairs) for times, pairs in found]
    segments = [segment for segment in segments if segment.height]
    if not segments:
        return
    together = merged(segments, first)
    assert is_packed(together)
    for query in (0, 1, 7, 1024, 5000):
        right = [
            (times[row], row) for times, pairs in found for row, own in pairs if own == query and times[row] >= first
        ]
        rows = Postings(together).rows_of(query, 0, 99) if together.height else rows_of([])
        assert sorted(zip(rows["_t0"], rows["c0"], strict=True)) == sorted(right)


def test_the_smaller_of_a_list_and_a_bitmap_is_kept() -> None:
    many = {(row, 1) for row in range(320)}
    segment = packed(list(range(320)), {*many, *((row, 2) for row in range(10)), (5, 3)})
    posted = Postings(segment)
    assert posted.column(DENSE).to_list() == [1]  # 40 bytes instead of 1,280
    assert posted.column(LISTED).to_list() == [2, 3]  # 10 positions are as large as a bitmap
    assert posted.column(BITS).len() == 40
    queries, counts = posted.counts()
    assert dict(zip(queries.tolist(), counts.tolist(), strict=True)) == {1: 320, 2: 10, 3: 1}
