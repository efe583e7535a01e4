"""A registered query: its answer now, at an instant, and its changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millstream.engine.answers import changes_between, elements_between, first_instants, from_instant, relation_at
from millstream.engine.bookmarks import Bookmark as Bookmark
from millstream.engine.epochs.task import StateNames
from millstream.engine.history.past import WHOLE, Past
from millstream.engine.life import Life, under_way
from millstream.engine.materialization import Answer, Keeping, Span
from millstream.errors import ClosedError, Error, EvaluationError, TimeError
from millstream.kernel.batch import INF, Batch, empty_batch
from millstream.language.binder import BoundQuery
from millstream.language.instants import instant, shown_instant
from millstream.plan.analysis.lifetime import OPEN, influence
from millstream.plan.definitions import TimeDomain
from millstream.plan.explain import explain
from millstream.plan.nodes import Kind, has_no_heartbeat
from millstream.plan.physical import QUERY
from millstream.state.snapshot import Snapshot
from millstream.types import Schema, arrow_schema

if TYPE_CHECKING:
    from millstream.database import Database


_GLANCE = 0.5  # seconds
# Followers that are woken together read by turns: it is short, and many that want to would only wait for one another.
_FOLLOWING = threading.BoundedSemaphore(2)


class Query:
    """A standing question; made by `Database.register`."""

    def __init__(
        self,
        database: Database,
        name: str,
        mode: str,
        bound: BoundQuery,
        keeping: Keeping,
        number: int | None = None,
        template: str | None = None,
        past: Past = WHOLE,
    ) -> None:
        """`bound` may be that of the query's template: all is the same but its constants."""
        self.name = name
        self.mode = mode
        self._database = database
        self._bound = bound
        self.keeping = keeping
        self.number = number  # within its group, if it shares a plan
        self.template = template
        self.past = past
        # Where the first answerable instant is found by counting: what is found in the state of steps.
        self.finding: Callable[[StateNames], int] | None = None
        self._dropped = False

    @property
    def notices(self) -> list[str]:
        """What its author should know of the past that it saw, as long as it concerns answers."""
        told = list(self.past.notices)
        if not told or not self.past.covered or (first := self._first_of_past()) == OPEN:
            return told
        if first <= self.committed_tick:
            return []  # what was to be waited for is there
        return [f"{notice.rpartition(': ')[0]}: it can be asked from {self.shown(first)} on" for notice in told]

    @property
    def life(self) -> Life:
        return self._database.life

    @property
    def kind(self) -> Kind:
        return self._bound.kind

    @property
    def edge(self) -> str:
        """The first of the edges that it shows; nothing where it keeps nothing."""
        return self.keeping.edges[0] if self.keeping.edges else ""

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self._bound.schema)

    @property
    def cql(self) -> str:
        """The text with all defaults written out."""
        return self.bound.cql

    @property
    def defaults(self) -> list[str]:
        return list(self.bound.defaults)

    @property
    def reads(self) -> frozenset[str]:
        """The streams, tables and views that it names."""
        return self._bound.reads

    @property
    def final(self) -> Any:
        """The instant up to which the answer is final; None where nothing is yet, or the query has failed."""
        self._check_open()
        tick = -1 if self.is_filling or self.error is not None else self._final()
        return None if tick < 0 else shown_instant(tick, self._bound.domain)

    @property
    def error(self) -> EvaluationError | None:
        """What stopped the query, if something did: it has no answers any more."""
        try:
            self.keeping.check()
        except EvaluationError as error:
            return error
        return None

    @property
    def has_pending(self) -> bool:
        """Whether its answer now is that of an instant which is not final."""
        return self._pending() is not None

    @property
    def is_filling(self) -> bool:
        """Whether the past that is kept is still being worked through in the background."""
        engine = self._database.engine
        if self.number is None:
            return any(edge in engine.backfills for edge in self.keeping.edges)
        is_among = self.edge in engine.groups and self.number in engine.groups[self.edge].filling
        return is_among and not engine.backfills.is_broken(self.edge, self.number)

    @under_way
    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the past that is kept has been worked through; tells whether it has, in so many seconds."""
        engine = self._database.engine
        if self.number is not None:
            engine.settle(self.edge)
        engine.wait_until(lambda: self.has_ended or not self.is_filling, timeout)
        engine.life.check_goes_on()
        self._check_open()
        return not self.is_filling

    @under_way
    def result(self, at: Any = None) -> pa.Table:
        """R(at) of a relation; of a stream all elements up to `at`, their timestamps first. The default is now."""
        self._check_open()
        self.wait()
        database, schema, first = self._database, self._bound.schema, 0
        if at is None and (pending := self._pending()) is not None:
            options = replace(database.options(), first_counted=pending)
            tick, rows = pending, database.engine.evaluate(self.bound.plan, options, pending)
        else:
            database.inputs.tick_clocks()
            is_relation = self.kind == "relation"

            def span(final: int) -> tuple[int, int]:
                nonlocal first
                first = self.first_tick
                asked = self._final_instant(at, final)
                return (asked if is_relation else first - 1), asked

            found = self._answer(span)
            tick, rows = found.until, found.rows
        if self.kind == "relation":
            return relation_at(rows, schema, tick)
        return elements_between(rows, schema, first - 1, tick, self._bound.domain, database.settings.max_rstream_rows)

    @under_way
    def rows_of_group(self, at: Any) -> tuple[Batch, int]:
        """The rows of all queries of its group, the query first, and the instant that `at` (or now) is."""
        self._check_open()
        self.wait()
        engine = self._database.engine
        self._database.inputs.tick_clocks()
        engine.settle(self.edge)
        rows, snapshot = engine.rows(self.edge, (QUERY, *self._bound.schema))
        final = engine.final(self.keeping.inputs, snapshot)
        return rows, self._final_instant(at, final)

    @property
    def fields(self) -> Schema:
        return self._bound.schema

    @under_way
    def changes(self, since: Any = None) -> pa.Table:
        """The final changes after `since`: _ts, _weight and the columns, in time order.

        Without `since` they begin with all that holds at the first instant that can be asked for, as insertions.
        """
        self._check_open()
        self.wait()
        final = self._final()
        place = self.place(since)
        if since is not None and place.seen > final:
            raise self._not_final(f"changes of {self.name} since {since} are", since, final)
        return self.given(place, final)[0]

    def place(self, since: Any = None) -> Bookmark:
        """Where changes after an instant begin; those of all instants with what holds at the first answerable one. What
        they change must be answerable itself."""
        first = self.first_tick
        if since is None and first == OPEN:
            return Bookmark(self, self.committed_tick, OPEN)
        if since is None:
            return Bookmark(self, first - 1, first)
        seen = self.tick(since)
        if seen < first:
            raise self._forgotten(f"the changes of {self.name} since {self.shown(seen)} are", first)
        return Bookmark(self, seen)

    def begun(self, place: Bookmark) -> Bookmark:
        """The place, with where it begins if that was not known yet and is now."""
        if place.start == OPEN:
            place.start = self._first_of_past()
        return place

    def hold(self, place: Bookmark, most: int | None = None) -> Bookmark:
        """Keep what comes after a place for as long as somebody has it, or until that is more than so many bytes."""
        place.most = most
        return self._database.engine.retention.bookmarks.hold(place)

    @under_way
    def given(self, place: Bookmark, until: int, most: int | None = None) -> tuple[pa.Table, int]:
        """What comes next for a place, up to an instant that is final, or as many instants as have about so many
        changes; and the last of them."""
        if place.lost is not None:
            raise TimeError(
                f"the changes of {self.name} since {self.shown(place.seen)} are no longer kept",
                detail=f"more than max_follower_bytes were kept for this reader, from {self.shown(place.lost)} back",
                hint="read faster, or raise max_follower_bytes",
            )
        if until <= self.begun(place).seen or until < place.start:
            return self._changes(empty_batch(self._bound.schema), -1, -1), place.seen
        if place.needed < (first := self._first_of_past()):
            # A sink's: the query was made again since, from what was kept then.
            raise self._forgotten(f"the changes of {self.name} since {self.shown(place.seen)} are", first)
        whole, since = place.is_new and self.kind == "relation", max(place.seen, place.start - 1)
        start = place.start if whole else since
        rows = self._answer(lambda final: (start, until), whole=whole).rows
        if whole:
            rows, since = from_instant(rows, start), start - 1
        if most is not None:
            until = first_instants(rows, stream=self.kind == "stream", since=since, until=until, most=most)
        return self._changes(rows, since, until), until

    @under_way
    def next_changes(self, place: Bookmark, most: int) -> tuple[pa.Table, int]:
        """The changes after a place, of as many instants as have about so many, and the last of them."""
        self._check_open()
        final = -1 if self.is_filling else self.final_tick
        return self.given(place, final, most)

    def _answer(self, span: Span, *, whole: bool = False) -> Answer:
        """From what is kept of it, asked anew where that has changed meanwhile."""
        self._first_of_past()  # of which it may fail
        while True:
            keeping = self.keeping
            try:
                found = keeping.answer(span, whole=whole)
            except Error:
                if self.keeping is keeping:
                    raise
            else:
                if self.keeping is keeping:
                    return found

    def join(self, other: Query) -> None:
        """Go on as another query that asks the same, within its group."""
        self._bound, self.number, self.template = other._bound, other.number, other.template
        self.past = other.past
        self.keeping = other.keeping  # last: whoever finds it has the rest

    def _changes(self, rows: Batch, since: int, until: int) -> pa.Table:
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
        twice. What it has not been given yet is kept for as long as there is this iterator.
        """
        self._check_open()
        return self._follow(self.hold(self.place(since)), timeout)

    def _follow(self, place: Bookmark, timeout: float | None) -> Iterator[pa.Table]:
        self._database.engine.wait_until(lambda: self.has_ended or not self.is_filling, timeout)
        while not self.has_ended:
            if self.is_filling:
                return  # for longer than anybody wants to wait
            try:
                final = self._final()
                changes = self._more(place)
                if changes is None or not changes.num_rows:
                    seen = final if place.start == OPEN else max(place.seen, place.start - 1)
                    self._wait(seen, timeout)
                    if not self.has_ended and self._final() <= seen:
                        return  # nothing came
                    continue
            except ClosedError:
                if self.has_ended:
                    return  # between two looks
                raise
            yield changes

    @under_way
    def _more(self, place: Bookmark) -> pa.Table | None:
        """What has become final since a follower was here."""
        final = self._final()
        if final <= self.begun(place).seen or final < place.start:
            return None
        with _FOLLOWING:
            changes, place.seen = self.given(place, final)
        return changes

    @property
    def has_ended(self) -> bool:
        """Whether it was dropped, or its database closed."""
        return self._dropped or self._database.is_closed

    def _wait(self, seen: int, timeout: float | None) -> None:
        """Until more is final; streams that follow the clock of day are looked at now and then."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.has_ended and self._final() <= seen:
            left = _GLANCE if deadline is None else min(_GLANCE, deadline - time.monotonic())
            if left <= 0:
                return
            self._database.engine.wait_until(lambda: self.has_ended or self.final_tick > seen, left)

    @under_way
    def explain(self) -> str:
        notes = (f"mode {self.mode}: {note}" for note in self.keeping.notes() if self.mode != "eager")
        return "\n".join([explain(self.bound.plan), *notes])

    @under_way
    def stats(self) -> dict[str, Any]:
        self._check_open()
        engine = self._database.engine
        if (backfill := self.backfill) is not None:
            epoch = engine.snapshot.epoch
            told = {"state": "filling", "final": None, "epoch": epoch, "mode": self.mode, "backfill": backfill}
            return {**told, **self._noticed()}
        snapshot, notice = engine.snapshot, engine.notices.get((self.edge, self.number))
        if (error := self.error) is not None:
            told = {"state": "failed", "error": str(error), "final": None, "epoch": snapshot.epoch, "mode": self.mode}
            return {**told, "approximate": False, **self._noticed()}
        return {
            "state": "active",
            "final": self.final,
            "epoch": snapshot.epoch,
            "rows": engine.read(self.keeping.held),
            "mode": self.mode,
            "kept": self.keeping.notes(),
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
        under_way = (self._database.engine.backfills.progress(edge) for edge in self.keeping.edges)
        found = next((progress for progress in under_way if progress is not None), None)
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

    @under_way
    def drop(self) -> None:
        """Forget the query and what only it needed."""
        self._check_open()
        self._database.drop_query(self.name)

    def close(self) -> None:
        self._dropped = True
        self._database.engine.tell()

    def __repr__(self) -> str:
        return f"<Query {self.name}: {self.kind} {self.cql}>"

    @property
    def bound(self) -> BoundQuery:
        """With its own constants."""
        self._database.check_open()
        return self._bound if self.template is None else self._database.registry.own(self)

    def tick(self, value: Any) -> int:
        """The tick that a number of ticks or a timestamp means to this query."""
        return instant(value, self._domain)

    def shown(self, tick: int) -> Any:
        """A tick as this query's `_ts` would have it."""
        return shown_instant(max(tick, 0), self._bound.domain)

    @property
    def _domain(self) -> TimeDomain:
        return self._bound.domain or TimeDomain(None)

    def _check_open(self) -> None:
        self._database.check_open()
        if self._dropped:
            raise ClosedError(f'query "{self.name}" was dropped')

    @property
    def committed(self) -> int:
        """How far what is committed now is final, without waiting for anything: queries that wait are not let in."""
        engine = self._database.engine
        for edge in self.keeping.edges:
            engine.check(edge, self.number)
        return engine.final(self.keeping.inputs, engine.snapshot)

    @property
    def committed_tick(self) -> int:
        """The same, whether it has failed or not."""
        engine = self._database.engine
        return engine.final(self.keeping.inputs, engine.snapshot)

    @property
    def first_tick(self) -> int:
        """The first answerable instant: by RETAIN, and by what there was of the past when it came; OPEN as long as that
        is not known."""
        return max(self._first_of_past(), self._database.engine.first_answerable(self.keeping.inputs))

    def _first_of_past(self) -> int:
        finding, engine = self.finding, self._database.engine
        if self.past.first == OPEN and finding is not None and not self.is_filling:
            found = engine.read(lambda snapshot: finding(snapshot.states))
            if found < OPEN:
                engine.count_from(self.edge, max(found, self.past.counted))
            self.past = replace(self.past, first=found)
        return self.past.first

    @property
    def final_tick(self) -> int:
        """How far the answer is final by what is committed; -1 where nothing is."""
        engine = self._database.engine
        self.keeping.check()
        return engine.final(self.keeping.inputs, engine.snapshot)

    def _final(self) -> int:
        self._database.inputs.tick_clocks()
        return self.final_tick

    def _pending(self) -> int | None:
        """Over tables only, the instant of a change that lies beyond what is final: now is then. Before time begins,
        it is instant 0."""
        if not has_no_heartbeat(self._bound.plan):
            return None
        engine = self._database.engine
        last = max((engine.snapshot.progress(source).last_change for source in self.keeping.inputs), default=0)
        now = max(last, 0)  # tables without rows hold from instant 0 on
        return now if now > self._final() else None

    def _final_instant(self, at: Any, final: int) -> int:
        tick = final if at is None else instant(at, self._domain)
        first = self.first_tick
        if at is None and (first <= final or first == 0):
            return final
        if tick < first:
            raise self._forgotten(f"the answer of {self.name} at {self.shown(tick)} is", first)
        if tick <= final:
            return tick
        raise self._not_final(f"the answer of {self.name} at {at} is", at, final)

    def _not_final(self, what: str, at: Any, final: int) -> TimeError:
        """Names what holds the answer back."""
        engine = self._database.engine
        held_by = min(self.keeping.inputs, key=engine.frontier)
        reached = "nothing is final yet" if final < 0 else f"final is {shown_instant(final, self._bound.domain)}"
        waits, hint = f"it waits for {held_by}", f"insert later elements into {held_by}, or ADVANCE {held_by} TO {at}"
        if not engine.has_heartbeat(held_by):
            waits, hint = "it waits for the clock", f"ADVANCE TO {at}"
        return TimeError(f"{what} not final", detail=f"{reached}; {waits}", hint=hint)

    def _forgotten(self, what: str, first: int) -> TimeError:
        if first == OPEN:
            return TimeError(
                f"{what} no longer kept",
                detail="; ".join(self.notices),
                hint="the first instant that can be asked for is known once so many elements have come",
            )
        return TimeError(
            f"{what} no longer kept",
            detail=f"the first instant that can be asked for is {shown_instant(first, self._bound.domain)}",
            hint="declare the streams it reads with a longer RETAIN, or RETAIN FOREVER",
        )
