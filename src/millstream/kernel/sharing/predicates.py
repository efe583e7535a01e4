"""What the queries of one segment ask of each attribute: the grouped filter's entries, in columns.

Every atom of every query is a set of values of its attribute, written as cuts:

    a < c   from below everything to before c        a = c   between before c and after c
    a >= c  from before c on                         a <> c  everything, but not between before c and after c

that is, whether the set holds below everything (`first`), the cuts at which it changes between holding and not, and
whether it has NULL (`null`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, count

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import value_column
from millstream.kernel.keys import Codes, Positions
from millstream.kernel.scalar.evaluate import evaluate
from millstream.kernel.scalar.expressions import (
    Column,
    Expression,
    Parameter,
    column_names,
    conjunction,
    map_columns,
    memoized,
)
from millstream.kernel.sharing.axis import LAST_CODE, codes_of_constants, comparable, dictionary, has_codes
from millstream.kernel.sharing.identity import Recent, number_of, serial_of, value_of
from millstream.kernel.sharing.lineage import BLOCK_SIZE, Bitmaps, Flags, bitmap
from millstream.kernel.sharing.normal_form import Atom, normal_form
from millstream.kernel.sharing.parameters import QUERY, parameters_as_columns, shapes_of

Numbers = npt.NDArray[np.int64]

# No text has this byte: whatever begins with p lies between p and p followed by it, and nothing else does.
_PAST_PREFIX = b"\xff"


@dataclass(frozen=True)
class Module:
    """What rows are routed to: the clauses over one attribute, or a clause over several. Where queries have more than
    one clause over the same several attributes, each is in a module of its own."""

    attributes: tuple[Expression, ...]
    ordinal: int = 0

    def __str__(self) -> str:
        """By the positions of columns: names are for display, and different columns may have the same."""
        shown = " or ".join(str(map_columns(each, _by_position)) for each in self.attributes)
        return f"{shown} ({self.ordinal + 1})" if self.ordinal else shown


def _by_position(column: Column) -> Column:
    return replace(column, name=value_column(column.index))


@dataclass(frozen=True)
class AtomPosition:
    """Where an atom stands: in a clause of a module, as one of its atoms over the attribute."""

    module: Module
    attribute: Expression
    clause: int
    position: int


@dataclass(frozen=True)
class ConditionAtoms:
    """A condition taken apart: the numbers of its atoms with their places, and what must be evaluated row by row."""

    atoms: tuple[int, ...]
    residual: Expression | None
    possible: bool


def atoms_of(condition: Expression) -> ConditionAtoms:
    return memoized(condition, "atoms", lambda node: _taken_apart(node, column_names(node)))


@lru_cache(maxsize=1 << 14)
def _taken_apart(condition: Expression, names: tuple[str, ...]) -> ConditionAtoms:
    form = normal_form(condition)
    atoms: list[int] = []
    clauses: Counter[tuple[Expression, ...]] = Counter()
    for clause in form.clauses:
        among = {atom.attribute for atom in clause}
        attributes = tuple(sorted(among, key=repr) if len(among) > 1 else among)
        ordinal, single = clauses[attributes], len(attributes) == 1
        clauses[attributes] += 1
        module = Module(attributes, 0 if single else ordinal)
        positions: Counter[Expression] = Counter()
        for atom in clause:
            place = AtomPosition(module, atom.attribute, ordinal if single else 0, positions[atom.attribute])
            positions[atom.attribute] += 1
            atoms.append(number_of((number_of(place), atom)))
    residual = conjunction(list(form.residual)) if form.residual else None
    return ConditionAtoms(tuple(atoms), residual, () not in form.clauses)


@dataclass(frozen=True, eq=False)
class Entries:
    """What queries ask for, by query: a row per query, per atom of a query, per cut of an atom."""

    queries: Numbers
    atom_query: Numbers
    atom_place: Numbers
    first: Flags
    null: Flags
    cut_query: Numbers
    cut_place: Numbers
    cut: Codes

    def of_block(self, block: int) -> Entries:
        bounds = [block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE]
        queries, atoms, cuts = (
            slice(*found.searchsorted(bounds)) for found in (self.queries, self.atom_query, self.cut_query)
        )
        return Entries(
            self.queries[queries],
            self.atom_query[atoms],
            self.atom_place[atoms],
            self.first[atoms],
            self.null[atoms],
            self.cut_query[cuts],
            self.cut_place[cuts],
            self.cut[cuts],
        )


@dataclass(frozen=True, eq=False)
class ResidualRows:
    """Queries of one shape and block, and what is left to evaluate for them: `row` is their row of the table."""

    condition: Expression
    table: pl.DataFrame
    row: Positions  # by bit
    mask: Bitmaps


@dataclass(frozen=True, eq=False)
class BlockPredicates:
    """What a segment has of a block. Cuts of attributes without codes are by `dictionaries`, which has the piece's
    constants for each."""

    entries: Entries
    dictionaries: dict[Expression, pl.Series]
    residuals: tuple[ResidualRows, ...]


@dataclass(frozen=True, eq=False)
class Predicates:
    """All that the queries of a segment ask for, made of these conditions of its shapes."""

    serial: int
    shapes: tuple[str, ...]
    conditions: tuple[Expression | None, ...]
    entries: Entries
    dictionaries: dict[Expression, pl.Series]
    residuals: tuple[tuple[Expression, Positions], ...]  # with the rows of the table that it is for
    table: pl.DataFrame

    @cached_property
    def pieces(self) -> dict[int, BlockPredicates]:
        """By block."""
        residuals: dict[int, list[ResidualRows]] = {}
        for condition, rows in self.residuals:
            for block, residual in self._residuals(condition, rows):
                residuals.setdefault(block, []).append(residual)
        return {
            block: BlockPredicates(
                *_of_own(self.entries.of_block(block), self.dictionaries), tuple(residuals.get(block, ()))
            )
            for block in np.unique(self.entries.queries // BLOCK_SIZE).tolist()
        }

    def _residuals(self, condition: Expression, rows: Positions) -> Iterator[tuple[int, ResidualRows]]:
        queries = self.table[QUERY].to_numpy()[rows]
        blocks = queries // BLOCK_SIZE
        for block in np.unique(blocks).tolist():
            here = blocks == block
            by_bit = np.zeros(BLOCK_SIZE, np.intp)
            by_bit[queries[here] % BLOCK_SIZE] = rows[here]
            yield block, ResidualRows(condition, self.table, by_bit, bitmap(queries[here]))

    @property
    def size(self) -> int:
        entries = self.entries
        return 32 * (entries.queries.size + entries.atom_query.size + entries.cut_query.size)


_serials = count()
_recent: Recent[Predicates] = Recent(1 << 28, lambda made: made.size)


def predicates_of(shapes: Mapping[str, Expression], segment: pl.DataFrame) -> Predicates:
    """What the queries of a segment ask for that are of these shapes, condition by name."""

    def is_of(made: Predicates) -> bool:
        return tuple(map(shapes.get, made.shapes)) == made.conditions

    return _recent.get(serial_of(segment), lambda: _predicates(shapes, segment), is_of)


def _of_own(
    entries: Entries, dictionaries: Mapping[Expression, pl.Series]
) -> tuple[Entries, dict[Expression, pl.Series]]:
    """Entries by dictionaries that have no constants but theirs."""
    found: dict[Expression, pl.Series] = {}
    cuts = entries.cut.copy() if dictionaries else entries.cut
    for attribute, here in by_attribute(entries, dictionaries):
        index = (cuts[here] - np.uint64(1)) >> np.uint64(1)
        used, places = np.unique(index, return_inverse=True)
        found[attribute] = dictionaries[attribute][used.astype(np.int64)]
        cuts[here] += (places.astype(np.uint64) - index) * np.uint64(2)
    return replace(entries, cut=cuts), found


def by_attribute(entries: Entries, attributes: Mapping[Expression, object]) -> Iterator[tuple[Expression, Flags]]:
    """Which of the cuts are those of some attributes."""
    numbers: dict[Expression, list[int]] = {}
    for number in np.unique(entries.cut_place).tolist() if attributes else ():
        place = value_of(number)
        assert isinstance(place, AtomPosition)
        if place.attribute in attributes:
            numbers.setdefault(place.attribute, []).append(number)
    for attribute, places in numbers.items():
        yield attribute, np.isin(entries.cut_place, places)


def _predicates(shapes: Mapping[str, Expression], segment: pl.DataFrame) -> Predicates:
    names, which = shapes_of(segment)
    conditions = tuple(map(shapes.get, names))
    taken = [None if condition is None else atoms_of(condition) for condition in conditions]
    usable = [None if each is None or not each.possible else each for each in taken]
    asked = [() if each is None else each.atoms for each in usable]
    queries = segment[QUERY].to_numpy()
    rows = np.flatnonzero(np.array([each is not None for each in usable], np.bool_)[which])
    rows = rows[np.argsort(queries[rows], kind="stable")]
    of_shape = which[rows]
    counts = np.array([len(each) for each in asked], np.intp)
    atoms = np.fromiter(chain.from_iterable(asked), np.int64)[_ranges(counts.cumsum() - counts, counts, of_shape)]
    entry_row = rows.repeat(counts[of_shape])
    atom_place, first, null, cut_entry, cut, dictionaries = _answered(atoms, entry_row, segment)
    atom_query = queries[entry_row]
    with_residual = [number for number, each in enumerate(usable) if each is not None and each.residual is not None]
    return Predicates(
        serial=next(_serials),
        shapes=names,
        conditions=conditions,
        entries=Entries(
            queries[rows], atom_query, atom_place, first, null, atom_query[cut_entry], atom_place[cut_entry], cut
        ),
        dictionaries=dictionaries,
        residuals=tuple((usable[number].residual, np.flatnonzero(which == number)) for number in with_residual),  # type: ignore[misc, union-attr]
        table=segment,
    )


def _ranges(starts: Positions, counts: Positions, chosen: Positions) -> Positions:
    """The numbers from each of the chosen starts on, as many as there are of it."""
    lengths = counts[chosen]
    before: Positions = lengths.cumsum() - lengths
    return (starts[chosen] - before).repeat(lengths) + np.arange(int(lengths.sum()))


def _answered(
    atoms: Numbers, rows: Positions, segment: pl.DataFrame
) -> tuple[Numbers, Flags, Flags, Positions, Codes, dict[Expression, pl.Series]]:
    """Of atoms, each of a row of the segment: (place, first, null), and (which atom, cut) by atom. Many shapes are made
    of few atoms, and each kind of these is answered once."""
    numbers, kind = np.unique(atoms, return_inverse=True)
    kinds: list[tuple[int, Atom]] = [value_of(number) for number in numbers.tolist()]  # type: ignore[misc]
    simple = [_is_simple(atom) for _, atom in kinds]
    first, null, cuts = _compared([atom for _, atom in kinds], simple, kind, rows, segment)
    texts: dict[Expression, list[pl.Series]] = {}
    edges: list[tuple[Positions, _Edge]] = []
    for number, here in _apart(kind, simple):
        first[here], null[here], made = _edges(kinds[number][1], segment[rows[here]])
        for edge in made:
            edges.append((here, edge))
            if not has_codes(edge.attribute.type):
                texts.setdefault(edge.attribute, []).append(edge.constants)
    dictionaries = {attribute: dictionary(constants) for attribute, constants in texts.items()}
    for here, edge in edges:
        found, codes = _cuts(edge, dictionaries.get(edge.attribute))
        cuts.append((here[found], codes))
    entries = np.concatenate([np.zeros(0, np.intp), *(found for found, _ in cuts)])
    codes = np.concatenate([np.zeros(0, np.uint64), *(codes for _, codes in cuts)])
    order = np.argsort(entries, kind="stable")
    places = np.array([place for place, _ in kinds], np.int64)[kind]
    return places, first, null, entries[order], codes[order], dictionaries


def _apart(kind: Positions, simple: Sequence[bool]) -> Iterator[tuple[int, Positions]]:
    """The entries of each kind of atom that is not simple."""
    entries = np.flatnonzero(~np.array(simple, np.bool_)[kind])
    if entries.size:
        entries = entries[np.argsort(kind[entries], kind="stable")]
        numbers, starts = np.unique(kind[entries], return_index=True)
        yield from zip(numbers.tolist(), np.split(entries, starts[1:]), strict=True)


def _is_simple(atom: Atom) -> bool:
    """Whether it compares with one constant, and both have codes of their own: many kinds are answered together."""
    if not atom.operands:
        return True
    return len(atom.operands) == 1 and isinstance(atom.operands[0], Parameter) and has_codes(atom.attribute.type)


# By operator, of a constant that is known and of one that is NULL: whether the set holds below everything, whether it
# has NULL; and the cuts at a constant that is known.
_SETS = {
    "<": ((True, False), (False, False), "before"),
    "<=": ((True, False), (False, False), "after"),
    ">": ((False, False), (False, False), "after"),
    ">=": ((False, False), (False, False), "before"),
    "=": ((False, False), (False, False), "both"),
    "<>": ((True, False), (False, False), "both"),
    "in": ((False, False), (False, False), "both"),
    "not in": ((True, False), (False, False), "both"),
    "<=>": ((False, False), (False, True), "both"),
    "not <=>": ((True, True), (True, False), "both"),
    "isnull": ((False, True), (False, True), ""),
    "isnotnull": ((True, False), (True, False), ""),
}


def _compared(
    kinds: Sequence[Atom], simple: Sequence[bool], kind: Positions, rows: Positions, segment: pl.DataFrame
) -> tuple[Flags, Flags, list[tuple[Positions, Codes]]]:
    """(first, null) of all atoms, and the cuts, as far as they are of simple kinds."""
    sets = [
        _SETS[atom.operator] if is_simple else ((False, False), (False, False), "")
        for atom, is_simple in zip(kinds, simple, strict=True)
    ]
    operands = [
        atom.operands[0] if is_simple and atom.operands else None for atom, is_simple in zip(kinds, simple, strict=True)
    ]
    columns = {operand: number for number, operand in enumerate(dict.fromkeys(operands))}
    codes = np.zeros((len(columns), segment.height), np.uint64)
    known = np.ones((len(columns), segment.height), np.bool_)
    for operand, number in columns.items():
        if operand is not None:
            constants = _constants(operand, segment)
            known[number] = constants.is_not_null().to_numpy()
            codes[number, known[number]] = codes_of_constants(constants.drop_nulls(), None)
    column = np.array([columns[operand] for operand in operands], np.intp)[kind]
    is_known, code = known[column, rows], codes[column, rows]
    holds = np.array([(known, unknown) for known, unknown, _ in sets], np.bool_).reshape(len(sets), 2, 2)
    first, null = (np.where(is_known, holds[kind, 0, place], holds[kind, 1, place]) for place in (0, 1))
    before = np.array([cut in ("before", "both") for *_, cut in sets], np.bool_)[kind] & is_known
    after = np.array([cut in ("after", "both") for *_, cut in sets], np.bool_)[kind] & is_known & (code != LAST_CODE)
    lower, upper = np.flatnonzero(before), np.flatnonzero(after)
    return first, null, [(lower, code[lower]), (upper, code[upper] + np.uint64(1))]


@dataclass(frozen=True, eq=False)
class _Edge:
    """Cuts that some queries make at their constants: before them, after them, or both."""

    attribute: Expression
    rows: Positions
    constants: pl.Series
    before: bool
    after: bool


def _edges(atom: Atom, segment: pl.DataFrame) -> tuple[Flags, Flags, list[_Edge]]:
    """Where the atom of each query holds: below everything, at NULL, and the cuts between."""
    always, never = np.ones(segment.height, np.bool_), np.zeros(segment.height, np.bool_)
    operands = [_constants(operand, segment) for operand in atom.operands]
    negative = atom.operator in ("<>", "not in", "not prefix")
    known, rows, constants = always, np.arange(segment.height), operands[0]
    if len(operands) > 1 or constants.null_count():
        masks = [operand.is_not_null().to_numpy() for operand in operands]
        known = np.logical_and.reduce(masks)
        # NOT IN is unknown with a NULL among its values; IN is still true of the others.
        usable = [known if negative else mask for mask in masks]
        rows = np.concatenate([np.flatnonzero(mask) for mask in usable])
        constants = pl.concat([operand.filter(pl.Series(mask)) for operand, mask in zip(operands, usable, strict=True)])

    def edge(constants: pl.Series, before: bool, after: bool) -> _Edge:
        return _Edge(atom.attribute, rows, constants, before, after)

    if atom.operator in ("<", "<=", ">", ">="):
        before = atom.operator in ("<", ">=")
        return known if "<" in atom.operator else never, never, [edge(constants, before, not before)]
    if atom.operator in ("prefix", "not prefix"):
        past = pl.select(pl.lit(constants) + pl.lit(_PAST_PREFIX)).to_series()
        return known & negative, never, [edge(constants, True, False), edge(past, True, False)]
    both = [edge(constants, True, True)]
    if atom.operator == "<=>":
        return never, ~known, both
    if atom.operator == "not <=>":
        return always, known, both
    return known & negative, never, both


def _constants(operand: Expression, segment: pl.DataFrame) -> pl.Series:
    if isinstance(operand, Parameter):
        series = segment[value_column(operand.index)]
    else:
        series = evaluate(segment, [parameters_as_columns(operand, 0)], ["value"]).to_series()
    return comparable(series.alias("value"), operand.type)


def _cuts(edge: _Edge, constants: pl.Series | None) -> tuple[Positions, Codes]:
    """(row of the segment, cut) of an edge, each once: a value that stands twice in an IN list cuts once."""
    rows, codes = edge.rows, codes_of_constants(edge.constants, constants)
    if edge.before and edge.after:
        order = np.lexsort((codes, rows))
        rows, codes = rows[order], codes[order]
        new = np.ones(rows.size, np.bool_)
        new[1:] = (rows[1:] != rows[:-1]) | (codes[1:] != codes[:-1])
        rows, codes = rows[new], codes[new]
    cuts: list[tuple[Positions, Codes]] = [(rows, codes)] if edge.before else []
    if edge.after:
        bounded = codes != LAST_CODE
        cuts.append((rows[bounded], codes[bounded] + np.uint64(1)))
    return np.concatenate([rows for rows, _ in cuts]), np.concatenate([codes for _, codes in cuts])
