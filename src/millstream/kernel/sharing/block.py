"""The grouped filters of one block of queries: for each interval between cuts, the bitmap of the queries it satisfies.

    bits[i] = the queries whose clauses over the attribute hold on the i-th interval; the last row is for NULL

Queries without a clause in a module have their bit everywhere. Of a module over several attributes a row takes the OR
over the attributes, so these queries have their bit with the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

import numpy as np
import polars as pl

from millstream.kernel.keys import Codes
from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.sharing.identity import value_of
from millstream.kernel.sharing.lineage import BLOCK_SIZE, WORD_BITS, WORDS, Bitmaps, Flags, bit_of, bitmap, word_of
from millstream.kernel.sharing.predicates import AtomPosition, Entries, Module

_serials = count()


@dataclass(frozen=True)
class AttributeSide:
    """One attribute of a module: row i of `bits` is for the codes from cuts[i - 1] to before cuts[i]."""

    attribute: Expression
    cuts: Codes
    bits: Bitmaps


@dataclass(frozen=True)
class ModuleFilter:
    """A module's part in a block. Rows that none of `relevant` wants any more need not go there."""

    module: Module
    sides: tuple[AttributeSide, ...]
    relevant: Bitmaps


@dataclass(frozen=True)
class LineageBlock:
    """Cuts of attributes without codes are by the dictionaries it was made with."""

    number: int
    members: Bitmaps
    filters: tuple[ModuleFilter, ...]
    dictionaries: dict[Expression, pl.Series]
    serial: int = field(default_factory=_serials.__next__)  # that no other block has, but for one by other dictionaries

    @cached_property
    def attributes(self) -> tuple[Expression, ...]:
        return tuple(dict.fromkeys(side.attribute for each in self.filters for side in each.sides))

    @property
    def size(self) -> int:
        return 4096 + sum(side.bits.nbytes + side.cuts.nbytes for f in self.filters for side in f.sides)


def build_filters(entries: Entries) -> tuple[Bitmaps, tuple[ModuleFilter, ...]]:
    """The members of a block and its filters, in as many words as they need."""
    queries = entries.queries
    width = int((queries % BLOCK_SIZE).max()) // WORD_BITS + 1
    members = bitmap(queries)[:width]
    numbers = np.unique(entries.atom_place)
    places = [value_of(int(number)) for number in numbers]
    modules: dict[Module, list[tuple[int, AtomPosition]]] = {}
    for number, place in zip(numbers.tolist(), places, strict=True):
        assert isinstance(place, AtomPosition)
        modules.setdefault(place.module, []).append((number, place))
    # In an order that does not depend on what else the process has numbered before.
    filters = [_filter(module, modules[module], members, entries) for module in sorted(modules, key=str)]
    return members, tuple(filters)


def _filter(
    module: Module, places: Sequence[tuple[int, AtomPosition]], members: Bitmaps, entries: Entries
) -> ModuleFilter:
    with_atoms = bitmap(entries.atom_query[np.isin(entries.atom_place, [number for number, _ in places])])
    relevant = with_atoms[: members.size]
    sides = []
    for attribute in module.attributes:
        here = [(number, place) for number, place in places if place.attribute == attribute]
        # Without a clause in this module, a query accepts every row: it is enough that one of its sides says so.
        others = members & ~relevant if attribute == module.attributes[0] else np.zeros_like(members)
        sides.append(_side(attribute, here, others, members, entries, len(module.attributes) == 1))
    return ModuleFilter(module, tuple(sides), relevant)


def _side(
    attribute: Expression,
    places: Sequence[tuple[int, AtomPosition]],
    others: Bitmaps,
    members: Bitmaps,
    entries: Entries,
    single: bool,
) -> AttributeSide:
    cuts = np.unique(entries.cut[np.isin(entries.cut_place, [number for number, _ in places])])
    clauses: dict[int, list[int]] = {}
    for number, place in places:
        clauses.setdefault(place.clause, []).append(number)
    bits = np.zeros((cuts.size + 2, members.size), np.uint64)
    bits[:] = members if single else others
    for numbers in clauses.values():
        holds = np.zeros_like(bits)
        with_atoms = np.zeros(WORDS, np.uint64)
        for number in numbers:
            atoms, changes = entries.atom_place == number, entries.cut_place == number
            with_atoms |= bitmap(entries.atom_query[atoms])
            holds |= _atom_bits(cuts, atoms, changes, members.size, entries)
        if single:
            bits &= holds | (members & ~with_atoms[: members.size])
        else:
            bits |= holds
    return AttributeSide(attribute, cuts, bits)


def _atom_bits(cuts: Codes, atoms: Flags, changes: Flags, width: int, entries: Entries) -> Bitmaps:
    """The bits of one atom of each query: those of the first interval, changed at every cut, and those of NULL."""
    bits = np.zeros((cuts.size + 2, width), np.uint64)
    queries = entries.atom_query[atoms]
    first, null = queries[entries.first[atoms]], queries[entries.null[atoms]]
    bits[0] = bitmap(first)[:width]
    queries = entries.cut_query[changes]
    rows = cuts.searchsorted(entries.cut[changes]) + 1
    np.bitwise_xor.at(bits, (rows, word_of(queries)), bit_of(queries))
    np.bitwise_xor.accumulate(bits[:-1], axis=0, out=bits[:-1])
    bits[-1] = bitmap(null)[:width]
    return bits
