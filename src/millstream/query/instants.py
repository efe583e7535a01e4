"""The instants that a query can be asked for: from the first answerable one up to the last final one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from millstream.errors import TimeError
from millstream.language.instants import instant, shown_instant
from millstream.plan.analysis.lifetime import OPEN
from millstream.plan.definitions import TimeDomain
from millstream.plan.nodes import has_no_heartbeat
from millstream.query.context import QueryContext

if TYPE_CHECKING:
    from millstream.query.query import Query


class QueryInstants:
    """Those of one query, as ticks. A view of the query, made where it is needed."""

    def __init__(self, query: Query, context: QueryContext) -> None:
        self._query, self._context, self._engine = query, context, context.engine

    def tick(self, value: Any) -> int:
        """The tick that a number of ticks or a timestamp means to this query."""
        return instant(value, self._domain)

    def shown(self, tick: int) -> Any:
        """A tick as this query's `_ts` would have it."""
        return shown_instant(max(tick, 0), self._query.common.domain)

    @property
    def _domain(self) -> TimeDomain:
        return self._query.common.domain or TimeDomain(None)

    @property
    def committed(self) -> int:
        """How far what is committed now is final, without waiting for anything: queries that wait are not admitted."""
        engine = self._engine
        for edge in self._query.materialization.edges:
            engine.reader.check(edge, self._query.row)
        return engine.sources.final(self._query.materialization.inputs, engine.snapshot)

    @property
    def frontier(self) -> int:
        """How far its inputs are committed, whether it has failed or not."""
        engine = self._engine
        return engine.sources.final(self._query.materialization.inputs, engine.snapshot)

    @property
    def first(self) -> int:
        """The first answerable instant: by RETAIN, and by what there was of the past when it came; OPEN as long as that
        is not known."""
        return max(self.first_by_past(), self._engine.sources.first_answerable(self._query.materialization.inputs))

    def extent(self) -> tuple[Any, Any, str]:
        """The first and the last instant that it can be asked for, as users write them, and their type; None where
        there is none: it has failed, its past is worked through, or nothing is final yet."""
        query = self._query
        kind, final = str(self._domain.type), query.final
        if final is None or (first := self.first) > self.final:
            return None, final, kind
        return self.shown(first), final, kind

    def first_by_past(self) -> int:
        """The first answerable instant by what there was of the past when it came."""
        finding, engine = self._query.finding, self._engine
        if self._query.past.first == OPEN and finding is not None and not self._query.is_filling:
            found = engine.reader.read(lambda snapshot: finding(snapshot.states))
            if found < OPEN:
                first = max(found, self._query.past.counted)
                engine.background.do(lambda: engine.count_from(self._query.edge, first))
            self._query.past = replace(self._query.past, first=found)
        return self._query.past.first

    @property
    def final(self) -> int:
        """How far the answer is final by what is committed; -1 where nothing is."""
        engine = self._engine
        self._query.materialization.check()
        return engine.sources.final(self._query.materialization.inputs, engine.snapshot)

    def reached(self) -> int:
        """How far the answer is final now, after streams that follow the clock of day have been told the time."""
        self._context.bring_up_to_now(self._query.materialization.inputs)
        return self.final

    def pending(self) -> int | None:
        """Over tables only, the instant of a change that lies beyond what is final: now is then. Before time begins,
        it is instant 0."""
        if not has_no_heartbeat(self._query.common.plan):
            return None
        engine = self._engine
        last = max(
            (engine.snapshot.progress(source).last_change for source in self._query.materialization.inputs), default=0
        )
        now = max(last, 0)  # tables without rows hold from instant 0 on
        return now if now > self.reached() else None

    def resolved(self, at: Any, final: int) -> int:
        """The instant that `at`, or now, is; an error where it cannot be asked for."""
        tick = final if at is None else instant(at, self._domain)
        first = self.first
        if at is None and (first <= final or first == 0):
            return final
        if tick < first:
            raise self.forgotten(f"the answer of {self._query.name} at {self.shown(tick)} is", first)
        if tick <= final:
            return tick
        raise self.not_final(f"the answer of {self._query.name} at {at} is", at, final)

    def not_final(self, what: str, at: Any, final: int) -> TimeError:
        """Names what holds the answer back."""
        engine = self._engine
        held_by = min(self._query.materialization.inputs, key=engine.sources.frontier)
        reached = "nothing is final yet" if final < 0 else f"final is {shown_instant(final, self._query.common.domain)}"
        name = engine.sources.name_of(held_by)
        waits, hint = f"it waits for {name}", f"insert later elements into {name}, or ADVANCE {name} TO {at}"
        if not engine.sources.has_heartbeat(held_by):
            waits, hint = "it waits for the clock", f"ADVANCE TO {at}"
        return TimeError(f"{what} not final", detail=f"{reached}; {waits}", hint=hint)

    def forgotten(self, what: str, first: int) -> TimeError:
        """Names the first answerable instant."""
        if first == OPEN:
            return TimeError(
                f"{what} no longer kept",
                detail="; ".join(self._query.past_notices),
                hint="the first answerable instant is known once so many elements have come",
            )
        return TimeError(
            f"{what} no longer kept",
            detail=f"the first answerable instant is {shown_instant(first, self._query.common.domain)}",
            hint="declare the streams it reads with a longer RETAIN, or RETAIN FOREVER",
        )
