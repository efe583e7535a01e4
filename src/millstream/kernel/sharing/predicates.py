"""What the queries of one segment ask of each attribute: the grouped filter's entries, in columns.

Every atom of every query is a set of values of its attribute, written as cuts:

    a < c   from below everything to before c        a = c   between before c and after c
    a >= c  from before c on                         a <> c  everything, but not between before c and after c

that is, whether the set holds below everything (`first`), the cuts at which it changes between holding and not, and
whether it has NULL (`null`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import value_column
from millstream.kernel.keys import Codes, Positions
from millstream.kernel.scalar.evaluate import evaluate
from millstream.kernel.scalar.expressions import Column, Expression, Parameter, conjunction, map_columns
from millstream.kernel.sharing.axis import LAST_CODE, codes_of_constants, comparable, dictionary, has_codes
from millstream.kernel.sharing.identity import Recent, number_of, serial_of
from millstream.kernel.sharing.lineage import BLOCK_SIZE, Flags
from millstream.kernel.sharing.normal_form import Atom, normal_form
from millstream.kernel.sharing.parameters import QUERY, parameters_as_columns

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
    """A condition taken apart: atoms by the number of their place, and what must be evaluated row by row."""

    number: int
    atoms: tuple[tuple[int, Atom], ...]
    residual: Expression | None
    possible: bool


@lru_cache(maxsize=1 << 14)
def shape_of(condition: Expression) -> ConditionAtoms:
    form = normal_form(condition)
    atoms: list[tuple[int, Atom]] = []
    clauses: Counter[tuple[Expression, ...]] = Counter()
    for clause in form.clauses:
        attributes = tuple(sorted({atom.attribute for atom in clause}, key=repr))
        ordinal, single = clauses[attributes], len(attributes) == 1
        clauses[attributes] += 1
        module = Module(attributes, 0 if single else ordinal)
        positions: Counter[Expression] = Counter()
        for atom in clause:
            place = AtomPosition(module, atom.attribute, ordinal if single else 0, positions[atom.attribute])
            positions[atom.attribute] += 1
            atoms.append((number_of(place), atom))
    residual = conjunction(list(form.residual)) if form.residual else None
    return ConditionAtoms(number_of(condition), tuple(atoms), residual, () not in form.clauses)


@dataclass(frozen=True)
class Predicates:
    """All that the queries of a segment ask for: a row per query, per atom of a query, per cut of an atom.

    Cuts of attributes without codes are by `dictionaries`, which has the segment's constants for each.
    """

    queries: Numbers
    atom_query: Numbers
    atom_place: Numbers
    first: Flags
    null: Flags
    cut_query: Numbers
    cut_place: Numbers
    cut: Codes
    dictionaries: dict[Expression, pl.Series]
    residual: Expression | None
    table: pl.DataFrame

    @cached_property
    def blocks(self) -> Numbers:
        """The blocks that its queries are in."""
        blocks = self.queries // BLOCK_SIZE
        return np.unique(blocks) if blocks.size > 1 else blocks

    @property
    def size(self) -> int:
        return 32 * (self.queries.size + self.atom_query.size + self.cut_query.size)


_recent: Recent[Predicates] = Recent(1 << 28, lambda made: made.size)


def predicates_of(shape: ConditionAtoms, segment: pl.DataFrame) -> Predicates:
    return _recent.get((shape.number, serial_of(segment)), lambda: _predicates(shape, segment))


@dataclass(frozen=True)
class _Edge:
    """Cuts that some queries make at their constants: before them, after them, or both."""

    place: int
    attribute: Expression
    rows: Positions
    constants: pl.Series
    before: bool
    after: bool


def _predicates(shape: ConditionAtoms, segment: pl.DataFrame) -> Predicates:
    queries = segment[QUERY].to_numpy()
    queries = queries if shape.possible else queries[:0]
    first, null, edges = [np.zeros(0, np.bool_)], [np.zeros(0, np.bool_)], []
    for place, atom in shape.atoms if shape.possible else ():
        holds_first, has_null, made = _edges(place, atom, segment)
        first.append(holds_first)
        null.append(has_null)
        edges += made
    texts: dict[Expression, list[pl.Series]] = {}
    for edge in edges:
        if not has_codes(edge.attribute.type):
            texts.setdefault(edge.attribute, []).append(edge.constants)
    dictionaries = {attribute: dictionary(constants) for attribute, constants in texts.items()}
    cuts = [_cuts(edge, dictionaries.get(edge.attribute)) for edge in edges]
    rows = np.concatenate([np.zeros(0, np.intp), *(rows for rows, _ in cuts)])
    places = np.array([place for place, _ in shape.atoms if shape.possible], np.int64)
    return Predicates(
        queries=queries,
        atom_query=np.tile(queries, places.size),
        atom_place=places.repeat(queries.size),
        first=np.concatenate(first),
        null=np.concatenate(null),
        cut_query=queries[rows],
        cut_place=np.array([e.place for e in edges], np.int64).repeat([rows.size for rows, _ in cuts]),
        cut=np.concatenate([np.zeros(0, np.uint64), *(codes for _, codes in cuts)]),
        dictionaries=dictionaries,
        residual=shape.residual,
        table=segment,
    )


def _edges(place: int, atom: Atom, segment: pl.DataFrame) -> tuple[Flags, Flags, list[_Edge]]:
    """Where the atom of each query holds: below everything, at NULL, and the cuts between."""
    always, never = np.ones(segment.height, np.bool_), np.zeros(segment.height, np.bool_)
    if atom.operator in ("isnull", "isnotnull"):
        return (never, always, []) if atom.operator == "isnull" else (always, never, [])
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
        return _Edge(place, atom.attribute, rows, constants, before, after)

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
