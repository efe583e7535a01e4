"""A registered query: its answer now, at an instant, and its changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from millstream.answers.following import Following
from millstream.answers.visible import Answering
from millstream.engine.answers import elements_between, relation_at
from millstream.engine.epochs.task import StateNames
from millstream.engine.life import under_way
from millstream.engine.materialization import Answer, Materialization, Span
from millstream.engine.past import WHOLE, Past
from millstream.errors import ClosedError, Error, EvaluationError
from millstream.kernel.batch import INF
from millstream.language.binder import BoundQuery
from millstream.language.instants import shown_instant
from millstream.plan.analysis.lifetime import OPEN, influence
from millstream.plan.nodes import Kind
from millstream.query.columns import columns_of
from millstream.query.context import PlanChange, QueryContext, TemplatePlan
from millstream.query.explained import Explained
from millstream.query.instants import QueryInstants
from millstream.query.reader import ChangeReader
from millstream.state.snapshot import Snapshot
from millstream.types import Schema, arrow_schema

if TYPE_CHECKING:
    from millstream.query.template import Template

_Said = TypeVar("_Said")


class Query(Explained, Answering):
    """A standing question; made by `Database.register`."""

    def __init__(
        self,
        context: QueryContext,
        name: str,
        mode: str,
        bound: BoundQuery,
        materialization: Materialization,
        number: int | None = None,
        template: TemplatePlan | None = None,
        past: Past = WHOLE,
    ) -> None:
        self.name = name
        self.mode = mode
        self._context = context
        self._engine = context.engine
        self.common = bound  # that of its template where it has one: all is the same but its constants
        self.materialization = materialization
        self.number = number  # within its group, if it shares a plan
        self.template = template
        self.past = past
        # Where the first answerable instant is found by counting: what is found in the state of steps.
        self.finding: Callable[[StateNames], int] | None = None
        self.member_of: Template | None = None
        self.remarks: tuple[str, ...] = ()  # what was noticed of its text when it came
        self.plan_change: PlanChange | None = None
        self.named: tuple[BoundQuery, Schema] | None = None  # its columns, where it has names of its own for them
        self._dropped = False

    @property
    def notices(self) -> list[str]:
        """What its author should know: of its text, and of the past that it saw as long as it concerns answers."""
        return [*self.past_notices, *self.remarks]

    @property
    def past_notices(self) -> list[str]:
        """What it lacks of the past, as long as it concerns answers."""
        notices = list(self.past.notices)
        if not notices or not self.past.covered or (first := self.instants.first_by_past()) == OPEN:
            return notices
        if first <= self.instants.frontier:
            return []  # what was to be waited for is there
        begins = self.instants.shown(first)
        return [f"{notice.rpartition(': ')[0]}: it is answerable from {begins} on" for notice in notices]

    @property
    def instants(self) -> QueryInstants:
        """Which instants it can be asked for."""
        return QueryInstants(self, self._context)

    @property
    def reader(self) -> ChangeReader:
        """Reads its changes from a bookmark on."""
        return ChangeReader(self, self._context)

    @property
    def kind(self) -> Kind:
        """`"stream"` where the answer is elements with timestamps, `"relation"` where it is rows at an instant."""
        return self.common.kind

    @property
    def edge(self) -> str:
        """The first of the edges that it shows; nothing where it keeps nothing."""
        return self.materialization.edges[0] if self.materialization.edges else ""

    @property
    def row(self) -> int | None:
        """The row that it has in the query table of its group: its own, or that of a query that selects the same."""
        return self.materialization.number

    @property
    def schema(self) -> pa.Schema:
        """The names and Arrow types of its columns."""
        return arrow_schema(columns_of(self))

    @property
    def cql(self) -> str:
        """The text with all defaults written out."""
        return self.bound.cql

    @property
    def defaults(self) -> list[str]:
        """What was added to the text: windows and ISTREAM that it left out, each in a sentence."""
        return list(self.bound.defaults)

    @property
    def reads(self) -> frozenset[str]:
        """The streams, tables and views that it names."""
        return self.common.reads

    @property
    def final(self) -> Any:
        """The instant up to which the answer is final; None where nothing is yet, or the query has failed."""
        self.check_open()
        tick = -1 if self.is_filling or self._stopped() is not None else self.instants.reached()
        return None if tick < 0 else shown_instant(tick, self.common.domain)

    @property
    def error(self) -> EvaluationError | None:
        """What stopped the query, if something did: it has no answers any more."""
        if (error := self._stopped()) is not None:
            self._context.pointed(self, error)
        return error

    def _stopped(self) -> EvaluationError | None:
        try:
            self.materialization.check()
        except EvaluationError as error:
            return error
        return None

    @property
    def is_filling(self) -> bool:
        """Whether the past that is kept is still being worked through in the background."""
        engine = self._engine
        if self.row is None:
            return any(edge in engine.backfills for edge in self.materialization.edges)
        is_among = self.edge in engine.groups and self.row in engine.groups[self.edge].filling
        return is_among and not engine.backfills.is_broken(self.edge, self.row)

    @under_way
    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the past that is kept has been worked through; tells whether it has, in so many seconds."""
        engine = self._engine
        engine.admitter.ask(self.edge)
        engine.notifier.wait_until(lambda: self.has_ended or not self.is_filling, timeout)
        engine.life.check_goes_on()
        self.check_open()
        return not self.is_filling

    @under_way
    def result(self, at: Any = None) -> pa.Table:
        """R(at) of a relation; of a stream all elements up to `at`, their timestamps first. The default is now."""
        with self._engine.works.doing(f"the result of {self.name}"), self._pointing():
            found = self._result(at)
        self._engine.invocations.count("result")
        return found

    def _result(self, at: Any) -> pa.Table:
        self.check_open()
        self.wait()
        context, schema, first = self._context, columns_of(self), 0
        if at is None and (pending := self.instants.pending()) is not None:
            options = replace(context.options(), first_counted=pending)
            tick, rows = pending, self._engine.evaluation.evaluate(self.bound.plan, options, pending)
        else:
            context.bring_up_to_now(self.materialization.inputs)
            is_relation = self.kind == "relation"

            def span(final: int) -> tuple[int, int]:
                nonlocal first
                first = self.instants.first
                asked = self.instants.resolved(at, final)
                return (asked if is_relation else first - 1), asked

            found = self.answer(span)
            tick, rows = found.until, found.rows
        if self.kind == "relation":
            return relation_at(rows, schema, tick, self.common.order, context.engine.limits.answers)
        return elements_between(rows, schema, first - 1, tick, self.common.domain, context.engine.limits.answers)

    @under_way
    def changes(self, since: Any = None) -> pa.Table:
        """The final changes after `since`: _ts, _weight and the columns, in time order.

        Without `since` they begin with all that holds at the first answerable instant, as insertions.
        """
        self.check_open()
        self.wait()
        with self._pointing():
            final = self.instants.reached()
            reader = self.reader
            bookmark = reader.bookmark(since)
            if since is not None and bookmark.seen > final:
                raise self.instants.not_final(f"changes of {self.name} since {since} are", since, final)
            found = reader.given(bookmark, final)[0]
        self._engine.invocations.count("changes")
        return found

    @contextmanager
    def _pointing(self) -> Iterator[None]:
        """An error of the rows that it met says where in its text the expression stands."""
        try:
            yield
        except EvaluationError as error:
            self._context.pointed(self, error)
            raise

    def answer(self, span: Span, *, whole: bool = False) -> Answer:
        """From what is kept of it, asked anew where that has changed meanwhile."""
        self.instants.first_by_past()  # of which it may fail
        while True:
            materialization = self.materialization
            try:
                found = materialization.answer(span, whole=whole)
            except Error:
                if self.materialization is materialization:
                    raise
            else:
                if self.materialization is materialization:
                    return found

    def join(self, other: Query) -> None:
        """Go on as another query that asks the same: within its group, or by a plan of its own."""
        if other.template is None:  # whoever finds no template goes by what it has in common with none
            self.common, self.template, self.number = other.common, None, None
        else:
            self.number, self.template, self.common = other.number, other.template, other.common
        self.past = other.past
        self.materialization = other.materialization  # last: whoever finds it has the rest

    def change_plan(self, bound: BoundQuery, materialization: Materialization) -> None:
        """Go on by another plan, which says the same."""
        self.common = bound
        self.materialization = materialization

    def follow(self, since: Any = None, timeout: float | None = None) -> Following:
        """The final changes after `since`, as they become final: tables like those of `changes`, none of them empty.

        Blocks until there are some, and ends when the query is dropped or the database closed, or when nothing has come
        for `timeout` seconds; in `async for` only the task waits. A reader that comes back with the last `_ts` it has
        seen misses nothing and sees nothing twice. What it has not been given yet is kept for as long as there is this
        iterator.
        """
        self.check_open()
        following = self.reader.following(since, timeout)
        self._engine.invocations.count("follow")
        return following

    @property
    def has_ended(self) -> bool:
        """Whether it was dropped, or its database closed."""
        return self._dropped or self.life.is_closing

    @under_way
    def stats(self) -> dict[str, Any]:
        """How it does: its state (running, filling, failed), how far it is final, what is kept, what it shares."""
        self.check_open()
        engine = self._engine
        if (backfill := self.backfill) is not None:
            epoch = engine.snapshot.epoch
            stats = {"state": "filling", "final": None, "epoch": epoch, "mode": self.mode, "backfill": backfill}
            return {**stats, **self._noticed()}
        snapshot, notice = engine.snapshot, engine.enforcement.notices.get((self.edge, self.row))
        change = self.plan_change
        if (error := self._stopped()) is not None:
            stats = {"state": "failed", "error": str(error), "final": None, "epoch": snapshot.epoch, "mode": self.mode}
            return {**stats, "approximate": False, **self._noticed()}
        return {
            "state": "running",
            "final": self.final,
            "epoch": snapshot.epoch,
            "rows": engine.reader.read(self.materialization.held),
            "mode": self.mode,
            "kept": self.materialization.notes(),
            **(self._by_template(lambda template: template.sharing(self) if self.number is not None else {}) or {}),
            **self._exactness(snapshot),
            **({"notice": str(notice)} if notice is not None else {}),
            **({"replan": asdict(change)} if change is not None else {}),
            **self._noticed(),
        }

    def _noticed(self) -> dict[str, Any]:
        return {"notices": list(self.notices)} if self.notices else {}

    @property
    def backfill(self) -> dict[str, Any] | None:
        """How far the past has been worked through, while it is: fraction, instants and rows."""
        under_way = (self._engine.backfills.progress(edge) for edge in self.materialization.edges)
        found = next((progress for progress in under_way if progress is not None), None)
        if found is None or not self.is_filling:
            return None
        instants = {"reached": found.reached, "until": found.until}
        shown = {name: None if t < 0 else shown_instant(t, self.common.domain) for name, t in instants.items()}
        return {"fraction": found.fraction, **shown, "rows": found.rows, "of_rows": found.of_rows}

    @property
    def is_approximate(self) -> bool:
        """Whether elements were shed that the answer now would need."""
        return bool(self._exactness(self._engine.snapshot)["approximate"])

    def _exactness(self, snapshot: Snapshot) -> dict[str, Any]:
        """Whether the answer now may lack elements that were shed, and until when answers may."""
        shed = {name: progress.shed_until for name, progress in snapshot.sources.items()}
        last = influence(self.common.plan, shed)
        if last < 0:
            return {"approximate": False}
        until = None if last >= INF - 1 else shown_instant(last, self.common.domain)
        return {"approximate": self.instants.final <= last, "approximate_until": until}

    @under_way
    def drop(self) -> None:
        """Forget the query and what only it needed."""
        self.check_open()
        self._context.drop(self.name)

    def close(self) -> None:
        self._dropped = True
        self._engine.notifier.notify()

    def __repr__(self) -> str:
        return f"<Query {self.name}: {self.kind} {self.cql}>"

    @property
    def bound(self) -> BoundQuery:
        """With its own constants."""
        self.life.check()
        return self._by_template(lambda template: template.own(self)) or self.common

    def _by_template(self, said: Callable[[TemplatePlan], _Said]) -> _Said | None:
        """What its template says of it, if it has one; asked anew where it has left its group meanwhile."""
        while (template := self.template) is not None:
            try:
                return said(template)
            except Exception:
                if self.template is template:
                    raise
        return None

    def check_open(self) -> None:
        self.life.check()
        if self._dropped:
            raise ClosedError(f'query "{self.name}" was dropped')
