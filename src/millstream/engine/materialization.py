"""How the answer of a query is kept, by its mode, and what is done when it is asked.

    EAGER   the rows of the answer with their intervals (PSoup-C): asking picks those of an instant
    LAZY    matches without windows (PSoup-P): asking applies the windows, and what stands above them
    NONE    nothing: asking runs the plan over the kept history

All three give the same rows, and read one committed snapshot. Nobody waits for epochs, nor do epochs for those who ask:
NONE over a history that is too large for this process is a job of the engine's runner, beside those of the epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import polars as pl

from millstream.engine.extents import Extent, Wanted
from millstream.engine.groups.many import Numbers
from millstream.engine.plans import lowered
from millstream.engine.reader import Reader
from millstream.kernel.batch import INF, INTERVAL_COLUMNS, Batch, empty_batch, value_column
from millstream.kernel.lazy import ranked_tree, tree_segments
from millstream.kernel.lazy.matches import bounds, in_windows, overlapping, shown
from millstream.kernel.lazy.postings import Postings
from millstream.kernel.lazy.tree_segments import TreeShape
from millstream.kernel.pipeline import Pipeline
from millstream.kernel.windows.time import ElementSpecification
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.births import joins_runs
from millstream.plan.lowering.kernel_calls import tree_shape
from millstream.plan.lowering.matches import TREE, KeptPart, LazyPlan, columns_read, part_name, reference
from millstream.plan.lowering.options import Options
from millstream.plan.parameters import with_parameters
from millstream.state.snapshot import Snapshot
from millstream.types import DataType, Schema

# Of how many instants the rows must be right, given the last final one: since .. until.
Span = Callable[[int], tuple[int, int]]


@dataclass(frozen=True)
class Answer:
    """Rows whose relation is right from the first instant of a span to its last one, `until`."""

    rows: Batch
    until: int
    snapshot: Snapshot


class Materialization(Protocol):
    """What a query has; `edges` are those that it shows, `number` that of the row that it has in the query table of its
    group, if it is in one."""

    edges: tuple[str, ...]
    number: int | None

    @property
    def inputs(self) -> frozenset[str]:
        """The sources that the answer is made from."""
        ...

    def check(self) -> None:
        """Raise what stopped the query, if something did."""
        ...

    def answer(self, span: Span, *, whole: bool = False) -> Answer:
        """Rows that come or go in a span; `whole` where also those are needed that hold at its beginning."""
        ...

    def held(self, snapshot: Snapshot) -> int:
        """How many rows are kept for it, alone or together with others."""
        ...

    def notes(self) -> list[str]:
        """In words."""
        ...


class OwnColumns(Protocol):
    """Makes the rows of a query of a group of those that the group keeps."""

    @property
    def template(self) -> object:
        """What it has in common with other queries."""
        ...

    @property
    def kept(self) -> Schema:
        """The columns of what is kept."""
        ...

    def own(self, rows: Batch) -> Batch:
        """The rows of the query itself."""
        ...

    def own_of_many(self, rows: Batch, places: Numbers, queries: Sequence[int]) -> Batch:
        """Those of queries of the same template, the place of the query in front; these are given, places sorted."""
        ...


@dataclass
class Eager:
    """An edge's rows, or those of one query of a group."""

    reader: Reader
    edge: str
    schema: Schema
    stream: bool
    number: int | None = None
    own_columns: OwnColumns | None = None  # what makes its rows of those that are kept, if they differ
    reason: str = ""  # why it is this way though another one was asked for

    def __post_init__(self) -> None:
        self.edges: tuple[str, ...] = (self.edge,)
        self._inputs: frozenset[str] = frozenset()

    @property
    def inputs(self) -> frozenset[str]:
        if not self._inputs:
            self._inputs = self.reader.inputs(self.edge)
        return self._inputs

    def check(self) -> None:
        self.reader.await_admission(self.edge)
        self.reader.check(self.edge, self.number)

    def answer(self, span: Span, *, whole: bool = False) -> Answer:
        self.reader.await_admission(self.edge)
        answer = self.reader.read(lambda snapshot: self._answer(snapshot, span, whole))
        return answer if self.own_columns is None else replace(answer, rows=self.own_columns.own(answer.rows))

    @property
    def _kept(self) -> Schema:
        return self.schema if self.own_columns is None else self.own_columns.kept

    def _answer(self, snapshot: Snapshot, span: Span, whole: bool) -> Answer:
        self.reader.check(self.edge, self.number)
        since, until = span(self.reader.final(self.inputs, snapshot))
        if self.number is not None:
            made = self.reader.combined(snapshot, self.edge, self.number, since, until)
            if made is not None:
                return Answer(made, until, snapshot)
        if self.number is None and since == until >= 0 and not self.stream and self.edge not in self.reader.sources:
            return Answer(self.reader.current(snapshot, self.edge, self._kept, until), until, snapshot)
        wanted = wanted_segments(self.stream, since, until, whole=whole)
        rows = self.reader.rows_in(snapshot, self.edge, self._kept, self.number, wanted, after=since)
        return Answer(rows, until, snapshot)

    def held(self, snapshot: Snapshot) -> int:
        if self.number is None:
            return self.reader.height(self.edge)
        self.reader.check(self.edge, self.number)
        return self.reader.height_of(self.edge, snapshot, self.number)

    def notes(self) -> list[str]:
        return [f"the answer is kept, as in mode EAGER: {self.reason}" if self.reason else "the answer is kept"]


def wanted_segments(stream: bool, since: int, until: int, *, whole: bool) -> Wanted:
    """Which segments of results may have rows that come or go in a span; `whole` where also those are needed that hold
    at its beginning."""

    def wanted(extent: Extent) -> bool:
        if stream:
            return extent.has_elements(since, until)
        if whole:
            return extent.has_alive(since) or extent.has_changes(since, until)
        return extent.has_alive(until) if since == until else extent.has_changes(since, until)

    return wanted


@dataclass
class Lazy:
    """The parts of a plan, each an edge, and the plan above them; in a group, where there is one part, its number, and
    the constants that the query has in the plan above, if there are such."""

    reader: Reader
    plan: LazyPlan
    edges: tuple[str, ...]
    inputs: frozenset[str]
    schema: Schema
    options: Options
    number: int | None = None
    constants: Callable[[], Sequence[object]] | None = None

    def check(self) -> None:
        for edge in self.edges:
            if self.number is not None:
                self.reader.await_admission(edge)
            self.reader.check(edge, self.number)

    def answer(self, span: Span, *, whole: bool = False) -> Answer:
        self.check()
        return self.reader.read(lambda snapshot: self._answer(snapshot, span))

    def _answer(self, snapshot: Snapshot, span: Span) -> Answer:
        since, until = span(self.reader.final(self.inputs, snapshot))
        if self.plan.upper is not None and since == until >= 0:
            rows = self._aggregated(snapshot, until)
            made = self.reader.evaluation.computed(*self._upper, {TREE: rows}, {TREE: until}, until, self.schema)
            return Answer(made, until, snapshot)
        parts = range(len(self.plan.parts))
        arrived = {part_name(index): self._part(index, snapshot, since, until) for index in parts}
        final = dict.fromkeys(arrived, until)
        made = self.reader.evaluation.computed(*self._above, arrived, final, until, self.schema)
        return Answer(made, until, snapshot)

    def _part(self, index: int, snapshot: Snapshot, since: int, until: int) -> Batch:
        part, edge = self.plan.parts[index], self.edges[index]
        schema = part.plan.schema[: len(part.plan.schema) - len(part.windows)]
        if not part.windows:
            return overlapping(self.reader.rows_in(snapshot, edge, schema), since, until)
        like, found = self.read_of(index), self.reader.segments(edge, snapshot)
        if part.is_tree:
            leaves = [tree_segments.leaves_of(segment, self.shape, self.number) for segment in found]
            return shown(leaves, like, part.windows, since, until)
        if self.number is None:
            return in_windows(found, like, part.windows, since, until)
        between = bounds(part.windows, since, until)
        rows = [Postings(segment).rows_of(self.number, *between, like.columns) for segment in found]
        return shown(rows, like, part.windows, since, until)

    def read_of(self, index: int) -> Batch:
        """An empty batch with the columns that are read of a part."""
        return self._read[index]

    @cached_property
    def _read(self) -> list[Batch]:
        """Of each part, an empty batch with the columns that are read of it: others need not be fetched."""
        batches = []
        for index, part in enumerate(self.plan.parts):
            like = empty_batch(part.plan.schema[: len(part.plan.schema) - len(part.windows)])
            used = columns_read(self.plan.above, part_name(index))
            batches.append(like if used is None else like[[*map(value_column, sorted(used)), *INTERVAL_COLUMNS]])
        return batches

    def _aggregated(self, snapshot: Snapshot, at: int) -> Batch:
        """What the tree says at an instant."""
        segments, (part,) = self.reader.segments(self.edges[0], snapshot), self.plan.parts
        first, last = reference(part.windows).span(at)
        return ranked_tree.aggregate(segments, self.shape, first, last, at, self.number)

    @cached_property
    def shape(self) -> TreeShape:
        """Of the tree that is kept."""
        (part,) = self.plan.parts
        if not isinstance(part.plan, ph.RankedTree):
            raise AssertionError("no tree")
        return tree_shape(part.plan, part.plan.input.schema)

    @cached_property
    def _above(self) -> tuple[str, Pipeline]:
        return self._lowered(self.plan.above)

    @cached_property
    def _upper(self) -> tuple[str, Pipeline]:
        return self._lowered(self.plan.upper or self.plan.above)

    def _lowered(self, plan: lo.Node) -> tuple[str, Pipeline]:
        own = plan if self.constants is None else with_parameters(plan, self.constants())
        return lowered(own, replace(self.options, lenient=True))

    def held(self, snapshot: Snapshot) -> int:
        return sum(self.reader.counted(edge, snapshot, self.number, self._held_in) for edge in self.edges)

    def _held_in(self, segment: pl.DataFrame) -> int:
        if any(part.is_tree for part in self.plan.parts):
            return int(tree_segments.size_of(segment, self.number))
        if self.number is None:
            return segment.height
        return int(Postings(segment).positions(self.number).size)

    def notes(self) -> list[str]:
        own = (
            "in trees by who wants them"
            if self.plan.parts[0].is_tree
            else "with a bit or a place for whoever wants them"
        )
        shared = [] if self.number is None else [f"rows are kept once for all queries of the group, {own}"]
        return [*(_kept_part(part) for part in self.plan.parts), *shared]


@dataclass
class Unmaterialized:
    """A plan to run over history; where it has parameters, with `values` in their place."""

    reader: Reader
    template: lo.Node
    inputs: frozenset[str]
    schema: Schema
    options: Options
    values: tuple[object, ...] | None = None
    parameters: tuple[DataType, ...] = ()
    edges: tuple[str, ...] = field(default=())
    number: int | None = None

    @cached_property
    def plan(self) -> lo.Node:
        values = self.values
        if values is None:
            return self.template
        return with_parameters(self.template, values)

    def check(self) -> None:
        for edge in self.edges:
            self.reader.check(edge)

    def answer(self, span: Span, *, whole: bool = False) -> Answer:
        self.check()
        edge, pipeline = self._lowered
        if edge in self.reader.sources:
            return self.reader.read(lambda snapshot: self._history(snapshot, span))
        with self.reader.commits.reading(pipeline.sources) as snapshot:
            return self._answer(snapshot, span)

    def _history(self, snapshot: Snapshot, span: Span) -> Answer:
        since, until = span(self.reader.final(self.inputs, snapshot))

        def wanted(extent: Extent) -> bool:
            return extent.first <= until and extent.end > since

        return Answer(self.reader.rows_in(snapshot, self._lowered[0], self.schema, wanted=wanted), until, snapshot)

    def _answer(self, snapshot: Snapshot, span: Span) -> Answer:
        reader = self.reader
        since, until = span(reader.final(self.inputs, snapshot))
        edge, pipeline = self._lowered
        firsts, last = self.first_instants(since), last_instant(until)
        rows = reader.evaluation.answer(edge, pipeline, self.schema, snapshot, firsts, last)
        return Answer(rows, until, snapshot)

    def first_instants(self, since: int) -> dict[str, int]:
        """Of each stream, the first instant that the answer from `since` on depends on."""
        return {} if since < 0 else first_instants(self.template, since)

    @cached_property
    def _lowered(self) -> tuple[str, Pipeline]:
        return lowered(self.plan, replace(self.options, lenient=True))

    def held(self, snapshot: Snapshot) -> int:
        return 0

    def notes(self) -> list[str]:
        tried = ["what can fail is tried as rows come"] if self.edges else []
        return ["nothing is kept: the answer is computed from history when it is asked for", *tried]


def last_instant(until: int) -> int:
    """Up to which rows can matter to an answer that is to be right up to an instant: no operator looks ahead."""
    return until if until >= 0 else INF


def first_instants(plan: lo.Node, since: int) -> dict[str, int]:
    """Of each stream that is read only by time-based windows, the first instant of elements that are in one of them at
    `since` or later. Others are not in it."""
    found: dict[str, int] = {}
    root = plan.input if isinstance(plan, lo.RelationToStream) else plan
    _note_windows(root, since, found)
    return {name: max(0, first) for name, first in found.items()}


def _note_windows(node: lo.Node, since: int, found: dict[str, int]) -> None:
    if isinstance(node, lo.Join) and joins_runs(node):
        found.update({scan.name: 0 for scan in node.walk() if isinstance(scan, lo.StreamScan)})
    elif not isinstance(node, lo.Window):
        for child in node.children:
            _note_windows(child, since, found)
    else:
        _note_window(node, since, found)


def _note_window(node: lo.Window, since: int, found: dict[str, int]) -> None:
    stream = node.input
    while isinstance(stream, lo.Sample):
        stream = stream.input
    timed = isinstance(stream, lo.StreamScan) and not isinstance(node.window, ElementSpecification)
    first = node.window.span(since)[0] if timed and not isinstance(node.window, ElementSpecification) else 0
    for scan in stream.walk():
        if isinstance(scan, lo.StreamScan):
            found[scan.name] = min(found.get(scan.name, since), first)


def _kept_part(part: KeptPart) -> str:
    if isinstance(part.plan, ph.RankedTree):
        functions, windows = ", ".join(map(str, part.plan.calls)), ", ".join(dict.fromkeys(map(str, part.windows)))
        return f"a ranked tree is kept of {functions}, for any window: {windows} asked of it"
    if isinstance(part.plan, ph.Guard):
        return "what can fail is tried as rows come"
    if not part.windows:
        return "a part that no time-based window stands on is kept as in mode EAGER"
    apart = "" if len(part.windows) == 1 else ", by the oldest element"
    kept = "" if part.kept is None or len(part.windows) == 1 else f" that lie within {part.kept} ticks"
    what = "matches" if len(part.windows) == 1 else f"matches of {len(part.windows)} elements{kept}"
    return f"{what} are kept without windows{apart}: {', '.join(map(str, part.windows))} applied when asked"
