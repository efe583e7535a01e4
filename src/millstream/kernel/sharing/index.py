"""The grouped filters of all blocks of queries, made from the query tables and kept while these stay the same.

A row is ranked once among all cuts of an attribute. Where a block has only some of these, a map leads from there to its
own intervals; where it has most of them, its bitmaps are spread out over all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.keys import Codes, Positions, ticks_of_codes
from millstream.kernel.operator import Segment
from millstream.kernel.scalar.evaluate import evaluate
from millstream.kernel.scalar.expressions import Column, Expression
from millstream.kernel.sharing.axis import codes_of_values, comparable, dictionary, has_codes, moved
from millstream.kernel.sharing.block import AttributeSide, Entries, LineageBlock, ModuleFilter, Residual, build_filters
from millstream.kernel.sharing.identity import Recent, serial_of, value_of
from millstream.kernel.sharing.lineage import BLOCK_SIZE, Bitmaps, bitmap
from millstream.kernel.sharing.predicates import AtomPosition, ConditionAtoms, Predicates, predicates_of

_TABLE = 1 << 16  # the span of codes up to which a row's rank is looked up and not searched for
_ROWS = 1 << 15  # rows that are ranked together: what is computed on the way stays in the cache
_MAP = 1 << 15  # cuts up to which the map from all cuts to those of a block is kept
_SEARCH = 64  # a search costs as much as so many entries of a map
_FEW = 64  # bitmaps more than a block needs, for the sake of a lookup without a map


@dataclass(frozen=True)
class Axis:
    """All cuts of an attribute."""

    attribute: Expression
    constants: pl.Series | None
    cuts: Codes

    @cached_property
    def _table(self) -> Positions | None:
        """Ranks of the codes from just before the first cut to the last one."""
        if not self.cuts.size or self.cuts[-1] - self._least >= _TABLE:
            return None
        codes = np.arange(int(self.cuts[-1] - self._least) + 1, dtype=np.uint64) + self._least
        return self.cuts.searchsorted(codes, side="right").astype(np.intp)

    @property
    def _least(self) -> np.uint64:
        return np.uint64(max(int(self.cuts[0]), 1) - 1)

    @property
    def _least_number(self) -> int:
        """The whole number that has the least code of the table."""
        return int(ticks_of_codes(np.array([self._least]))[0])

    def ranks(self, batch: Batch) -> Positions:
        """How many cuts lie at or below each row's value; one more than there are for NULL."""
        attribute = self.attribute
        if isinstance(attribute, Column):
            series = batch[value_column(attribute.index)]
        else:
            series = evaluate(batch, [attribute], ["value"]).to_series()
        values = comparable(series, attribute.type)
        if self._table is not None and self.constants is None and _are_numbers(values):
            least = self._least_number
            whole = values.to_numpy().astype(np.int64).clip(least, least + self._table.size - 1)
            return self._table.take(whole - least)
        ranks = np.empty(batch.height, np.intp)
        for low in range(0, batch.height, _ROWS):
            ranks[low : low + _ROWS] = self._ranks(codes_of_values(values[low : low + _ROWS], self.constants))
        if values.null_count():
            ranks[values.is_null().to_numpy()] = self.cuts.size + 1
        return ranks

    def _ranks(self, codes: Codes) -> Positions:
        table = self._table
        if table is None:
            return self.cuts.searchsorted(codes, side="right")
        offsets = np.maximum(codes, self._least)
        offsets -= self._least
        np.minimum(offsets, np.uint64(table.size - 1), out=offsets)
        return table.take(offsets.view(np.int64))


def _are_numbers(values: pl.Series) -> bool:
    """Whether they are whole numbers of at most 64 bits, and all there."""
    return values.dtype.is_signed_integer() and not values.null_count()


@dataclass(frozen=True)
class Lookup:
    """A side of a filter by the ranks of its axis: `ends` are the last ranks of its own intervals, None if all are."""

    axis: int
    bits: Bitmaps
    ends: Positions | None
    total: int

    @cached_property
    def _map(self) -> npt.NDArray[np.uint16] | None:
        return self._mapped().astype(np.uint16) if self.total <= _MAP else None

    def _mapped(self) -> Positions:
        assert self.ends is not None
        lengths = np.diff(self.ends, prepend=-1, append=self.total)
        intervals = np.arange(self.ends.size + 1).repeat(lengths)
        return np.append(intervals, self.ends.size + 1)

    def rows(self, ranks: Positions) -> Positions | npt.NDArray[np.uint16]:
        """The rows of `bits` for ranks of the axis."""
        if self.ends is None:
            return ranks
        if self._map is not None:
            return self._map.take(ranks)
        if ranks.size * _SEARCH > self.total:
            return self._mapped().take(ranks)
        found = self.ends.searchsorted(ranks)
        found[ranks == self.total + 1] = self.ends.size + 1
        return found


@dataclass(frozen=True)
class BlockFilter:
    """What a module, by its name, does in a block: of a row's bits it leaves the OR of its lookups."""

    module: str
    lookups: tuple[Lookup, ...]
    relevant: Bitmaps


@dataclass(frozen=True)
class IndexedBlock:
    number: int
    members: Bitmaps
    filters: tuple[BlockFilter, ...]
    residuals: tuple[Residual, ...]


@dataclass(frozen=True)
class Index:
    axes: tuple[Axis, ...]
    blocks: tuple[IndexedBlock, ...]

    @property
    def size(self) -> int:
        lookups = [lookup for block in self.blocks for f in block.filters for lookup in f.lookups]
        return 4096 + sum(lookup.bits.nbytes + 2 * min(lookup.total, _MAP) for lookup in lookups)


_blocks: Recent[LineageBlock] = Recent(1 << 29, lambda made: made.size)
_indexes: Recent[Index] = Recent(1 << 30, lambda made: made.size)


def index_of(tables: Sequence[tuple[ConditionAtoms, Segment]]) -> Index:
    """The index of the queries of these segments, each of its shape."""
    keys = tuple([(shape.number, serial_of(segment)) for shape, segment in tables])
    return _indexes.get(keys, lambda: _index(keys, [predicates_of(shape, segment) for shape, segment in tables]))


def _index(keys: Sequence[tuple[int, int]], parts: Sequence[Predicates]) -> Index:
    builder = _Builder(parts)
    blocks = [
        _blocks.get((number, *(keys[part] for part in among)), partial(builder.block, number, among))
        for number, among in builder.parts_of_blocks()
    ]
    return _assembled(blocks, builder.dictionaries)


class _Builder:
    """Makes the blocks that are not known yet, from all queries sorted by block."""

    def __init__(self, parts: Sequence[Predicates]) -> None:
        self.parts = parts

    def parts_of_blocks(self) -> list[tuple[int, list[int]]]:
        """The blocks, each with the parts that have queries in it."""
        pairs = [part.blocks for part in self.parts]
        if not any(part.size for part in pairs):
            return []
        blocks = np.concatenate(pairs)
        among = np.arange(len(self.parts)).repeat([part.size for part in pairs])
        order = np.argsort(blocks, kind="stable")
        numbers, starts = np.unique(blocks[order], return_index=True)
        return [(int(n), a.tolist()) for n, a in zip(numbers, np.split(among[order], starts[1:]), strict=True)]

    @cached_property
    def dictionaries(self) -> dict[Expression, pl.Series]:
        found: dict[Expression, list[pl.Series]] = {}
        for part in self.parts:
            for attribute, constants in part.dictionaries.items():
                found.setdefault(attribute, []).append(constants)
        return {attribute: dictionary(constants) for attribute, constants in found.items()}

    @cached_property
    def _queries(self) -> _Grouped:
        return _Grouped(np.concatenate([part.queries for part in self.parts]))

    @cached_property
    def _atoms(self) -> _Grouped:
        return _Grouped(np.concatenate([part.atom_query for part in self.parts]))

    @cached_property
    def _cuts(self) -> _Grouped:
        return _Grouped(np.concatenate([part.cut_query for part in self.parts]))

    @cached_property
    def _entries(self) -> Entries:
        """The entries of all parts, sorted by block."""
        atoms, cuts, parts = self._atoms.order, self._cuts.order, self.parts
        return Entries(
            atom_query=self._atoms.queries,
            atom_place=np.concatenate([part.atom_place for part in parts])[atoms],
            first=np.concatenate([part.first for part in parts])[atoms],
            null=np.concatenate([part.null for part in parts])[atoms],
            cut_query=self._cuts.queries,
            cut_place=np.concatenate([part.cut_place for part in parts])[cuts],
            cut=np.concatenate([self._moved(part) for part in parts])[cuts],
        )

    def _moved(self, part: Predicates) -> Codes:
        """The part's cuts by the dictionaries of all parts."""
        if not part.dictionaries:
            return part.cut
        cuts = part.cut.copy()
        for number in np.unique(part.cut_place):
            place = value_of(int(number))
            assert isinstance(place, AtomPosition)
            old = part.dictionaries.get(place.attribute)
            if old is not None:
                here = part.cut_place == number
                cuts[here] = moved(cuts[here], old, self.dictionaries[place.attribute])
        return cuts

    def block(self, number: int, among: Sequence[int]) -> LineageBlock:
        atoms, cuts, everything = self._atoms.slice(number), self._cuts.slice(number), self._entries
        entries = Entries(
            everything.atom_query[atoms],
            everything.atom_place[atoms],
            everything.first[atoms],
            everything.null[atoms],
            everything.cut_query[cuts],
            everything.cut_place[cuts],
            everything.cut[cuts],
        )
        members, filters = build_filters(self._queries.queries[self._queries.slice(number)], entries)
        residuals = [_residual(self.parts[part], number, members.size) for part in among]
        return LineageBlock(number, members, filters, tuple(r for r in residuals if r is not None), self.dictionaries)


class _Grouped:
    """Queries sorted by block."""

    def __init__(self, queries: npt.NDArray[np.int64]) -> None:
        blocks = queries // BLOCK_SIZE
        self.order = np.argsort(blocks, kind="stable")
        self.queries = queries[self.order]
        self._blocks = blocks[self.order]

    def slice(self, block: int) -> slice:
        return slice(*self._blocks.searchsorted([block, block + 1]).tolist())


def _residual(part: Predicates, block: int, width: int) -> Residual | None:
    if part.residual is None:
        return None
    rows = np.flatnonzero(part.queries // BLOCK_SIZE == block)
    queries = part.queries[rows]
    by_bit = np.zeros(BLOCK_SIZE, np.intp)
    by_bit[queries % BLOCK_SIZE] = rows
    return Residual(part.residual, part.table, by_bit, bitmap(queries)[:width])


def _assembled(blocks: Sequence[LineageBlock], dictionaries: Mapping[Expression, pl.Series]) -> Index:
    current = [replace(block, filters=_by_dictionaries(block, dictionaries)) for block in blocks]
    found: dict[Expression, list[Codes]] = {}
    for block in current:
        for each in block.filters:
            for side in each.sides:
                found.setdefault(side.attribute, []).append(side.cuts)
    axes = {
        attribute: Axis(attribute, _constants(attribute, dictionaries), np.unique(np.concatenate(cuts)))
        for attribute, cuts in found.items()
    }
    numbers = {attribute: number for number, attribute in enumerate(axes)}
    indexed = [
        IndexedBlock(
            block.number,
            block.members,
            tuple(
                BlockFilter(
                    str(each.module),
                    tuple(_lookup(side, numbers[side.attribute], axes[side.attribute].cuts) for side in each.sides),
                    each.relevant,
                )
                for each in block.filters
            ),
            block.residuals,
        )
        for block in current
    ]
    return Index(tuple(axes.values()), tuple(indexed))


def _constants(attribute: Expression, dictionaries: Mapping[Expression, pl.Series]) -> pl.Series | None:
    """What values are coded by; an attribute that is only asked for NULL has no constants."""
    if has_codes(attribute.type):
        return None
    return dictionaries.get(attribute, pl.Series([], dtype=pl.Null))


def _by_dictionaries(block: LineageBlock, dictionaries: Mapping[Expression, pl.Series]) -> tuple[ModuleFilter, ...]:
    if block.dictionaries is dictionaries:
        return block.filters

    def changed(side: AttributeSide) -> AttributeSide:
        old = block.dictionaries.get(side.attribute)
        return side if old is None else replace(side, cuts=moved(side.cuts, old, dictionaries[side.attribute]))

    return tuple(replace(each, sides=tuple(map(changed, each.sides))) for each in block.filters)


def _lookup(side: AttributeSide, axis: int, cuts: Codes) -> Lookup:
    if side.cuts.size == cuts.size:
        return Lookup(axis, side.bits, None, cuts.size)
    narrow = Lookup(axis, side.bits, cuts.searchsorted(side.cuts), cuts.size)
    if cuts.size > 2 * side.cuts.size + _FEW:
        return narrow
    return Lookup(axis, side.bits[narrow.rows(np.arange(cuts.size + 2))], None, cuts.size)
