"""Where rows must be: which of them an operator must see together, and which shard a row belongs to.

    shard(r) = mix(code of r's key) mod shards

An operator says by which columns its inputs must be hashed, so that rows which have to do with each other meet. The
hash of no columns is 0: a key without columns means one shard for everything. The hash is our own and fixed, since
state outlives processes and versions; equal keys have equal codes, so that INT meets BIGINT and 0.0 meets -0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.hashing import mix_bits
from millstream.kernel.keys import key_codes

HASH = "splitmix64-1"  # of `shards_of`: state that was placed by another one is on other shards

Columns = tuple[int, ...]
Copies = tuple[tuple[int, int], ...]
MAX_SHARDS = 1 << 16


@dataclass(frozen=True)
class Distribution:
    """What an operator asks of its inputs, and what its output keeps of it.

    `keys` gives for each input the columns to hash it by, position by position the same for all inputs; None asks for
    nothing. `copies` gives for each input the pairs (column, output column) that hold the same value. The last entry
    of either stands for all further inputs.
    """

    keys: tuple[Columns, ...] | None
    copies: tuple[Copies, ...] = ((),)

    def key_of(self, place: int) -> Columns:
        if self.keys is None:
            raise AssertionError("rows may be anywhere")
        return self.keys[min(place, len(self.keys) - 1)]

    def copies_of(self, place: int) -> Copies:
        return self.copies[min(place, len(self.copies) - 1)]


# Whatever counts, orders or compares all rows. Also the safe answer.
ONE_SHARD = Distribution(((),))


def anywhere(*copies: Copies) -> Distribution:
    """For operators that look at one row at a time and keep nothing."""
    return Distribution(None, copies)


def by_key(keys: Sequence[Columns], *copies: Copies) -> Distribution:
    """For operators that bring rows of equal keys together."""
    return Distribution(tuple(keys), copies)


def by_value(width: int) -> Distribution:
    """For operators that compare whole rows, or keep every row until its time comes: any hash of columns will do."""
    return by_key([tuple(range(width))], same_columns(width))


def same_columns(width: int) -> Copies:
    return tuple((index, index) for index in range(width))


def shards_of(batch: Batch, columns: Sequence[int], shards: int) -> npt.NDArray[np.uint16]:
    """The shard of each row, by the values of some columns."""
    codes = mix_bits(key_codes(batch, [value_column(index) for index in columns]))
    return (codes % np.uint64(shards)).astype(np.uint16)
