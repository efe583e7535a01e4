"""What a query has of the past under RETAIN, by DESIGN's section 2a and docs/semantics.md:

    K(S)  = final - RETAIN(S) when the query comes; 0 where nothing of S was cut
    F     = the first instant from which no element before K can be in any window, nested windows composed
    first answerable = max(F, final - the least RETAIN)

Windows that count rows are free of what came before K when the (N+L)-th element from there on comes: F may not be known
yet, and until it is nothing can be asked. Queries for which there is no F answer from the elements from K on, and their
authors are told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.text_oracle.evaluator import Evaluator, Leaf, Query
from tests.text_oracle.sampling import is_sampled
from tests.text_oracle.windows import INF, Window
from tests.text_oracle.world import World

OPEN = INF - 2  # an instant that is not known yet: elements that are waited for have not come


@dataclass(frozen=True)
class Past:
    """`first` is F as far as it is known, `cut` is K of each stream that was cut, and `kept` the same where answers are
    made of what is kept."""

    first: int = 0
    kept: Mapping[str, int] = field(default_factory=dict)
    cut: Mapping[str, int] = field(default_factory=dict)
    notices: bool = False  # whether its author was told when it came
    waits: bool = False  # for elements to be counted
    reduces: bool = False

    def believed(self, world: World, query: Query, operator: str | None, notices: Sequence[str]) -> Past:
        """ISTREAM, row by row, over windows that never end is RSTREAM over NOW, which needs nothing of before. A rule
        makes it so, unless it is disabled: an author who is told of no lack must have exact answers from that F on."""
        if not self.kept or any("lack what came before" in notice for notice in notices):
            return self
        reduced = _past(world, self.cut, query, operator, reduces=True)
        return self if reduced.kept else reduced

    def now(self, world: World, query: Query, operator: str | None) -> Past:
        """With what has been counted up to now."""
        if not self.waits:
            return self
        last = _Reach(world, self.cut, as_it_came=False, reduces=self.reduces).of(query, operator)
        return replace(self, first=last + 1 if last < OPEN else OPEN)

    def is_told(self, final: int) -> bool:
        """What was to be waited for is told until it is there; that something is missing, for good."""
        return self.notices if self.kept else bool(self.cut) and self.first > final

    def answerable(self, world: World, query: Query, final: int) -> int:
        retains = [world.streams[name].retain for name in query.reads & set(world.streams)]
        known = [retain for retain in retains if retain is not None]
        return max(self.first, final - min(known), 0) if known else self.first


def past_of(world: World, query: Query, operator: str | None) -> Past:
    """Of a query that comes now."""
    final, cut = world.final(query.reads), {}
    for name in query.reads & set(world.streams):
        stream = world.streams[name]
        if stream.cut and stream.retain is not None:
            cut[name] = max(stream.cut, final - stream.retain)
    return _past(world, cut, query, operator) if cut else Past()


def _past(world: World, cut: Mapping[str, int], query: Query, operator: str | None, *, reduces: bool = False) -> Past:
    last = _Reach(world, cut, as_it_came=True, reduces=reduces).of(query, operator)
    if last > OPEN:
        return Past(max(cut.values()), cut, cut, notices=True)
    if last == OPEN:
        return Past(OPEN, {}, cut, waits=True, reduces=reduces).now(world, query, operator)
    return Past(last + 1, {}, cut, notices=last >= max(world.final(query.reads), 0))


@dataclass(frozen=True)
class _Reach:
    """The last instant at which an answer may depend on elements before K: -1 for none, OPEN where it is not known yet,
    INF for ever. When a query comes, it is known of windows that count single elements of a base stream; others
    count from then on."""

    world: World
    cut: Mapping[str, int]
    as_it_came: bool
    reduces: bool  # ISTREAM over what only grows to RSTREAM over NOW

    def of(self, query: Query, operator: str | None) -> int:
        read = [leaf for leaf in query.leaves if re.search(rf"\b{leaf.name}(_ordered)?\b", query.text.duck)]
        if self.reduces and operator == "ISTREAM" and _is_row_wise(query, read):
            return max((self._below(leaf) for leaf in read), default=-1)
        seen = max((self._of_leaf(leaf) for leaf in read), default=-1)
        return seen if seen < 0 or seen >= OPEN or operator in (None, "RSTREAM") else seen + 1

    def _of_leaf(self, leaf: Leaf) -> int:
        if leaf.window is None:
            return -1
        seen = self._below(leaf)
        if seen < 0:
            return -1
        if leaf.window.form == "rows":
            return self._of_rows(leaf, leaf.window, seen)
        return leaf.window.last_shown(seen, self.world.half_open) if seen != OPEN else _of_open(leaf.window)

    def _below(self, leaf: Leaf) -> int:
        """Below its window."""
        if isinstance(leaf.source, Query):
            return self.of(leaf.source, leaf.source.operator)
        return self.cut[leaf.source] - 1 if leaf.source in self.cut else -1

    def _of_rows(self, leaf: Leaf, window: Window, seen: int) -> int:
        """The (N+L)-th of the elements that are right finds none of the others."""
        is_base = isinstance(leaf.source, str) and leaf.percent is None
        if window.partition or seen >= OPEN or (window.slide > 1 and not is_base):
            return INF
        if self.as_it_came and not (is_base and window.slide == 1):
            return OPEN
        later = [instant for instant in self._instants(leaf) if instant > seen]
        number = window.size + window.slide
        return later[number - 1] - 1 if len(later) >= number else OPEN

    def _instants(self, leaf: Leaf) -> list[int]:
        """Of the elements that a window counts, in the order of time."""
        if isinstance(leaf.source, Query):
            evaluator = Evaluator(self.world, self.world.final(leaf.source.reads))
            return [element.instant for element in evaluator.elements(leaf.source)]
        stream = self.world.streams[leaf.source]
        taken = zip(stream.elements, stream.numbers, strict=True)
        found = (e.instant for e, number in taken if is_sampled(number, leaf.percent))
        return sorted(instant for instant in found if instant <= stream.heartbeat)


_NOT_ROW_WISE = re.compile(
    r"\b(DISTINCT|GROUP BY|HAVING|JOIN|EXISTS|EXCEPT|INTERSECT|LIMIT|UNION(?! ALL)|OVER)\b"
    r"|\b(COUNT|SUM|AVG|MIN|MAX|stddev\w*|var_\w+|bool_or|bool_and|first|last) ?\(",
    re.IGNORECASE,
)


def _is_row_wise(query: Query, read: Sequence[Leaf]) -> bool:
    """Selections and projections of windows that never end, and UNION ALL of such."""
    grows = all(leaf.window is not None and leaf.window.form == "unbounded" for leaf in read)
    branches = len(re.findall(r"\bUNION ALL\b", query.text.duck)) + 1
    return grows and len(read) <= branches and not _NOT_ROW_WISE.search(query.text.duck)


def _of_open(window: Window) -> int:
    """How long a window shows what may be wrong up to an instant that is not known yet."""
    if window.form in ("unbounded", "session", "complete") or window.begin is not None:
        return INF
    return OPEN if window.end is None else window.end + window.begin_age
