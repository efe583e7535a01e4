"""Matches of many queries: rows once, and of each query a list or a bitmap."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from millstream.kernel.lazy import postings
from millstream.kernel.lazy.postings import (
    BITS,
    DENSE,
    LISTED,
    PLANES,
    Postings,
    is_packed,
    merged,
    pack,
    pack_lineage,
)
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


def packed_by_row(times: list[int], pairs: Pairs, width: int = WORDS, least: int = 1 << 20) -> pl.DataFrame:
    """From bits, which stay as they are if a place is counted as so many bytes."""
    rows = sorted({(row, query // BLOCK_SIZE) for row, query in pairs})
    lineage = np.zeros((len(rows), width), np.uint64)
    for row, query in pairs:
        lineage[rows.index((row, query // BLOCK_SIZE))] |= bitmap(np.array([query]))[:width]
    of_row = np.array([row for row, _ in rows], np.intp)
    block = np.array([block for _, block in rows], np.uint32)
    with patch.object(postings, "_POSITION_BYTES", least):
        return pack_lineage(rows_of(times), of_row, block, lineage)


def check(segment: pl.DataFrame, right: dict[int, list[tuple[int, int]]], first: int, last: int) -> None:
    """The rows of queries between two instants, asked for in all ways."""
    posted, numbers = Postings(segment), np.array([0, 1, 3, 7, 70, 1024, 5000])
    within = {n: sorted(r for r in right.get(n, ()) if first <= r[0] <= last) for n in numbers.tolist()}
    for query, rows in within.items():
        found = posted.rows_of(query, first, last)
        assert sorted(zip(found["_t0"], found["c0"], strict=True)) == rows
        assert found["_t0"].is_sorted()
    ranges = posted.of_many(numbers, first, last)
    assert ranges.counts.tolist() == [len(rows) for rows in within.values()]
    found, owner = ranges.rows(0, numbers.size, ["c0"])
    of_many = sorted(zip(numbers[owner].tolist(), found["_t0"], found["c0"], strict=True))
    assert of_many == [(n, *row) for n, rows in within.items() for row in rows]
    queries, counts = posted.counts()
    assert dict(zip(queries.tolist(), counts.tolist(), strict=True)) == {n: len(r) for n, r in right.items() if r}
    assert posted.size == sum(map(len, right.values())) == posted.pairs()[0].size
    assert sorted(posted.queries.tolist()) == sorted(n for n, rows in right.items() if rows)


def by_query(found: list[tuple[list[int], Pairs]], first: int = 0) -> dict[int, list[tuple[int, int]]]:
    wanted: dict[int, list[tuple[int, int]]] = {}
    for times, pairs in found:
        for row, query in pairs:
            if times[row] >= first:
                wanted.setdefault(query, []).append((times[row], row))
    return wanted


@given(matches(), st.integers(1, WORDS), st.integers(0, 20), st.integers(0, 20))
def test_a_query_finds_its_rows_between_two_instants(
    found: tuple[list[int], Pairs], width: int, first: int, last: int
) -> None:
    times, pairs = found
    pairs = {(row, query) for row, query in pairs if query % BLOCK_SIZE < width * WORD_BITS}
    by_row, few = packed_by_row(times, pairs, width), packed_by_row(times, pairs, width, least=0)
    assert by_row.height == few.height == (1 if pairs else 0)
    if pairs:
        assert PLANES in by_row.columns
        assert PLANES not in few.columns
        for segment in (by_row, few):
            check(segment, by_query([(times, pairs)]), first, last)


@given(st.lists(st.tuples(matches(), st.booleans()), min_size=1, max_size=4), st.integers(0, 10), st.booleans())
def test_merging_changes_nothing_but_what_is_forgotten(
    found: list[tuple[tuple[list[int], Pairs], bool]], first: int, alike: bool
) -> None:
    """Of segments with bits by row, by query, and of both."""
    made = [packed_by_row(*own) if (found[0][1] if alike else by_row) else packed(*own) for own, by_row in found]
    segments = [segment for segment in made if segment.height]
    if not segments:
        return
    together = merged(segments, first)
    assert is_packed(together)
    right = by_query([own for own, _ in found], first)
    assert together.height == (1 if right or (PLANES in together.columns and together.height) else 0)
    if together.height:
        check(together, right, 0, 99)


def test_the_smaller_of_a_list_and_a_bitmap_is_kept() -> None:
    many = {(row, 1) for row in range(320)}
    segment = packed(list(range(320)), {*many, *((row, 2) for row in range(10)), (5, 3)})
    posted = Postings(segment)
    assert posted.column(DENSE).to_list() == [1]  # 40 bytes instead of 1,280
    assert posted.column(LISTED).to_list() == [2, 3]  # 10 positions are as large as a bitmap
    assert posted.column(BITS).len() == 40
    queries, counts = posted.counts()
    assert dict(zip(queries.tolist(), counts.tolist(), strict=True)) == {1: 320, 2: 10, 3: 1}
