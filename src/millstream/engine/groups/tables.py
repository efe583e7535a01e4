"""The query tables of groups: what the snapshot has of them, and what the next commit adds and takes away.

    a query comes ──held──▶ waiting ──its past was worked through──▶ admitted ──an error──▶ failed
                  ──held──▶ equal, where there is a row that selects the same
    a query goes  ──gone──▶ in no table any more

Coming and going cost nothing but a note in the journal: rows are written by the next commit, whatever that is for, many
at a time. What an operator sees of a table are the admitted rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from millstream.engine.commits import Commits
from millstream.engine.groups.equal_queries import UNKNOWN, Departure
from millstream.engine.groups.group import Group, RowsByShape
from millstream.engine.groups.new_rows import HeldRows, ManyRows, NewRows
from millstream.engine.past import Past
from millstream.engine.query_tables import EQUAL_TO, KINDS, NAME, AdmissionState, failure_key
from millstream.kernel.columns import Bools, only, stacked
from millstream.kernel.sharing.parameters import QUERY, by_shape, packed
from millstream.kernel.sharing.selection_keys import keys_of
from millstream.plan.shapes import Shape
from millstream.state.snapshot import Names, QueryTable, Snapshot

_MANY, _SIZE_CLASS = 8, 3  # segments that become one, and bits of sizes that are about the same
_LARGEST = 1 << 14  # rows of a segment: so many are written, and looked at, again when one of them goes


@dataclass
class _Changes:
    """What is to be done to a group's table by the next commit."""

    group: Group
    held: HeldRows = field(default_factory=HeldRows)
    equal: HeldRows = field(default_factory=HeldRows)
    gone: set[int] = field(default_factory=set)
    words: dict[int, int] = field(default_factory=dict)  # by row: the query whose words it takes
    unused: set[str] = field(default_factory=set)  # shapes that no query has any more

    @property
    def is_nothing(self) -> bool:
        return not (self.held or self.equal or self.gone or self.words or self.unused)


class QueryTables:
    """The query tables of all groups; changed under the lock of commits."""

    def __init__(self, commits: Commits) -> None:
        self._commits, self._store = commits, commits.store
        self._changes: dict[str, _Changes] = {}  # by edge
        self._edited: set[str] = set()  # segments of tables that were edited since the last commit

    # Reading

    def rows(self, group: Group, *kinds: AdmissionState) -> RowsByShape:
        """The rows of some kinds, by shape; or those of all queries, equal ones too."""
        table, changes = self._commits.snapshot.query_table(group.selection), self._changes.get(group.edge)
        names = [name for kind in kinds or KINDS for name in getattr(table, kind)]
        held = changes.held.frames() if changes is not None and "waiting" in (kinds or KINDS) else []
        if not kinds:
            held += self._equal(table, changes)
        found = self._read(names, held)
        return without(found, changes.gone) if changes is not None and changes.gone else found

    def admitted(self, group: Group, snapshot: Snapshot) -> list[pl.DataFrame]:
        """The rows that operators see of a table in a snapshot."""
        return [*map(self._store.read, snapshot.query_table(group.selection).admitted)]

    def of_selection(self, selection: str) -> RowsByShape:
        """The rows of all queries that the snapshot has under the name of a selection, whether there is such a group
        now or not."""
        table = self._commits.snapshot.query_table(selection)
        found = self._read((*table.admitted, *table.waiting, *table.failed), self._equal(table, None))
        named = ((shape, rows.filter(pl.col(NAME).is_not_null())) for shape, rows in found.items())
        return {shape: rows for shape, rows in named if rows.height}

    def _equal(self, table: QueryTable, changes: _Changes | None) -> list[pl.DataFrame]:
        """The rows of queries that are equal to others, as if they had rows of their own."""
        held = changes.equal.frames() if changes is not None else []
        return [rows.drop(EQUAL_TO) for rows in (*map(self._store.read, table.equal), *held)]

    def _read(self, names: Iterable[str], held: Iterable[pl.DataFrame]) -> RowsByShape:
        parts = by_shape((*map(self._store.read, names), *held))
        return {shape: found[0] if len(found) == 1 else stacked(found) for shape, found in parts.items()}

    def has_waiting(self, group: Group) -> bool:
        changes = self._changes.get(group.edge)
        held = changes is not None and bool(changes.held)
        return held or bool(self._commits.snapshot.query_table(group.selection).waiting)

    # Coming and going

    def enqueue(
        self, group: Group, shape: Shape, rows: NewRows, past: Past, is_over: Callable[[int], bool]
    ) -> NewRows | None:
        """Have queries of a shape wait to be admitted, which have this past. Those that are equal to one whose row is
        not over do not: they have that row. Gives those that are to be admitted, if there are any."""
        equal, changes = group.equal, self._of(group)
        if not equal.is_known:
            equal.know(self._selected(group))
        following = self.next_query(group)
        changes.unused.discard(shape.name)
        queries = rows.queries
        having = equal.join(queries, _selected_by(group, shape, rows), past, is_over)
        own = rows if having == queries else changes.equal.add_equal(rows, having)
        if own is not None:
            changes.held.add(own)
        group.following = following + rows.height
        return own

    def dequeue(self, group: Group, queries: Sequence[int]) -> None:
        """Forget queries that were held last: they could not be kept."""
        changes = self._of(group)
        changes.held, changes.equal = changes.held.without(queries), changes.equal.without(queries)
        group.equal.withdraw(queries)
        self._forget_unchanged(group)

    def _selected(self, group: Group) -> Iterator[tuple[int, Hashable]]:
        """The rows that queries may come to, and what they select."""
        for shape, rows in self.rows(group, "admitted", "waiting").items():
            if shape in group.shapes:
                known = group.shapes[shape]
                named = rows.filter(pl.col(NAME).is_not_null())
                selected = _selected_by(group, known, ManyRows(named))
                yield from zip(named[QUERY], selected, strict=True)

    def recover_equal(self, group: Group) -> None:
        """Know which queries have rows of others, by what the snapshot says."""
        table = self._commits.snapshot.query_table(group.selection)
        found = [self._store.read(name) for name in table.equal]
        pairs = {query: row for rows in found for query, row in zip(rows[QUERY], rows[EQUAL_TO], strict=True)}
        if pairs:
            kept = (rows.filter(pl.col(NAME).is_null())[QUERY] for rows in self.rows(group, *KINDS).values())
            group.equal.recover(pairs, [row for nameless in kept for row in nameless])

    def take_out(self, group: Group, departure: Departure) -> None:
        """Queries are in no table any more. Their rows stay until they expire, and are nobody's: numbers are not used
        again."""
        changes = self._of(group)
        changes.gone |= departure.gone
        changes.words |= departure.words

    def put_back(self, group: Group, departure: Departure) -> None:
        """They could not be taken out."""
        changes = self._of(group)
        changes.gone -= departure.gone
        for row in departure.words:
            if (before := group.equal.words_of(row)) in (row, UNKNOWN):
                del changes.words[row]
            else:
                changes.words[row] = before
        self._forget_unchanged(group)

    def forget_shape(self, group: Group, shape: Shape) -> None:
        """No query has a shape any more; rows may have it until the next commit."""
        if group.edge in self._changes:
            self._changes[group.edge].unused.add(shape.name)
        else:
            group.remove([shape.name])

    @contextmanager
    def leaving(self, queries: Iterable[tuple[Group, Collection[int]]]) -> Iterator[None]:
        """Queries of groups that the commit within has in other tables wait no more; where it fails they still do."""
        before: list[tuple[_Changes, HeldRows]] = []
        for group, own in queries:
            if (changes := self._changes.get(group.edge)) is not None:
                before.append((changes, changes.held))
                changes.held = changes.held.without(own)
        try:
            yield
        except BaseException:
            for changes, held in reversed(before):
                changes.held = held
            raise

    def next_query(self, group: Group) -> int:
        return max(self._commits.snapshot.queries.get(group.edge, 0), group.following)

    def forget(self, group: Group) -> _Changes | None:
        """The group is to be closed; gives what nobody is to keep any more."""
        return self._changes.pop(group.edge, None)

    def remember(self, changes: _Changes | None) -> None:
        """It could not be closed."""
        if changes is not None:
            self._changes[changes.group.edge] = changes

    def _of(self, group: Group) -> _Changes:
        return self._changes.setdefault(group.edge, _Changes(group))

    def _forget_unchanged(self, group: Group) -> None:
        if self._of(group).is_nothing:
            self.forget(group)

    # What the next commit keeps

    @property
    def has_pending(self) -> bool:
        return bool(self._changes)

    @property
    def is_taking_out(self) -> bool:
        """Whether there are queries that the committed tables still have, and nobody else."""
        return any(changes.gone for changes in self._changes.values())

    def with_pending(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what has come, and without what has gone; to be committed."""
        tables, numbers, forgotten = dict[str, QueryTable](), dict[str, int](), set[str]()
        for edge, changes in self._changes.items():
            group = changes.group
            table = snapshot.query_table(group.selection)
            held, equal = changes.held.frames(), changes.equal.frames()
            if changes.gone:
                table = self.table_without(table, changes.gone)
                table = replace(table, equal=self._names_without(table.equal, changes.gone))
                forgotten |= {failure_key(edge, query) for query in changes.gone}
                held = [only(rows, ~_among(rows, changes.gone)) for rows in packed(held)]
                equal = [only(rows, ~_among(rows, changes.gone)) for rows in packed(equal)]
            table = self.table_with(table, "waiting", held)
            table = replace(table, equal=self._appended(table.equal, equal)) if equal else table
            tables[group.selection] = self._with_words(table, changes)
            numbers[edge] = self.next_query(group)
        if not tables:
            return snapshot
        snapshot = snapshot.with_query_tables(tables).with_number_of_queries(numbers)
        return snapshot.without_failures(forgotten) if forgotten else snapshot

    def _with_words(self, table: QueryTable, changes: _Changes) -> QueryTable:
        """A table in which rows whose queries are gone have the words of others that are equal."""
        words = {query: row for row, query in changes.words.items() if row not in changes.gone}
        if not words:
            return table
        asked = pl.Series([*words], dtype=pl.Int64).implode()
        found = (rows.filter(rows[QUERY].is_in(asked)) for rows in map(self._store.read, table.equal))
        taken = [
            rows.drop(EQUAL_TO).with_columns(
                pl.col(QUERY).replace_strict(words, return_dtype=pl.Int64), pl.lit(None, pl.String).alias(NAME)
            )
            for rows in found
            if rows.height
        ]
        before = {kind: _numbers(map(self._store.read, getattr(table, kind))) for kind in KINDS}
        table = self.table_without(table, set(words.values()))
        for kind, numbers in before.items():
            of_kind = [only(rows, _among(rows, numbers)) for rows in taken]
            table = self.table_with(table, kind, [rows for rows in of_kind if rows.height])
        return table

    def release(self) -> set[str]:
        """What was held is committed; gives what was written on the way, of which not all need be named."""
        for changes in self._changes.values():
            changes.group.remove(changes.unused)
        self._changes.clear()
        edited, self._edited = self._edited, set()
        return edited

    # Tables that differ from one that there is; the caller commits them

    def table_with(self, table: QueryTable, kind: AdmissionState, rows: Iterable[pl.DataFrame]) -> QueryTable:
        """A table with more rows of a kind."""
        return replace(table, **{kind: self._appended(getattr(table, kind), rows)})

    def table_with_admitted(self, table: QueryTable, segments: Names) -> QueryTable:
        """A table with rows that were written already."""
        return replace(table, admitted=self.compacted((*table.admitted, *segments)))

    def table_without(self, table: QueryTable, queries: Collection[int], *kinds: AdmissionState) -> QueryTable:
        """A table without some queries, where they are of some kinds or any."""
        changed = {kind: self._names_without(getattr(table, kind), queries) for kind in kinds or KINDS}
        return replace(table, **changed)

    def _names_without(self, names: Names, queries: Collection[int]) -> Names:
        return tuple(left for name in names for left in self._filtered(name, queries))

    def _appended(self, names: Names, rows: Iterable[pl.DataFrame]) -> Names:
        return self.compacted((*names, *self._edit(rows)))

    def compacted(self, names: Names) -> Names:
        """As few segments as there need be: of those with the same columns and of about the same size, so many become
        one. What was made of the others in memory stays of use."""
        alike: dict[tuple[object, ...], list[str]] = {}
        for name in names:
            rows = self._store.read(name)
            if rows.height < _LARGEST // 2:
                alike.setdefault((*rows.schema.items(), rows.height.bit_length() // _SIZE_CLASS), []).append(name)
        many = [found for found in alike.values() if len(found) >= _MANY]
        if not many:
            return names
        merged = {name for found in many for name in found}
        kept = tuple(name for name in names if name not in merged)
        return self.compacted((*kept, *self._edit(map(self._store.read, sorted(merged, key=names.index)))))

    def _edit(self, frames: Iterable[pl.DataFrame]) -> Names:
        names = self.written(frames)
        self._edited.update(names)
        return names

    def written(self, frames: Iterable[pl.DataFrame]) -> Names:
        with self._store.file("queries") as writer:
            return tuple([writer.write(part) for frame in packed(frames) for part in frame.iter_slices(_LARGEST)])

    def _filtered(self, name: str, gone: Collection[int]) -> Names:
        rows = self._store.read(name)
        kept = only(rows, ~_among(rows, gone))
        if kept.height == rows.height:
            return (name,)
        return self._edit([kept])


def _selected_by(group: Group, shape: Shape, rows: NewRows) -> Sequence[Hashable]:
    """What queries of a shape select; where they have constants in what is made of that, with these."""
    selected = rows.selected(keys_of(shape.condition), len(shape.parameters))
    if not group.split.parameters:
        return selected
    own = zip(*(rows.constants(index) for index in group.split.parameters), strict=True)
    return [(one, *map(repr, values)) for one, values in zip(selected, own, strict=True)]


def without(rows: RowsByShape, queries: Collection[int]) -> RowsByShape:
    """Rows of query tables but for those of some queries."""
    found = ((shape, only(frame, ~_among(frame, queries))) for shape, frame in rows.items())
    return {shape: frame for shape, frame in found if frame.height}


def _numbers(tables: Iterable[pl.DataFrame]) -> set[int]:
    return {query for rows in tables for query in rows[QUERY]}


def _among(rows: pl.DataFrame, queries: Collection[int]) -> Bools:
    return np.isin(rows.get_column(QUERY).to_numpy(), np.fromiter(queries, np.int64, len(queries)))
