"""Elements that windows [RANGE v ON c] leave out are told: they become rows of `s._malformed`.

    windows of standing queries ──▶ an edge for each stream, c and partition ──an epoch of its own──▶ s._malformed

What a window leaves out depends on c and its partition, and not on v: so all windows that go by the same c have one
edge, and an element is told once for all of them, however many come and go. How far that is is noted with the table: by
the commit that brings the rows. The edge has its past, as a query has: of what is kept when its first window comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from millstream.catalog.alterations import AS_OF
from millstream.catalog.entries import LEFT_OUT, Entry
from millstream.catalog.session import Session
from millstream.engine.engine import Engine
from millstream.engine.epochs.parts import MALFORMED
from millstream.engine.epochs.table_changes import inserted
from millstream.kernel.batch import START, Batch, value_columns
from millstream.kernel.windows.time import RangeOn
from millstream.language.binder import BoundQuery, scan_of
from millstream.plan import nodes as lo
from millstream.plan.algebra.imposed_windows import is_base
from millstream.plan.definitions import StreamDefinition
from millstream.plan.lowering.options import Options
from millstream.queries.reasons import as_texts, reasons
from millstream.query import Query

_OPTIONS = Options()  # whatever the settings of queries are: it is one edge for all of them


@dataclass(frozen=True)
class WindowOrder:
    """What windows of a stream go by: a column that must not fall, and the columns of the partition; perhaps of some of
    the elements only."""

    stream: str
    column: int
    partition: tuple[int, ...]
    samples: tuple[tuple[float, int], ...] = ()

    @property
    def key(self) -> str:
        """Among those of the stream, which may get another name."""
        return ":".join(map(repr, (self.column, self.partition, self.samples)))

    @property
    def name(self) -> str:
        return f"{self.stream}:{self.key}"

    @property
    def table(self) -> str:
        return f"{self.stream}.{MALFORMED}"

    def plan(self, stream: StreamDefinition) -> lo.Node:
        read: lo.Node = scan_of(stream)
        for percent, seed in self.samples:
            read = lo.Sample(read, percent, seed)
        return lo.Window(read, RangeOn(self.column, 0, partition=self.partition, left_out=True))


@dataclass(frozen=True)
class ShownEdge:
    """Where what is left out is shown, with so many of the stream's columns: those that it had then."""

    edge: str
    columns: int


class LeftOutElements:
    """Has an edge for each order that windows of standing queries go by, and says what that shows."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self._engine, self._session = engine, session
        self._windows = Counter[WindowOrder]()  # queries that have such windows
        self._of_queries: dict[str, frozenset[WindowOrder]] = {}
        self._edges: dict[WindowOrder, ShownEdge] = {}
        self._firsts: dict[WindowOrder, Mapping[str, int]] = {}  # since when there are elements for the first that came
        self._looked: dict[WindowOrder, int] = {}  # how far nothing is to be told
        self._last: tuple[BoundQuery | None, frozenset[WindowOrder]] = None, frozenset()

    # Which windows there are

    def recover(self) -> None:
        """Go on with the edges that an earlier process had, where they are made as they were."""
        for entry in [e for e in self._session.declared.entries if e["kind"] == LEFT_OUT]:
            order = _order_in(entry)
            plan = self._plan(order, entry.get(AS_OF, 0))
            if plan is None or self._engine.plans.edge_of(plan, _OPTIONS) != entry["edge"]:
                self._session.declared = self._session.declared.replacing(entry)
            else:
                self._engine.attach(plan, _OPTIONS, entry["firsts"])
                self._edges[order] = ShownEdge(entry["edge"], len(plan.schema) - 1)

    def notice(self, state: str, queries: Sequence[Query]) -> None:
        """Queries have come or gone."""
        for query in queries:
            if state == "dropped":
                self._windows -= Counter(self._of_queries.pop(query.name.lower(), ()))
            elif orders := self._orders(query):
                self._of_queries[query.name.lower()] = orders
                self._windows.update(orders)
                for order in orders:
                    self._firsts.setdefault(order, dict(query.past.kept))

    def _orders(self, query: Query) -> frozenset[WindowOrder]:
        bound = query.common
        if bound is not self._last[0]:  # those of a template have one
            found = {order for node in bound.plan.walk() if (order := _order_of(node)) is not None}
            self._last = bound, frozenset(order for order in found if order.table in self._engine.sources)
        return self._last[1]

    def _follow(self) -> None:
        """Have an edge for all windows that there are, and for no others."""
        for order in [order for order in self._edges if order not in self._windows]:
            self._hide(order)
        for order in [order for order in self._windows if order not in self._edges]:
            self._show(order)

    def _show(self, order: WindowOrder) -> None:
        engine, session, plan = self._engine, self._session, self._plan(order, None)
        if plan is None:
            raise AssertionError(f"a window of {order.stream}, which is not there")
        edge, firsts = engine.plans.edge_of(plan, _OPTIONS), self._firsts.get(order, {})
        content: dict[str, Any] = {"edge": edge, "firsts": dict(firsts), "stream": order.stream, "column": order.column}
        content |= {"partition": order.partition, "samples": order.samples, **session.alterations.entry()}
        declared = session.declared.with_entry(LEFT_OUT, order.name, **content)
        engine.show([plan], _OPTIONS, declared.entries, firsts)
        session.declared, self._edges[order] = declared, ShownEdge(edge, len(plan.schema) - 1)

    def _hide(self, order: WindowOrder) -> None:
        self._put_new(order)
        declared = self._session.declared.without(LEFT_OUT, order.name)
        self._engine.admitter.hide([self._edges[order].edge], declared.entries)
        self._session.declared = declared
        del self._edges[order]
        self._firsts.pop(order, None)
        self._looked.pop(order, None)

    def _plan(self, order: WindowOrder, as_of: int | None) -> lo.Node | None:
        """By what the stream is now, or was when there were so many alterations."""
        known = self._session.alterations.definitions(as_of).values()
        found = next((each for each in known if each.edge == order.stream), None)
        return order.plan(found) if isinstance(found, StreamDefinition) else None

    # What they leave out

    def catch_up(self) -> None:
        """Put what has become known to be left out into the tables of such elements."""
        if self._is_behind():
            with self._engine.lock:
                self._follow()
                for order in [*self._edges]:
                    self._put_new(order)

    def _is_behind(self) -> bool:
        """Looked at without the lock: who reads does not wait for an epoch of others."""
        snapshot, backfills = self._engine.snapshot, self._engine.backfills
        return self._windows.keys() != self._edges.keys() or any(
            snapshot.progress(order.stream).heartbeat > self._looked.get(order, -1) and shown.edge not in backfills
            for order, shown in [*self._edges.items()]
        )

    def _put_new(self, order: WindowOrder) -> None:
        engine, edge = self._engine, self._edges[order].edge
        snapshot, final = engine.snapshot, engine.snapshot.progress(order.stream).heartbeat
        since = max(snapshot.progress(order.table).noted.get(order.key, -1), self._looked.get(order, -1))
        if edge in engine.backfills:
            return
        found = engine.reader.segments(edge, snapshot, lambda extent: extent.has_elements(since, final))
        wanted = [frame.filter((pl.col(START) > since) & (pl.col(START) <= final)) for frame in found]
        if any(frame.height for frame in wanted):
            self._put(order, pl.concat(wanted).sort(START, maintain_order=True), final)
        self._looked[order] = final

    def _put(self, order: WindowOrder, rows: Batch, until: int) -> None:
        engine, snapshot, stream = self._engine, self._engine.snapshot, self._session.catalog.of_edge(order.stream)
        if not isinstance(stream, StreamDefinition):
            raise AssertionError(f"{order.stream} is no stream")
        table = snapshot.progress(order.table)
        at = max(snapshot.clock + 1, table.last_change)
        rows_of_table = inserted(_as_rows(order, rows, stream, self._edges[order].columns).to_arrow(), at)
        progress = snapshot.progress(order.stream)
        engine.epoch(
            {order.table: engine.sources.part(order.table, rows_of_table)},
            {
                order.table: replace(table, last_change=at, noted={**table.noted, order.key: until}),
                order.stream: replace(progress, malformed=progress.malformed + rows.height),
            },
            snapshot.clock,
        )


def _as_rows(order: WindowOrder, rows: Batch, stream: StreamDefinition, width: int) -> pl.DataFrame:
    """The elements as texts, and why each was left out."""
    names, columns = [field.name for field in stream.columns[:width]], value_columns(width + 1)
    by = ", ".join(names[index] for index in order.partition)
    window = f"[{f'PARTITION BY {by} ' if by else ''}RANGE .. ON {names[order.column]}]"
    raw = as_texts(rows.select(pl.col(one).alias(name) for one, name in zip(columns, names, strict=False)))
    value, greatest = rows[columns[order.column]], rows[columns[-1]]
    said = reasons(names[order.column], value, greatest, rows[START], stream.domain, window)
    return pl.DataFrame([raw, said])


def _order_of(node: lo.Node) -> WindowOrder | None:
    """What a window of a base stream goes by, if it goes by a column."""
    if not isinstance(node, lo.Window) or not isinstance(node.window, RangeOn) or not is_base(node.input):
        return None
    samples, read = list[tuple[float, int]](), node.input
    while isinstance(read, lo.Sample):
        samples.insert(0, (read.percent, read.seed))
        read = read.input
    if not isinstance(read, lo.StreamScan):
        raise AssertionError("a base stream that is none")
    return WindowOrder(read.name, node.window.column, node.window.partition, tuple(samples))


def _order_in(entry: Entry) -> WindowOrder:
    samples = tuple((percent, seed) for percent, seed in entry["samples"])
    return WindowOrder(entry["stream"], entry["column"], tuple(entry["partition"]), samples)
