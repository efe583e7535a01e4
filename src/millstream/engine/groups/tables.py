"""The query tables of groups: what the snapshot has of them, and what the next commit adds and takes away.

    a query comes ──held──▶ waiting ──its past was worked through──▶ admitted ──an error──▶ failed
    a query goes  ──gone──▶ in no table any more

Coming and going cost nothing but a note in the journal: rows are written by the next commit, whatever that is for, many
at a time. What an operator sees of a table are the admitted rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import polars as pl

from millstream.engine.commits import Commits
from millstream.engine.groups.group import Group, RowsByShape
from millstream.engine.query_tables import KINDS, AdmissionState, failure_key
from millstream.kernel.sharing.parameters import QUERY, SHAPE, by_shape, packed
from millstream.state.snapshot import Names, QueryTable, Snapshot

_MANY, _SIZE_CLASS = 8, 3  # segments that become one, and bits of sizes that are about the same


@dataclass
class _Changes:
    """What is to be done to a group's table by the next commit."""

    group: Group
    held: list[pl.DataFrame] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)


class QueryTables:
    """The query tables of all groups; changed under the lock of commits."""

    def __init__(self, commits: Commits) -> None:
        self._commits, self._store = commits, commits.store
        self._changes: dict[str, _Changes] = {}  # by edge
        self._edited: set[str] = set()  # segments of tables that were edited since the last commit

    # Reading

    def rows(self, group: Group, *kinds: AdmissionState) -> RowsByShape:
        """The rows of some kinds or all, by shape."""
        kinds = kinds or KINDS
        table, changes = self._commits.snapshot.query_table(group.selection), self._changes.get(group.edge)
        names = [name for kind in kinds for name in getattr(table, kind)]
        held = changes.held if changes is not None and "waiting" in kinds else []
        found = self._read(names, held)
        return without(found, changes.gone) if changes is not None and changes.gone else found

    def of_selection(self, selection: str) -> RowsByShape:
        """All rows that the snapshot has under the name of a selection, whether there is such a group now or not."""
        return self._read(self._commits.snapshot.query_table(selection).names(), ())

    def _read(self, names: Iterable[str], held: Iterable[pl.DataFrame]) -> RowsByShape:
        parts = by_shape(map(self._store.read, names))
        for rows in held:
            parts.setdefault(rows[SHAPE][0], []).append(rows)
        return {shape: found[0] if len(found) == 1 else pl.concat(found) for shape, found in parts.items()}

    def has_waiting(self, group: Group) -> bool:
        changes = self._changes.get(group.edge)
        held = changes is not None and bool(changes.held)
        return held or bool(self._commits.snapshot.query_table(group.selection).waiting)

    # Coming and going

    def enqueue(self, group: Group, shape: str, rows: pl.DataFrame) -> None:
        """Have queries of a shape wait to be admitted."""
        self._of(group).held.append(rows.hstack([pl.Series(SHAPE, [shape] * rows.height, pl.String)]))
        group.following = self.next_query(group) + rows.height

    def dequeue(self, group: Group) -> None:
        """Forget what was held last: it could not be kept."""
        self._of(group).held.pop()
        self._forget_unchanged(group)

    def take_out(self, group: Group, queries: Iterable[int]) -> None:
        """Queries are in no table any more. Their rows stay until they expire, and are nobody's: numbers are not used
        again."""
        self._of(group).gone.update(queries)

    def put_back(self, group: Group, queries: Iterable[int]) -> None:
        """They could not be taken out."""
        self._of(group).gone.difference_update(queries)
        self._forget_unchanged(group)

    @contextmanager
    def leaving(self, queries: Iterable[tuple[Group, Collection[int]]]) -> Iterator[None]:
        """Queries of groups that the commit within has in other tables wait no more; where it fails they still do."""
        before: list[tuple[_Changes, list[pl.DataFrame]]] = []
        for group, own in queries:
            if (changes := self._changes.get(group.edge)) is not None:
                before.append((changes, changes.held))
                among = ((rows, sum(query in own for query in rows[QUERY])) for rows in changes.held)
                left = ((rows, found) for rows, found in among if found < rows.height)
                changes.held = [rows.filter(~_among(rows, own)) if found else rows for rows, found in left]
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
        changes = self._of(group)
        if not changes.held and not changes.gone:
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
            if changes.gone:
                table = self.table_without(table, changes.gone)
                forgotten |= {failure_key(edge, query) for query in changes.gone}
            held = changes.held
            if changes.gone:
                held = [rows.filter(~_among(rows, changes.gone)) for rows in packed(held)]
            tables[group.selection] = self.table_with(table, "waiting", held)
            numbers[edge] = self.next_query(group)
        if not tables:
            return snapshot
        snapshot = snapshot.with_query_tables(tables).with_number_of_queries(numbers)
        return snapshot.without_failures(forgotten) if forgotten else snapshot

    def release(self) -> set[str]:
        """What was held is committed; gives what was written on the way, of which not all need be named."""
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
        changed = {
            kind: tuple(left for name in getattr(table, kind) for left in self._filtered(name, queries))
            for kind in kinds or KINDS
        }
        return replace(table, **changed)

    def _appended(self, names: Names, rows: Iterable[pl.DataFrame]) -> Names:
        return self.compacted((*names, *self._edit(rows)))

    def compacted(self, names: Names) -> Names:
        """As few segments as there need be: of those with the same columns and of about the same size, so many become
        one. What was made of the others in memory stays of use."""
        alike: dict[tuple[object, ...], list[str]] = {}
        for name in names:
            rows = self._store.read(name)
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
            return tuple([writer.write(frame) for frame in packed(frames)])

    def _filtered(self, name: str, gone: Collection[int]) -> Names:
        rows = self._store.read(name)
        kept = rows.filter(~_among(rows, gone))
        if kept.height == rows.height:
            return (name,)
        return self._edit([kept])


def without(rows: RowsByShape, queries: Collection[int]) -> RowsByShape:
    """Rows of query tables but for those of some queries."""
    found = ((shape, frame.filter(~_among(frame, queries))) for shape, frame in rows.items())
    return {shape: frame for shape, frame in found if frame.height}


def _among(rows: pl.DataFrame, queries: Collection[int]) -> pl.Series:
    return rows[QUERY].is_in(pl.Series(list(queries), dtype=pl.Int64).implode())
