"""Lineage below a join: which rows of its inputs, and which pairs of them, some query of a group wants.

    a b   is made only where   some q of Q has conditions on A that hold on a, and conditions on B that hold on b

The clauses that ask about one input are CACQ's grouped filters of that input. Where a row lies on the axes of their
attributes is its signature, a number; the signature decides which queries want the row, as far as the input can tell.
Rows that nobody wants are not sent, and those that are stored lie apart from the ones that are found. When rows meet,
the queries of their signatures are ANDed. What asks about several inputs, or could fail, is left to the selection that
stands above the join.

SteMs keep all rows, whoever wants them, so that queries come and go without touching them. What is wanted of a segment
goes with one version of the query table and one role of the input: it is made when it is first needed, and lasts as
long as the segment.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np
import polars as pl

from millstream.kernel.batch import Batch
from millstream.kernel.columns import only, with_columns
from millstream.kernel.keys import Codes, Positions, key_codes
from millstream.kernel.operator import Segment, State
from millstream.kernel.scalar.evaluate import evaluate
from millstream.kernel.scalar.expressions import Expression, columns_used, shift_columns
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.identity import Recent
from millstream.kernel.sharing.index import Axis, BlockFilter, Index
from millstream.kernel.sharing.keyed_selection import KeyedSelection, QueriesByKey
from millstream.kernel.sharing.known_lineage import note_lineage
from millstream.kernel.sharing.lineage import Bitmaps, Flags, any_bit
from millstream.kernel.sharing.parameters import QUERIES
from millstream.kernel.sharing.signature_classes import SIGNATURE, ClassedPairs, SignatureClasses, Signatures, When
from millstream.kernel.storage.memory import can_keep_index
from millstream.kernel.storage.segments import codes_of

_TABLE = 1 << 13  # signatures up to which the bits of all of them are kept
_FLAGS = 1 << 18  # signatures, or combinations of some, up to which it is kept for each whether somebody wants it
_MOST = 1 << 62  # signatures are numbers
_ROWS = 1 << 12  # rows whose bits are looked at together: they stay in the cache
_SAMPLE = 1 << 10  # combinations that tell how many of them are wanted
_PROBED = 256  # rows that tell how many partners a row has
# Pairs, and pairs of each row, from which it is worth while to look for those that somebody wants by classes.
_FEW_PAIRS, _FEW_PARTNERS = 1 << 9, 1
_WORDS = 1 << 19  # of the lineage of all pairs of classes
_FLAGS_EACH = 4  # pairs of classes that may be compared for each pair that is looked at
_VERSIONS = 256  # of query tables that are remembered
_WORTH_IT = 0.75  # where more are wanted, looking for the others costs more than making them


class InputSelections:
    """What the queries that a step selects for ask of the inputs of a join, which have so many columns each."""

    def __init__(self, step: str, widths: Sequence[int], selection: GroupedSelection | KeyedSelection) -> None:
        self.step, self.widths, self.selection = step, tuple(widths), selection

    @property
    def is_indexed(self) -> bool:
        """Whether queries are found by comparisons of any attributes, and not by a key that each has."""
        return isinstance(self.selection, GroupedSelection)

    def of(self, state: State) -> InputLineage:
        """For the version of the query table that a step is given with its state."""
        table = state.get(QUERIES, ())
        if isinstance(self.selection, KeyedSelection):
            return self.lineage(self.selection.queries(table))
        return self.lineage(self.selection.index(table))

    def lineage(self, queries: Index | QueriesByKey | None) -> InputLineage:
        """What these queries want."""
        return _lineages.get((self.step, id(queries)), lambda: self._made(queries))

    def _made(self, queries: Index | QueriesByKey | None) -> InputLineage:
        inputs = [
            self._indexed(queries, source) if isinstance(queries, Index) else self._keyed(queries, source)
            for source in range(len(self.widths))
        ]
        return InputLineage(self.step, inputs, queries)

    def _own(self, attribute: Expression, source: int) -> Expression | None:
        """An attribute as a column of the input; None where it is one of another."""
        first = sum(self.widths[:source])
        read = columns_used(attribute)
        is_own = all(first <= column < first + self.widths[source] for column in read)
        return shift_columns(attribute, -first) if is_own else None

    def _keyed(self, asked: QueriesByKey | None, source: int) -> Input:
        own = self._own(self.selection.key, source) if isinstance(self.selection, KeyedSelection) else None
        if own is None:
            return _Everything()
        return _KeyedInput(own, np.zeros(0, np.uint64) if asked is None else codes_of(asked.found))

    def _indexed(self, index: Index, source: int) -> Input:
        axes: dict[int, Axis] = {}
        for number, axis in enumerate(index.axes):
            attribute = self._own(axis.attribute, source)
            size = prod(known.cuts.size + 2 for known in axes.values())
            if attribute is not None and size * (axis.cuts.size + 2) < _MOST:
                axes[number] = replace(axis, attribute=attribute)
        filters = [
            [each for each in block.filters if all(lookup.axis in axes for lookup in each.lookups)]
            for block in index.blocks
        ]
        if index.blocks and not any(filters):
            return _Everything()
        return IndexedInput(axes, filters, [block.members for block in index.blocks])


class Input(Protocol):
    """What is asked of one input."""

    def find(self, rows: Segment) -> tuple[Flags | None, Signatures | None]:
        """Which rows some query may want (None: all of them), and their signatures, if they have such."""
        ...


class _Everything:
    """Nothing is asked that the input alone could tell."""

    def find(self, rows: Segment) -> tuple[Flags | None, Signatures | None]:
        return None, None


class _KeyedInput:
    """The input with the key: its values that some query asks for are known by their codes, in order."""

    def __init__(self, key: Expression, codes: Codes) -> None:
        self.key, self.codes = key, codes

    def find(self, rows: Segment) -> tuple[Flags | None, Signatures | None]:
        if not self.codes.size:
            return np.zeros(rows.height, np.bool_), None
        asked = evaluate(rows, [self.key], ["key"])
        codes = key_codes(asked, ["key"])
        places = np.minimum(self.codes.searchsorted(codes), self.codes.size - 1)
        return (self.codes[places] == codes) & asked["key"].is_not_null().to_numpy(), None


@dataclass(frozen=True)
class SignaturesByQueries:
    """Signatures that the same queries want are of one class: the class of each, and the queries of each class, a flag
    for each bit of all blocks."""

    of: Positions
    queries: Flags

    @property
    def count(self) -> int:
        return len(self.queries)


class IndexedInput:
    """The axes of an input, by their numbers in the index, and the filters on them, block by block."""

    def __init__(
        self, axes: Mapping[int, Axis], filters: Sequence[Sequence[BlockFilter]], members: Sequence[Bitmaps]
    ) -> None:
        self.axes, self.filters, self._members = dict(axes), filters, members
        sizes = [axis.cuts.size + 2 for axis in axes.values()]
        self.count = prod(sizes)
        self._places = {
            number: (prod(sizes[place + 1 :]), sizes[place]) for place, number in enumerate(self.axes)
        }  # of an axis in a signature: what its rank is multiplied by, and how many ranks it has
        self._tables: dict[int, Bitmaps] = {}
        # A query that asks nothing of the input wants all its rows.
        self._wants_all = any(
            any_bit(all_of[None] & ~_relevant(each, all_of)[None])[0]
            for each, all_of in zip(filters, members, strict=True)
        )

    def find(self, rows: Segment) -> tuple[Flags | None, Signatures | None]:
        signatures = np.zeros(rows.height, np.int64)
        for number, axis in self.axes.items():
            signatures += axis.ranks(rows) * self._places[number][0]
        if self._wants_all:
            return None, signatures
        return self.wanted(signatures), signatures

    def wanted(self, signatures: Signatures) -> Flags:
        if self.count <= _FLAGS:
            return self._flags.take(signatures)
        return self._wanted(signatures)

    @cached_property
    def _flags(self) -> Flags:
        return self._wanted(np.arange(self.count))

    def _wanted(self, signatures: Signatures) -> Flags:
        return wanted_together([(self, signatures)], len(self.filters))

    @cached_property
    def classes(self) -> SignaturesByQueries:
        every = np.arange(self.count)
        found = [self.bits(block, every) for block in range(len(self.filters))]
        parts = [
            np.broadcast_to(members, (self.count, members.size)) if bits is None else bits
            for bits, members in zip(found, self._members, strict=True)
        ]
        together = np.ascontiguousarray(np.hstack(parts))
        rows = together.view(np.dtype((np.void, together.itemsize * together.shape[1])))[:, 0]
        _, firsts, of = np.unique(rows, return_index=True, return_inverse=True)
        queries = np.unpackbits(together[firsts].view(np.uint8), axis=1, bitorder="little")
        return SignaturesByQueries(of, queries.view(np.bool_))

    def bits(self, block: int, signatures: Signatures) -> Bitmaps | None:
        """The queries of a block that want rows of these signatures; None where the input says nothing of any."""
        if not self.filters[block]:
            return None
        if self.count > _TABLE:
            return self._bits(block, signatures)
        if block not in self._tables:
            self._tables[block] = self._bits(block, np.arange(self.count))
        return self._tables[block].take(signatures, axis=0)

    def _bits(self, block: int, signatures: Signatures) -> Bitmaps:
        found: Bitmaps | None = None
        for each in self.filters[block]:
            accepted: Bitmaps | None = None
            for lookup in each.lookups:
                stride, size = self._places[lookup.axis]
                bits = lookup.bits.take(lookup.rows(signatures // stride % size), axis=0)
                accepted = bits if accepted is None else np.bitwise_or(accepted, bits, out=accepted)
            assert accepted is not None
            found = accepted if found is None else np.bitwise_and(found, accepted, out=found)
        assert found is not None
        return found


def _relevant(filters: Sequence[BlockFilter], members: Bitmaps) -> Bitmaps:
    found = np.zeros_like(members)
    for each in filters:
        found |= each.relevant
    return found


def wanted_together(parts: Sequence[tuple[IndexedInput, Signatures]], blocks: int) -> Flags:
    """Which combinations of rows, one of each input, some query wants, as far as these inputs can tell."""
    count = parts[0][1].size
    wanted = np.zeros(count, np.bool_)
    for low in range(0, count, _ROWS):
        left: Positions = np.arange(low, min(low + _ROWS, count))
        for block in range(blocks):
            found: Bitmaps | None = None
            for own, signatures in parts:
                bits = own.bits(block, signatures[left])
                if bits is not None:
                    found = bits if found is None else np.bitwise_and(found, bits, out=found)
            flags = np.ones(left.size, np.bool_) if found is None else any_bit(found)
            wanted[left[flags]] = True
            left = left[~flags]
            if not left.size:
                break
    return wanted


class InputLineage:
    """What is wanted of the inputs of a join, by one version of the query table."""

    def __init__(self, step: str, inputs: Sequence[Input], queries: Index | QueriesByKey | None) -> None:
        self.step, self.inputs = step, inputs
        self._queries = queries  # held, so that nothing else gets its identity meanwhile
        self._blocks = len(queries.blocks) if isinstance(queries, Index) else 0
        self._is_paired = sum(isinstance(own, IndexedInput) for own in inputs) > 1
        self._flags: dict[tuple[int, ...], Flags] = {}
        self._paired: SignatureClasses | None = None
        self._looked_at = 0.0  # pairs, before there were classes

    def flags(self, source: int, rows: Segment) -> tuple[Flags | None, Signatures | None]:
        """Which rows of an input some query may want (None: all of them), and their signatures where pairs of rows are
        looked at."""
        flags, signatures = self.inputs[source].find(rows)
        return flags, signatures if self._is_paired else None

    def note_unwanted(self, source: int, segment: Segment, made_of: Sequence[Segment] = ()) -> None:
        """No query wants any of the rows; unless they come from segments of which that is not known."""
        if all(self._known_of(source, part) is _NOTHING for part in made_of):
            _versions_of(segment)[self.step, source] = self, _NOTHING, 0

    def _known_of(self, source: int, segment: Segment) -> Segment | None:
        known = _wanted_rows.get(id(segment), {}).get((self.step, source))
        return known[1] if known is not None and known[0] is self else None

    def wanted(self, source: int, segment: Segment, arrange: Callable[[Segment], Segment] | None = None) -> Segment:
        """Of a segment of an input the rows that some query may want, with signatures where pairs of rows are looked
        at; they are kept beside the segment. They are arranged first where the segment is not."""
        if not segment.height or (arrange is None and isinstance(self.inputs[source], _Everything)):
            return segment
        versions = _versions_of(segment)
        before = versions.get((self.step, source))
        if before is not None and before[0] is self:
            return segment if before[1] is None else before[1]
        rows = self._rows(source, segment)
        if arrange is not None:
            rows = segment if rows is None else rows
            rows = arrange(rows) if rows.height else _NOTHING
        size = 0 if rows is None else int(rows.estimated_size())
        counted = 0 if before is None else before[2]
        versions.pop((self.step, source), None)
        if size <= counted or can_keep_index(segment, size - counted):
            versions[self.step, source] = self, rows, max(size, counted)
        return segment if rows is None else rows

    def _rows(self, source: int, segment: Segment) -> Segment | None:
        """None for the segment itself."""
        flags, signatures = self.inputs[source].find(segment)
        if signatures is None or not self._is_paired:
            return None if flags is None or flags.all() else only(segment, flags)
        signed = with_columns(segment, pl.Series(SIGNATURE, signatures))
        return signed if flags is None else only(signed, flags)

    def side_by_side(self, rows: Mapping[int, Segment]) -> tuple[Positions | None, dict[int, Signatures]]:
        """Of rows of some inputs that stand side by side: those that some query may want (None: all), and the
        signatures of their parts."""
        flags: Flags | None = None
        signatures: dict[int, Signatures] = {}
        for source, part in rows.items():
            own, signed = self.inputs[source].find(part)
            flags = own if flags is None else flags if own is None else flags & own
            if signed is not None and self._is_paired:
                signatures[source] = signed
        kept = None if flags is None or flags.all() else np.flatnonzero(flags)
        signatures = signatures if kept is None else {source: each[kept] for source, each in signatures.items()}
        wanted = self.together(signatures) if signatures else None
        if wanted is None or wanted.all():
            return kept, signatures
        left = np.flatnonzero(wanted)
        return left if kept is None else kept[left], {source: each[left] for source, each in signatures.items()}

    def together(self, signatures: Mapping[int, Signatures]) -> Flags | None:
        """Which combinations of rows of some inputs may be wanted; None where most of them are."""
        parts = [
            (own, signatures[source])
            for source, own in enumerate(self.inputs)
            if source in signatures and isinstance(own, IndexedInput)
        ]
        if len(parts) < 2:
            return None
        count, all_of = parts[0][1].size, prod(own.count for own, _ in parts)
        among = tuple(sorted(signatures))
        if among in self._flags or all_of <= min(_FLAGS, 4 * count):
            if among not in self._flags:
                self._flags[among] = self._grid([own for own, _ in parts])
            places = np.zeros(count, np.int64)
            for own, each in parts:
                places = places * own.count + each
            return self._flags[among].take(places)
        if count > 4 * _SAMPLE:
            some = np.arange(0, count, count // _SAMPLE)
            sampled = wanted_together([(own, each[some]) for own, each in parts], self._blocks)
            if np.count_nonzero(sampled) >= _WORTH_IT * some.size:
                return None
        return wanted_together(parts, self._blocks)

    def note_pairs(self, batch: Batch, places: Sequence[Positions]) -> None:
        """The pairs of a batch are of the classes at these places: the selection need not look what they are, if all
        that queries ask is asked of one of the inputs."""
        lineage = self._lineage_of_pairs
        if lineage is not None and isinstance(self._queries, Index):
            note_lineage(batch, self._queries, lineage, places)

    @cached_property
    def _lineage_of_pairs(self) -> Bitmaps | None:
        """By classes, where these say all, and there are not too many of them."""
        if self._paired is None or not isinstance(self._queries, Index) or len(self._queries.blocks) != 1:
            return None
        (block,) = self._queries.blocks
        known = {id(each) for own in self.inputs if isinstance(own, IndexedInput) for each in own.filters[0]}
        if block.residuals or not known.issuperset(map(id, block.filters)):
            return None
        return self._paired.lineage() if self._paired.count * block.members.size <= _WORDS else None

    def candidates(
        self, probe: Segment, stored: Segment, source: int, when: When | None = None
    ) -> Iterator[ClassedPairs] | None:
        """(row of the probe, row of what is stored of one of two inputs, place of their classes) of equal codes, only
        where some query may want both; None where it costs less to look at all. Those may be left out that do not start
        `when` they would have to."""
        if SIGNATURE not in probe.columns or not stored.height:
            return None
        some = codes_of(probe)[:: max(1, probe.height // _PROBED)]
        codes = codes_of(stored)
        found = codes.searchsorted(some, side="right") - codes.searchsorted(some)
        looked_at = float(found.mean()) * probe.height
        if looked_at < _FEW_PARTNERS * probe.height or looked_at < _FEW_PAIRS:
            return None
        classes = self._classes(looked_at)
        return None if classes is None else classes.candidates(probe, stored, source, looked_at, when)

    def _classes(self, looked_at: float) -> SignatureClasses | None:
        """Of two inputs; made when so many pairs have been looked at that it pays."""
        self._looked_at += looked_at
        if self._paired is None:
            inputs = [own for own in self.inputs if isinstance(own, IndexedInput)]
            if len(inputs) != 2 or any(own.count > _TABLE for own in inputs):
                return None
            own = [own.classes for own in inputs]
            if own[0].count * own[1].count > min(_FLAGS, _FLAGS_EACH * self._looked_at):
                return None
            self._paired = SignatureClasses(own[0].of, own[1].of, own[0].queries, own[1].queries)
        return self._paired

    def _grid(self, inputs: Sequence[IndexedInput]) -> Flags:
        """Of all combinations of signatures, those that are wanted."""
        places = np.arange(prod(own.count for own in inputs))
        parts = []
        for number, own in enumerate(inputs):
            stride = prod(other.count for other in inputs[number + 1 :])
            parts.append((own, places // stride % own.count))
        return wanted_together(parts, self._blocks)


_lineages: Recent[InputLineage] = Recent(_VERSIONS, lambda made: 1)
# What is wanted of segments, by their identity and then by selection and input: the version, the rows (None: all of the
# segment) and the bytes that are accounted for.
_WantedRows = dict[tuple[str, int], tuple[InputLineage, Segment | None, int]]
_wanted_rows: dict[int, _WantedRows] = {}
_NOTHING = pl.DataFrame()  # of rows that lie apart


def _versions_of(segment: Segment) -> _WantedRows:
    found = _wanted_rows.get(id(segment))
    if found is None:
        found = _wanted_rows[id(segment)] = {}
        weakref.finalize(segment, _wanted_rows.pop, id(segment), None)
    return found
