"""Lineage: which queries want a row, as bits that travel with it.

Queries are numbered in blocks of 1,024: query q is bit q % 1024 of block q // 1024, and bit b is in word b // 64. A row
stands once for each block in which some query wants it. A batch has as many words as its blocks need: queries beyond
them want none of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.hashing import mix_bits
from millstream.kernel.keys import Positions

BLOCK, LINEAGE = "_block", "_lineage"
BLOCK_SIZE = 1024
WORD_BITS = 64
WORDS = BLOCK_SIZE // WORD_BITS

Flags = npt.NDArray[np.bool_]
Bitmaps = npt.NDArray[np.uint64]  # a row of words for each row of a batch, interval or clause


def word_of(queries: npt.NDArray[np.int64]) -> Positions:
    return (queries % BLOCK_SIZE // WORD_BITS).astype(np.intp)


def bit_of(queries: npt.NDArray[np.int64]) -> Bitmaps:
    """The bit of a query within its word."""
    return np.uint64(1) << (queries % WORD_BITS).astype(np.uint64)


def bitmap(queries: npt.NDArray[np.int64]) -> Bitmaps:
    """The words in which exactly these queries of one block have their bits."""
    words = np.zeros(WORDS, np.uint64)
    np.bitwise_or.at(words, word_of(queries), bit_of(queries))
    return words


def lineage_of(frame: pl.DataFrame) -> Bitmaps:
    """The lineage column as rows of words."""
    return frame[LINEAGE].to_numpy().reshape(frame.height, _width(frame))


def lineage_series(bitmaps: Bitmaps) -> pl.Series:
    """The column for bitmaps."""
    height, width = bitmaps.shape
    if not height:
        return pl.Series(LINEAGE, [], dtype=lineage_type(width))
    return pl.Series(LINEAGE, bitmaps.reshape(-1)).reshape((height, width))


def lineage_type(width: int) -> pl.Array:
    return pl.Array(pl.UInt64, width)


def of_equal_width(frames: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Frames as they can stand in one: where they have lineage, with as many words as the widest has."""
    with_lineage = [LINEAGE in frame.columns for frame in frames]
    widest = max((_width(frame) for frame, has in zip(frames, with_lineage, strict=True) if has), default=0)
    return [widened(frame, widest) if has else frame for frame, has in zip(frames, with_lineage, strict=True)]


def widened(frame: pl.DataFrame, width: int) -> pl.DataFrame:
    """The same rows with words of 0 after those there are."""
    if _width(frame) == width:
        return frame
    bitmaps = np.zeros((frame.height, width), np.uint64)
    bitmaps[:, : _width(frame)] = lineage_of(frame)
    return frame.with_columns(lineage_series(bitmaps))


def _width(frame: pl.DataFrame) -> int:
    kind = frame.schema[LINEAGE]
    if not isinstance(kind, pl.Array):
        raise AssertionError(f"lineage of type {kind}")
    return kind.size


def wanted_by(frame: pl.DataFrame, query: int) -> Flags:
    """Which rows of a batch with lineage the query wants."""
    place = query % BLOCK_SIZE // WORD_BITS
    if place >= _width(frame):
        return np.zeros(frame.height, np.bool_)
    word = lineage_of(frame)[:, place]
    wanted: Flags = (word >> np.uint64(query % WORD_BITS)) & np.uint64(1) == np.uint64(1)
    there: Flags = frame[BLOCK].to_numpy() == query // BLOCK_SIZE
    return wanted & there


def popcounts(bitmaps: Bitmaps) -> Positions:
    """How many bits each row has."""
    counts: Positions = np.bitwise_count(bitmaps).sum(axis=1, dtype=np.intp)
    return counts


def any_bit(bitmaps: Bitmaps) -> Flags:
    """Which rows have a bit at all. Most have one in the first word, or hardly any has one."""
    found: Flags = bitmaps[:, 0] != 0
    if bitmaps.shape[1] == 1 or found.all():
        return found
    rest = np.flatnonzero(~found)
    found[rest] = np.bitwise_or.reduce(bitmaps[rest, 1:], axis=1) != 0
    return found


def expand(bitmaps: Bitmaps) -> tuple[Positions, Positions]:
    """(row, bit) of each bit, by row and then by bit."""
    # Flat and of booleans, which NumPy looks through many times as fast as through numbers in two dimensions.
    rows, words = np.divmod(np.flatnonzero(bitmaps != 0), bitmaps.shape[1])
    found = np.unpackbits(bitmaps[rows, words].view(np.uint8), bitorder="little").view(np.bool_)
    places = np.flatnonzero(found)
    at = places >> 6
    return rows[at], words[at] * WORD_BITS + (places & 63)


def distinct(bitmaps: Bitmaps) -> tuple[Positions, Positions]:
    """The first row of each different bitmap, and of each row the place of its own among these."""
    codes = np.zeros(len(bitmaps), np.uint64)
    for word in bitmaps.T:
        codes = mix_bits(codes ^ word)
    _, firsts, place = np.unique(codes, return_index=True, return_inverse=True)
    if not np.array_equal(bitmaps[firsts[place]], bitmaps):  # different ones of one code, which hardly ever is
        whole = np.ascontiguousarray(bitmaps).view(f"V{8 * bitmaps.shape[1]}").ravel()
        _, firsts, place = np.unique(whole, return_index=True, return_inverse=True)
    return firsts, place
