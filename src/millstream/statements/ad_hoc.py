"""SELECT: the answer of a query that is not registered, as of now."""

from __future__ import annotations

from dataclasses import replace

from millstream.engine.answers import elements_between, relation_at
from millstream.engine.engine import Engine
from millstream.engine.materialization import first_instants, last_instant
from millstream.ingest.insert import Inputs
from millstream.language import statements as st
from millstream.language.binder import BoundQuery
from millstream.language.instants import shown_instant
from millstream.plan.lowering.lower import CLOCK
from millstream.plan.nodes import has_no_heartbeat, sources
from millstream.queries.notices import check_now, counted_now, of_the_past
from millstream.queries.planner import Planner
from millstream.statements.result import Result


class AdHocQueries:
    """Runs a plan over the history that is kept."""

    def __init__(self, engine: Engine, planner: Planner, inputs: Inputs) -> None:
        self._engine, self._planner, self._inputs = engine, planner, inputs

    def run(self, statement: st.AdHocQuery) -> Result:
        bound = self._planner.answering_once().plan(statement.place.text, statement.query).bound
        self._inputs.ask_for_ticks()
        now = self.latest(bound)
        limits, past = self._engine.limits.answers, of_the_past(self._engine, bound)
        # The answer of a relation has only this instant, that of a stream all elements up to it.
        first = now if bound.kind == "relation" else past.counted
        options = replace(self._planner.options, first_counted=max(first, 0))
        if past.unseen is None:
            check_now(past, now, bound)
            firsts, last = dict(past.kept), last_instant(now)
            if bound.kind == "relation" and now >= 0:
                own = first_instants(bound.plan, now)
                firsts = {stream: max(firsts.get(stream, 0), own.get(stream, 0)) for stream in {*firsts, *own}}
            rows = self._engine.evaluation.evaluate(bound.plan, options, now, firsts, last=last)
        else:
            rows, past = counted_now(self._engine, bound, past, options, now)
        if bound.kind == "relation":
            table = relation_at(rows, bound.schema, now, bound.order, limits)
            table = table.select(range(len(bound.schema) - bound.added_keys)) if bound.added_keys else table
        else:
            read = {source.feed for source in sources(bound.plan)}
            since = max(past.first, self._engine.sources.first_answerable(read)) - 1
            table = elements_between(rows, bound.schema, since, now, bound.domain, limits)
        notices = (*past.notices, *self._planner.certain_failures(bound, statement.place))
        count = f"{table.num_rows} row{'' if table.num_rows == 1 else 's'}"
        waiting = self._waiting(bound, now)
        return Result("; ".join([count, *notices]), table=table, notices=notices, waiting=waiting)

    def _waiting(self, bound: BoundQuery, now: int) -> str:
        """What rows wait for that have come and are not in the answer, since earlier ones may follow."""
        engine, read = self._engine, sorted({source.feed for source in sources(bound.plan)})
        last = {feed: max((file.last for file in engine.snapshot.history.get(feed, ())), default=-1) for feed in read}
        newest = max(read, key=lambda feed: last[feed], default=CLOCK)
        if last.get(newest, -1) <= now:
            return ""
        held = min(read, key=engine.sources.frontier)
        name, until = engine.sources.name_of(newest), _written(last[newest], bound)
        others = "" if held == newest else f" of {engine.sources.name_of(held)}"
        reached = "nothing is final yet" if now < 0 else f"final up to {_written(now, bound)}"
        return (
            f"{reached}: {name} has rows up to {until}, which count when later rows{others} have come, "
            f"or after ADVANCE {engine.sources.name_of(held)} TO {until}"
        )

    def latest(self, bound: BoundQuery) -> int:
        """The instant up to which a query is final now; over tables only, also what is pending."""
        engine, read = self._engine, sources(bound.plan)
        frontiers = [engine.sources.frontier(source.feed) for source in read] or [engine.sources.frontier(CLOCK)]
        if has_no_heartbeat(bound.plan):
            pending = [engine.snapshot.progress(source.feed).last_change for source in read]
            return max([min(frontiers), 0, *pending])
        return min(frontiers)


def _written(tick: int, bound: BoundQuery) -> str:
    """An instant as statements have it."""
    shown = shown_instant(tick, bound.domain)
    return str(shown) if isinstance(shown, int) else f"'{shown.replace(tzinfo=None)}'"
