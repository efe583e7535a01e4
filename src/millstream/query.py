"""A registered query: its answer now, at an instant, and its changes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millstream.engine.answers import changes_between, elements_until, relation_at
from millstream.errors import ClosedError, TimeError
from millstream.kernel.batch import INF, Batch
from millstream.language.binder import BoundQuery
from millstream.language.instants import instant, shown_instant
from millstream.plan.definitions import TimeDomain
from millstream.plan.explain import explain
from millstream.plan.lifetime import influence
from millstream.plan.logical import QUERY, Kind, has_no_heartbeat
from millstream.state.snapshot import Snapshot
from millstream.types import Schema, arrow_schema

if TYPE_CHECKING:
    from millstream.database import Database


_GLANCE = 0.5  # seconds


class Query:
    """A standing question; made by `Database.register`."""

    def __init__(
        self,
        database: Database,
        name: str,
        mode: str,
        bound: BoundQuery,
        edge: str,
        number: int | None = None,
        template: str | None = None,
        notices: Sequence[str] = (),
    ) -> None:
        """`bound` may be that of the query's template: all is the same but its constants."""
        self.name = name
        self.mode = mode
        self._database = database
        self._bound = bound
        self.edge = edge
        self.number = number  # within its group, if it shares a plan
        self.template = template
        self.notices = list(notices)  # what its author should know of the past that it saw
        self._dropped = False

    @property
    def kind(self) -> Kind:
        return self._bound.kind

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self._bound.schema)

    @property
    def cql(self) -> str:
        """The text with all defaults written out."""
        return self._own.cql

    @property
    def defaults(self) -> list[str]:
        return list(self._own.defaults)

    @property
    def reads(self) -> frozenset[str]:
        """The streams, tables and views that it names."""
        return self._bound.reads

    @property
    def final(self) -> Any:
        """The instant up to which the answer is final; None where nothing is yet."""
        tick = -1 if self.is_filling else self._final()
        return None if tick < 0 else shown_instant(tick, self._bound.domain)

    @property
    def is_filling(self) -> bool:
        """Whether the past that is kept is still being worked through in the background."""
        engine = self._database.engine
        if self.number is None:
            return self.edge in engine.backfills
        is_among = self.edge in engine.groups and self.number in engine.groups[self.edge].filling
        return is_among and not engine.backfills.is_broken(self.edge, self.number)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the past that is kept has been worked through; tells whether it has, in so many seconds."""
        engine = self._database.engine
        if self.number is not None:
            engine.settle(self.edge)
        engine.wait_until(lambda: self._has_ended or not self.is_filling, timeout)
        self._check_open()
        return not self.is_filling

    def result(self, at: Any = None) -> pa.Table:
        """R(at) of a relation; of a stream all elements up to `at`, their timestamps first. The default is now."""
        self._check_open()
        self.wait()
        database, schema = self._database, self._bound.schema
        if at is None and (pending := self._pending()) is not None:
            tick, rows = pending, database.engine.evaluate(self._own.plan, database.options(), pending)
        else:
            database.inputs.tick_clocks()
            rows, snapshot = self._rows(self._needed_after(at))
            final = database.engine.final(self.edge, snapshot)
            tick = final if at is None else self._final_instant(at, final)
        if self.kind == "relation":
            return relation_at(rows, schema, tick)
        return elements_until(rows, schema, tick, self._bound.domain, database.settings.max_rstream_rows)

    def rows_of_group(self, at: Any) -> tuple[Batch, int]:
        """The rows of all queries of its group, the query first, and the instant that `at` (or now) is."""
        self._check_open()
        self.wait()
        engine = self._database.engine
        self._database.inputs.tick_clocks()
        engine.settle(self.edge)
        rows, snapshot = engine.rows(self.edge, (QUERY, *self._bound.schema))
        final = engine.final(self.edge, snapshot)
        return rows, final if at is None else self._final_instant(at, final)

    @property
    def fields(self) -> Schema:
        return self._bound.schema

    def changes(self, since: Any = None) -> pa.Table:
        """The final changes after `since`: _ts, _weight and the columns, in time order."""
        self._check_open()
        self.wait()
        after = self.first_tick - 1 if since is None else instant(since, self._domain)
        return self.changes_between(after, self._final())

    def changes_between(self, since: int, until: int) -> pa.Table:
        """The changes of the ticks after `since` up to `until`, which must be final."""
        if since < self.first_tick - 1:
            shown = shown_instant(max(since, 0), self._bound.domain)
            raise self._forgotten(f"the changes of {self.name} since {shown}", self.first_tick)
        rows, _ = self._rows(since)
        return changes_between(
            rows,
            self._bound.schema,
            stream=self.kind == "stream",
            since=since,
            until=until,
            domain=self._bound.domain,
            max_rows=self._database.settings.max_rstream_rows,
        )

    def follow(self, since: Any = None, timeout: float | None = None) -> Iterator[pa.Table]:
        """The final changes after `since`, as they become final: tables like those of `changes`, none of them empty.

        Blocks until there are some, and ends when the query is dropped or the database closed, or when nothing has come
        for `timeout` seconds. A reader that comes back with the last `_ts` it has seen misses nothing and sees nothing
        twice.
        """
        self._check_open()
        seen = self.first_tick - 1 if since is None else instant(since, self._domain)
        return self._follow(seen, timeout)

    def _follow(self, seen: int, timeout: float | None) -> Iterator[pa.Table]:
        self._database.engine.wait_until(lambda: self._has_ended or not self.is_filling, timeout)
        while not self._has_ended:
            if self.is_filling:
                return  # for longer than anybody wants to wait
            final = self._final()
            if final > seen:
                changes = self.changes_between(seen, final)
                seen = final
                if changes.num_rows:
                    yield changes
                    continue
            if self._has_ended:
                return
            self._wait(seen, timeout)
            if not self._has_ended and self._final() <= seen:
                return  # nothing came

    @property
    def _has_ended(self) -> bool:
        return self._dropped or self._database.is_closed

    def _wait(self, seen: int, timeout: float | None) -> None:
        """Until more is final; streams that follow the clock of day are looked at now and then."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._has_ended and self._final() <= seen:
            left = _GLANCE if deadline is None else min(_GLANCE, deadline - time.monotonic())
            if left <= 0:
                return
            self._database.engine.wait_until(lambda: self._has_ended or self.final_tick > seen, left)

    def explain(self) -> str:
        return explain(self._own.plan)

    def stats(self) -> dict[str, Any]:
        self._check_open()
        if (backfill := self.backfill) is not None:
            epoch = self._database.engine.snapshot.epoch
            return {"final": None, "epoch": epoch, "mode": self.mode, "backfill": backfill, **self._noticed()}
        rows, snapshot = self._rows()
        notice = self._database.engine.notices.get((self.edge, self.number))
        return {
            "final": self.final,
            "epoch": snapshot.epoch,
            "rows": rows.height,
            "mode": self.mode,
            **(self._database.registry.sharing(self) if self.number is not None else {}),
            **self._exactness(snapshot),
            **({"notice": str(notice)} if notice is not None else {}),
            **self._noticed(),
        }

    def _noticed(self) -> dict[str, Any]:
        return {"notices": list(self.notices)} if self.notices else {}

    @property
    def backfill(self) -> dict[str, Any] | None:
        """How far the past has been worked through, while it is: fraction, instants and rows."""
        found = self._database.engine.backfills.progress(self.edge)
        if found is None or not self.is_filling:
            return None
        instants = {"reached": found.reached, "until": found.until}
        shown = {name: None if t < 0 else shown_instant(t, self._bound.domain) for name, t in instants.items()}
        return {"fraction": found.fraction, **shown, "rows": found.rows, "of_rows": found.of_rows}

    @property
    def is_approximate(self) -> bool:
        """Whether elements were shed that the answer now would need."""
        return bool(self._exactness(self._database.engine.snapshot)["approximate"])

    def _exactness(self, snapshot: Snapshot) -> dict[str, Any]:
        """Whether the answer now may lack elements that were shed, and until when answers may."""
        shed = {name: progress.shed_until for name, progress in snapshot.sources.items()}
        last = influence(self._bound.plan, shed)
        if last < 0:
            return {"approximate": False}
        until = None if last >= INF - 1 else shown_instant(last, self._bound.domain)
        return {"approximate": self.final_tick <= last, "approximate_until": until}

    def drop(self) -> None:
        """Forget the query and what only it needed."""
        self._check_open()
        self._database.drop_query(self.name)

    def close(self) -> None:
        self._dropped = True

    def __repr__(self) -> str:
        return f"<Query {self.name}: {self.kind} {self.cql}>"

    @property
    def _own(self) -> BoundQuery:
        """With its own constants."""
        return self._bound if self.template is None else self._database.registry.own(self)

    def _rows(self, after: int = -1) -> tuple[Batch, Snapshot]:
        return self._database.engine.rows(self.edge, self._bound.schema, self.number, after)

    def _needed_after(self, at: Any) -> int:
        """An instant such that rows that have ended by then do not matter for the answer: of a relation those that have
        ended by what is final already."""
        if self.kind == "stream":
            return -1
        final = self.final_tick
        return final if at is None else min(final, instant(at, self._domain))

    @property
    def _domain(self) -> TimeDomain:
        return self._bound.domain or TimeDomain(None)

    def _check_open(self) -> None:
        self._database.check_open()
        if self._dropped:
            raise ClosedError(f'query "{self.name}" was dropped')

    @property
    def first_tick(self) -> int:
        """The first instant that is still kept."""
        return self._database.engine.first_answerable(self.edge)

    @property
    def final_tick(self) -> int:
        """How far the answer is final by what is committed; -1 where nothing is."""
        engine = self._database.engine
        if self.number is not None:
            engine.settle(self.edge)
        engine.check(self.edge, self.number)
        return engine.final(self.edge, engine.snapshot)

    def _final(self) -> int:
        self._database.inputs.tick_clocks()
        return self.final_tick

    def _pending(self) -> int | None:
        """Over tables only, the instant of a change that lies beyond what is final: now is then."""
        if not has_no_heartbeat(self._bound.plan):
            return None
        engine = self._database.engine
        last = max((engine.snapshot.progress(source).last_change for source in engine.inputs(self.edge)), default=-1)
        return last if last > self._final() else None

    def _final_instant(self, at: Any, final: int) -> int:
        tick = instant(at, self._domain)
        engine = self._database.engine
        first = engine.first_answerable(self.edge)
        if tick < first:
            raise self._forgotten(f"the answer of {self.name} at {at}", first)
        if tick <= final:
            return tick
        held_by = min(engine.inputs(self.edge), key=engine.frontier)
        reached = "nothing is final yet" if final < 0 else f"final is {shown_instant(final, self._bound.domain)}"
        raise TimeError(
            f"the answer of {self.name} at {at} is not final",
            detail=f"{reached}; it waits for {held_by}",
            hint=f"insert later elements into {held_by}, or ADVANCE {held_by} TO {at}",
        )

    def _forgotten(self, what: str, first: int) -> TimeError:
        return TimeError(
            f"{what} is no longer kept",
            detail=f"the first instant that can be asked for is {shown_instant(first, self._bound.domain)}",
            hint="declare the streams it reads with a longer RETAIN, or RETAIN FOREVER",
        )
