"""The grouped filters of all blocks of queries, made from the query tables and kept while these stay the same.

A row is ranked once among all cuts of an attribute. Where a block has only some of these, a map leads from there to its
own intervals; where it has most of them, its bitmaps are spread out over all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.keys import Codes, Positions, ticks_of_codes
from millstream.kernel.operator import Segment
from millstream.kernel.scalar.evaluate import evaluate
from millstream.kernel.scalar.expressions import Column, Expression
from millstream.kernel.sharing.axis import codes_of_values, comparable, dictionary, has_codes, moved
from millstream.kernel.sharing.block import AttributeSide, LineageBlock, ModuleFilter, build_filters
from millstream.kernel.sharing.identity import Recent
from millstream.kernel.sharing.lineage import Bitmaps
from millstream.kernel.sharing.predicates import (
    BlockPredicates,
    Entries,
    Predicates,
    ResidualRows,
    by_attribute,
    predicates_of,
)

_TABLE = 1 << 16  # the span of codes up to which a row's rank is looked up and not searched for
_ROWS = 1 << 15  # rows that are ranked together: what is computed on the way stays in the cache
_MAP = 1 << 15  # cuts up to which the map from all cuts to those of a block is kept
_SEARCH = 64  # a search costs as much as so many entries of a map
_FEW_CUTS = 16  # to compare with so many costs less than to search among them
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

    @cached_property
    def identity(self) -> bytes:
        """The same for axes with the same cuts, as far as these are codes of their own."""
        return hashlib.blake2b(self.cuts.tobytes(), digest_size=16).digest()

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
        if self.cuts.size <= _FEW_CUTS and self.constants is None and _are_numbers(values):
            return self._counted(values.to_numpy())
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

    @cached_property
    def _numbers(self) -> list[int]:
        """The whole numbers from which on there is one cut more at or below."""
        found: list[int] = ticks_of_codes(self.cuts).tolist()
        return found

    def _counted(self, values: npt.NDArray[np.signedinteger]) -> Positions:
        """Ranks of whole numbers, by comparing all of them with each cut."""
        bounds = np.iinfo(values.dtype)
        ranks = np.zeros(values.size, np.uint8)
        for cut in self._numbers:
            if cut <= bounds.min:
                ranks += np.uint8(1)
            elif cut <= bounds.max:
                ranks += (values >= values.dtype.type(cut)).view(np.uint8)
        return ranks.astype(np.intp)

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

    @property
    def size(self) -> int:
        return self.bits.nbytes + 2 * min(self.total, _MAP)

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
    residuals: tuple[ResidualRows, ...]


@dataclass(frozen=True)
class Index:
    axes: tuple[Axis, ...]
    blocks: tuple[IndexedBlock, ...]

    @property
    def size(self) -> int:
        return 4096 + sum(lookup.size for block in self.blocks for f in block.filters for lookup in f.lookups)


_blocks: Recent[LineageBlock] = Recent(1 << 29, lambda made: made.size)  # by what is asked
_blocks_of_pieces: Recent[LineageBlock] = Recent(1 << 29, lambda made: made.size)
_filters_of_blocks: Recent[tuple[BlockFilter, ...]] = Recent(
    1 << 28, lambda made: 256 + sum(lookup.size for each in made for lookup in each.lookups)
)
_indexes: Recent[Index] = Recent(1 << 30, lambda made: made.size)


def index_of(shapes: Mapping[str, Expression], segments: Sequence[Segment]) -> Index:
    """The index of the queries of these segments that are of some shapes, condition by name."""
    parts = [predicates_of(shapes, segment) for segment in segments]
    return _indexes.get(tuple([part.serial for part in parts]), lambda: _index(parts))


def _index(parts: Sequence[Predicates]) -> Index:
    pieces: dict[int, list[tuple[int, BlockPredicates]]] = {}
    for part in parts:
        for number, piece in part.pieces.items():
            pieces.setdefault(number, []).append((part.serial, piece))
    return _assembled([(_block(number, pieces[number]), pieces[number]) for number in sorted(pieces)])


def _block(number: int, pieces: Sequence[tuple[int, BlockPredicates]]) -> LineageBlock:
    """A block that is of the same pieces, or asks the same: segments that are merged leave it as it is, and those that
    lose queries of others do."""

    def found() -> LineageBlock:
        entries, dictionaries = _together([piece for _, piece in pieces])
        constants = [(attribute, *values) for attribute, values in dictionaries.items()]
        asked = number, *(values.tobytes() for values in vars(entries).values()), *constants
        return _blocks.get(asked, lambda: LineageBlock(number, *build_filters(entries), dictionaries))

    return _blocks_of_pieces.get((number, *(serial for serial, _ in pieces)), found)


def _together(pieces: Sequence[BlockPredicates]) -> tuple[Entries, dict[Expression, pl.Series]]:
    """All that is asked in a block, by query, and its dictionaries."""
    texts: dict[Expression, list[pl.Series]] = {}
    for piece in pieces:
        for attribute, constants in piece.dictionaries.items():
            texts.setdefault(attribute, []).append(constants)
    # In an order that does not depend on which piece is the first.
    dictionaries = {attribute: dictionary(texts[attribute]) for attribute in sorted(texts, key=repr)}
    if len(pieces) == 1:
        return pieces[0].entries, dictionaries
    found = [_moved(piece, dictionaries) for piece in pieces]
    queries, atoms, cuts = (
        np.argsort(np.concatenate(values), kind="stable")
        for values in ([e.queries for e in found], [e.atom_query for e in found], [e.cut_query for e in found])
    )
    return Entries(
        queries=np.concatenate([each.queries for each in found])[queries],
        atom_query=np.concatenate([each.atom_query for each in found])[atoms],
        atom_place=np.concatenate([each.atom_place for each in found])[atoms],
        first=np.concatenate([each.first for each in found])[atoms],
        null=np.concatenate([each.null for each in found])[atoms],
        cut_query=np.concatenate([each.cut_query for each in found])[cuts],
        cut_place=np.concatenate([each.cut_place for each in found])[cuts],
        cut=np.concatenate([each.cut for each in found])[cuts],
    ), dictionaries


def _moved(piece: BlockPredicates, dictionaries: Mapping[Expression, pl.Series]) -> Entries:
    """The piece's entries, with its cuts by other dictionaries."""
    if not piece.dictionaries:
        return piece.entries
    cuts = piece.entries.cut.copy()
    for attribute, here in by_attribute(piece.entries, piece.dictionaries):
        cuts[here] = moved(cuts[here], piece.dictionaries[attribute], dictionaries[attribute])
    return replace(piece.entries, cut=cuts)


def _assembled(found: Sequence[tuple[LineageBlock, Sequence[tuple[int, BlockPredicates]]]]) -> Index:
    texts: dict[Expression, list[pl.Series]] = {}
    for block, _ in found:
        for attribute, constants in block.dictionaries.items():
            texts.setdefault(attribute, []).append(constants)
    dictionaries = {attribute: dictionary(constants) for attribute, constants in texts.items()}
    current = [
        replace(block, filters=_by_dictionaries(block, dictionaries)) if block.dictionaries else block
        for block, _ in found
    ]
    cuts: dict[Expression, list[Codes]] = {}
    for block in current:
        for each in block.filters:
            for side in each.sides:
                cuts.setdefault(side.attribute, []).append(side.cuts)
    axes = {
        attribute: Axis(attribute, _constants(attribute, dictionaries), np.unique(np.concatenate(values)))
        for attribute, values in cuts.items()
    }
    numbered = {attribute: (number, axis) for number, (attribute, axis) in enumerate(axes.items())}
    indexed = [
        IndexedBlock(
            block.number,
            block.members,
            _filters(block, numbered),
            tuple(
                replace(residual, mask=residual.mask[: block.members.size])
                for _, piece in pieces
                for residual in piece.residuals
            ),
        )
        for block, (_, pieces) in zip(current, found, strict=True)
    ]
    return Index(tuple(axes.values()), tuple(indexed))


def _filters(block: LineageBlock, axes: Mapping[Expression, tuple[int, Axis]]) -> tuple[BlockFilter, ...]:
    """The filters of a block, by the ranks of axes. Most blocks, and the cuts of most axes, are those of the time
    before."""

    def made() -> tuple[BlockFilter, ...]:
        return tuple(
            BlockFilter(
                str(each.module),
                tuple(_lookup(side, axes[side.attribute][0], axes[side.attribute][1].cuts) for side in each.sides),
                each.relevant,
            )
            for each in block.filters
        )

    if block.dictionaries:
        return made()
    ranked = ((number, axis.identity) for number, axis in (axes[a] for a in block.attributes))
    return _filters_of_blocks.get((block.serial, *ranked), made)


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
