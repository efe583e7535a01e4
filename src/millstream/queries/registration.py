"""How a query comes to stand: on a plan of its own, or as a row of a group.

A query that is registered now and one that an earlier process registered take the same path. The first is declared and
worked through the past; of the second there is an entry, and its plan must find what was kept for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from millstream.catalog.alterations import AS_OF
from millstream.catalog.entries import Entry, statistics_of
from millstream.catalog.session import Session
from millstream.engine.engine import Engine
from millstream.engine.groups.group import Group
from millstream.engine.groups.new_rows import MODE, TEXT, NewRows, SingleRow
from millstream.engine.materialization import Eager, Lazy, Materialization, Unmaterialized
from millstream.engine.past import WHOLE, Past
from millstream.engine.query_tables import NAME
from millstream.errors import EvaluationError, Place
from millstream.language import statements as st
from millstream.language.remarks import remarks
from millstream.language.statement_parser import check_text, parse, parse_query
from millstream.plan.grouping import shape_of
from millstream.plan.lowering.matches import is_fragile
from millstream.plan.shapes import has_many_constants
from millstream.queries.known_texts import KnownTexts, Recognised
from millstream.queries.modes import Modes, kept_windows, options_of, steps_of
from millstream.queries.notices import counted_by, found_by_counting, of_the_past, past_in, with_past
from millstream.queries.planner import ORDERED, Planned, Planner
from millstream.queries.registry import Registry
from millstream.queries.sharing_choice import SharingChoice, WantedRows
from millstream.queries.templates import GroupTemplate, Templates
from millstream.queries.weighing import last_move
from millstream.query import Query, QueryContext
from millstream.state.notes import Record

_COUNTS = "exact answers begin once its windows have counted enough rows"


class PlannedOtherwise(Exception):
    """What is kept for a query is not what its plan of today would keep."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A query that is to stand: as it was said and planned, and what it has of the past."""

    name: str
    mode: str
    text: str
    planned: Planned
    past: Past
    entry: Entry | None = None  # by which an earlier process registered it
    recorded: bool = False  # whether there is a record of it already, and the caller commits
    remarks: tuple[str, ...] = ()  # on its text

    @property
    def apart(self) -> str:
        """What keeps its state from that of others, by its entry."""
        return self.entry.get("apart", "") if self.entry is not None else ""

    def content(self) -> dict[str, Any]:
        """For an entry of its own."""
        statement_of = {"shown": self.name, "mode": self.mode, "text": self.text}
        return {**statement_of, **self.planned.entry(), **self.past.entry()}


@dataclass(frozen=True, eq=False)
class _Move:
    """A query that comes to a group later: as which row of the query table."""

    query: Query
    template: GroupTemplate
    row: NewRows
    past: Past


def record_of(name: str, mode: str, text: str, past: Past) -> Record:
    """What is noted of a query until the next commit."""
    return {NAME: name, MODE: mode, TEXT: text, **past.entry()}


def opening(name: str) -> str:
    """What the next process does with a query, as it is noted."""
    return f'opening query "{name}"'


class Registration:
    """Registers queries one by one, and goes on with those of an earlier process."""

    def __init__(
        self,
        planner: Planner,
        registry: Registry,
        modes: Modes,
        choice: SharingChoice,
        templates: Templates,
        context: QueryContext,
    ) -> None:
        self._engine: Engine = planner.engine
        self._session: Session = planner.session
        self._planner, self._registry, self._modes = planner, registry, modes
        self._choice, self._templates, self._context = choice, templates, context
        self._texts = {
            "eager": KnownTexts(planner),
            "lazy": KnownTexts(planner, lambda planned, _: modes.shared(planned)),
        }

    def register_text(self, text: str, name: str | None, mode: str) -> Query:
        """Make a text a standing query."""
        check_text(text)
        with self._engine.lock:
            name, mode = self._free_name(name), mode.lower()
            known = self._register_known(text, name, mode)
            if known is not None:
                return self._remarked(known, text)
            statement = st.AdHocQuery(Place(text, 0, len(text)), parse_query(text))
            new = self._candidate(name, mode, statement, self._planner)
            try:
                return self._learned(statement, new, self._admit(new))
            except EvaluationError as error:  # of rows of its past
                self._planner.pointed(error, statement.place)
                raise

    def register_recorded(self, record: Record) -> Query:
        """Register a query of which there is no more than a record; the caller commits."""
        text, name, mode, past = record[TEXT], record[NAME], record[MODE], past_in(record)
        with self._engine.lock:
            known = self._register_known(text, name, mode, past)
            if known is not None:
                return known
            statement = statement_of(text)
            new = self._candidate(name, mode, statement, self._planner)
            new = replace(new, past=replace(past, apart=new.past.apart), recorded=True)
            return self._learned(statement, new, self._admit(new))

    def _remarked(self, known: Query, text: str) -> Query:
        """A query whose text was not read: there is something to remark of quotes only."""
        if '"' in text:
            with remarks() as said:
                self._planner.bind(text, parse_query(text))
            known.remarks = tuple(said)
        return known

    def _learned(self, statement: st.RegisterQuery | st.AdHocQuery, new: Candidate, query: Query) -> Query:
        template = query.template
        if new.mode in self._texts and isinstance(template, GroupTemplate) and template.mode == new.mode:
            if isinstance(statement, st.AdHocQuery):
                self._texts[new.mode].note(statement, new.planned, template)
            else:
                self._texts[new.mode].learn_comparisons(new.text, new.planned)
        return query

    def _free_name(self, name: str | None, place: Place | None = None) -> str:
        if name is None:
            return self._registry.free_names(1)[0]
        self._registry.check_free([name], place)
        return name

    def _register_known(self, text: str, name: str, mode: str, recorded: Past | None = None) -> Query | None:
        """None where the query must be parsed and planned. One that there is a record of has that past."""
        for known in self._texts[mode].find(text) if mode in self._texts else ():
            registered = self._enlisted_known(text, name, mode, known, recorded)
            if registered is not None:
                return registered
        return None

    def _enlisted_known(
        self, text: str, name: str, mode: str, known: Recognised, recorded: Past | None
    ) -> Query | None:
        group = self._choice.group(known.split, known.shape, self._planner.options)
        is_new = group.edge not in self._engine.groups
        wanted = WantedRows(known.shape.name, known.values)
        if is_new and (recorded is not None or not self._choice.is_to_begin(group, self._session.settings, wanted)):
            return None
        past = of_the_past(self._engine, known.planned.bound) if recorded is None else recorded
        # How far a window of another size would reach is not known without binding it.
        is_unknown = recorded is None and known.split.window is not None and past != WHOLE
        if is_unknown or past.unseen is not None or self._choice.differs_by_its_past(group, past):
            return None
        if is_new:
            self._gather(group, self._planner)
        template = self._templates.declared(known.planned, group, known.shape, text, lazy=known.lazy)
        rows = SingleRow(known.shape.parameters, known.values, name, mode, text, template.name)
        record = record_of(name, mode, text, past) if recorded is None else {}
        return self._templates.enlist(template, rows, self._session.settings, record, past)[0]

    def register(
        self,
        name: str | None,
        mode: str | None,
        statement: st.RegisterQuery | st.AdHocQuery,
        planner: Planner | None = None,
    ) -> Query:
        """Make a query a standing one."""
        place = statement.name.place if isinstance(statement, st.RegisterQuery) else None
        with self._engine.lock:
            name, mode = self._free_name(name, place), (mode or "eager").lower()
            caution, text = self._engine.runner.caution, query_text(statement)
            with caution.guarded(f'registering query "{name}"', text):
                found = self._registered(name, mode, statement, planner)
            caution.forgive(opening(name))  # an earlier one of its name
            return found

    def _registered(
        self, name: str, mode: str, statement: st.RegisterQuery | st.AdHocQuery, planner: Planner | None
    ) -> Query:
        if planner is not None:  # what is known is known under the settings of now
            return self._admit(self._candidate(name, mode, statement, planner))
        known = self._register_known(query_text(statement), name, mode)
        if known is not None:
            return self._remarked(known, query_text(statement))
        new = self._candidate(name, mode, statement, self._planner)
        return self._learned(statement, new, self._admit(new))

    def _candidate(
        self, name: str, mode: str, statement: st.RegisterQuery | st.AdHocQuery, planner: Planner
    ) -> Candidate:
        with remarks() as said:
            planned = planner.plan(statement.place.text, statement.query)
        said += planner.certain_failures(planned.bound, statement.place)
        past = of_the_past(self._engine, planned.bound)
        return Candidate(name, mode, query_text(statement), planned, past, remarks=tuple(said))

    def recover(self, entry: Entry) -> Query:
        """Go on with what is kept for a query; PlannedOtherwise where that does not fit."""
        text, planner = entry["text"], self._planner.of(entry)
        planner = planner.ordering_joins(entry.get(ORDERED, False))
        planned = planner.plan(text, statement_of(text).query, statistics=entry["statistics"])
        return self._admit(Candidate(entry["shown"], entry["mode"], text, planned, past_in(entry), entry))

    def _admit(self, new: Candidate) -> Query:
        if new.past.unseen is not None:
            query = self._with_own_plan(new, _COUNTS)
        else:
            query = self._admit_eager(new) if new.mode == "eager" else self._admit_in_mode(new)
        query.remarks = new.remarks
        return query

    def _admit_eager(self, new: Candidate, reason: str = "") -> Query:
        """A query whose answer is kept; in other modes than EAGER with the reason."""
        planned, settings = new.planned, new.planned.planner.settings
        statistics = statistics_of(planned.statistics)
        found = [*self._choice.memberships(planned.bound, planned.planner, statistics, recorded=new.recorded)]
        is_first, chosen = self._choice.is_first(settings), None
        if new.entry is None and not is_first:
            self._choice.note_sizes(found)
            chosen = self._choice.chosen(found, settings, new.past)
        if chosen is not None:
            self._gather(chosen.group, planned.planner)
            template = self._templates.declared(planned, chosen.group, chosen.shape, new.text)
            return self._enlisted(new, template, chosen.values)
        # Where others may come to share it, its past waits: it would be run again with theirs.
        may_be_shared = self._choice.may_be_shared(found) and not is_fragile(planned.bound.plan)
        query = self._with_own_plan(new, reason, put_off=may_be_shared)
        if is_first:
            self._choice.note_first(new.name, found, is_new=new.entry is None)
        else:
            self._choice.note_own_plan(new.name, {each.group: each.wanted for each in found})
        if may_be_shared and new.entry is None and planned.planner is self._planner:
            self._texts["eager"].learn_with_next(new.text, planned)  # which need not be planned then
        return query

    def _enlisted(self, new: Candidate, template: GroupTemplate, values: tuple[object, ...]) -> Query:
        record = {} if new.recorded else record_of(new.name, new.mode, new.text, new.past)
        rows = SingleRow(template.shape.parameters, values, new.name, new.mode, new.text, template.name)
        return self._templates.enlist(template, rows, new.planned.planner.settings, record, new.past)[0]

    def _with_own_plan(self, new: Candidate, reason: str = "", *, put_off: bool = False) -> Query:
        """A query whose answer is kept, with a plan of its own; in other modes than EAGER with the reason."""
        engine, bound, past = self._engine, new.planned.bound, new.past
        # Others see more of the past, or less: their state does not go with what a query has seen that is apart.
        apart = new.apart if new.entry is not None else new.name.lower() if past.apart else ""
        options = replace(options_of(new.planned, past, apart), counting=counted_by(bound.plan, past))
        plans = engine.plans
        kept = {"edge": plans.edge_of(bound.plan, options), "steps": plans.steps_of(bound.plan, options=options)}
        if new.entry is None:
            self._registry.check_room(1, new.planned.planner.settings)
            kept |= {"apart": apart} if apart else {}
            declared = self._session.declared.with_entry("query", new.name, **new.content(), **kept)
            engine.show([bound.plan], options, declared.entries, past.kept, put_off=put_off)
            self._session.declared = declared
        elif kept != {"edge": new.entry.get("edge"), "steps": new.entry.get("steps", kept["steps"])}:
            raise PlannedOtherwise
        else:
            engine.attach(bound.plan, options, past.kept)
        own = Eager(engine.reader, kept["edge"], bound.schema, bound.kind == "stream", reason=reason)
        query = self._added(new, own)
        query.finding = partial(found_by_counting, bound.plan, past, options, engine.store.read)
        return query

    def _added(self, new: Candidate, materialization: Materialization) -> Query:
        query = Query(self._context, new.name, new.mode, new.planned.bound, materialization, past=new.past)
        self._registry.add([query])
        query.plan_change = None if new.entry is None else last_move(new.entry)
        return query

    # Modes LAZY and NONE

    def _admit_in_mode(self, new: Candidate) -> Query:
        """A query that does not ask for its answer to be kept; where it must be after all, the query says why."""
        planned, past, known = new.planned, new.past, None
        if new.entry is not None:
            known = new.entry.get("kept")
        else:
            self._registry.check_room(1, planned.planner.settings)
            if new.mode == "lazy" and (shared := self._to_share_matches(new)) is not None:
                return self._enlisted(new, *shared)
        materialization = self._modes.materialization(new.name, new.mode, planned, known)
        if isinstance(materialization, str):
            return self._admit_eager(new, materialization)
        materialization = self._modes.by_past(materialization, planned, past, new.apart)
        if isinstance(materialization, Lazy):
            return self._added(new, self._show_matches(new, materialization))
        if isinstance(materialization, Unmaterialized):
            return self._added(new, self._show_none_mode(new, materialization))
        raise AssertionError(f"{new.name} keeps its answer")

    def _show_matches(self, new: Candidate, materialization: Lazy) -> Lazy:
        """Keep what mode LAZY needs."""
        before, content, known = self._session.declared, new.content(), frozenset[str]()
        if new.entry is not None:
            declared, known = before, frozenset(new.entry.get("edges", ()))
            is_same_plan = steps_of(materialization) == new.entry.get("steps", steps_of(materialization))
            if not known.issuperset(materialization.edges) or not is_same_plan:
                raise PlannedOtherwise
        else:
            if new.past.apart and any(self._engine.shared_plan.shown[edge] for edge in materialization.edges):
                # Others have seen more of the past than is kept: their matches do not go with what this query has seen.
                content["apart"] = new.name.lower()
                materialization = self._modes.lazy_apart(materialization, new.planned, new.past, new.name.lower())
            declared = before.with_entry("query", new.name, **content, **kept_windows(materialization))
        self._modes.show(materialization, declared.entries, known, new.past.kept)
        self._session.declared = declared
        return materialization

    def _show_none_mode(self, new: Candidate, materialization: Unmaterialized) -> Unmaterialized:
        """Have what can fail in a query of mode NONE be tried as rows come."""
        before, edges, known = self._session.declared, list(materialization.edges), frozenset[str]()
        if new.entry is None:
            declared = before.with_entry("query", new.name, **new.content(), edges=edges)
        elif "edges" not in new.entry:
            self._engine.retention.recomputed.pop(new.name.lower(), None)
            raise PlannedOtherwise
        else:
            known = frozenset(new.entry["edges"])
            is_known = known.issuperset(edges)
            declared = before if is_known else before.replacing(new.entry, {**new.entry, "edges": edges})
        self._modes.show_none_mode(materialization, declared.entries, known, new.past.kept)
        self._session.declared = declared
        return materialization

    def _to_share_matches(self, new: Candidate) -> tuple[GroupTemplate, tuple[object, ...]] | None:
        """The template and the constants of a query whose matches are to be kept with those of others."""
        planned, settings = new.planned, new.planned.planner.settings
        if settings.sharing == "off" or has_many_constants(planned.bound.plan):
            return None
        shared = self._modes.shared(planned)
        if shared is None:
            return None
        lazy, found = shared
        shape, values = shape_of(found)
        group = self._choice.group(found, shape, planned.planner.options)
        wanted = WantedRows(shape.name, values)
        if not self._choice.is_to_share(group, settings, wanted):
            self._choice.note_own_plan(new.name, {group: wanted})
            return None
        if self._choice.differs_by_its_past(group, new.past):
            return None
        return self._templates.declared(planned, group, shape, new.text, lazy=lazy), values

    # Queries that come to a group later

    def _gather(self, group: Group, planner: Planner) -> None:
        """Have the queries come to a group that have run by plans of their own, as long as there was nothing to run
        on: afterwards it would have to be run again, and history may not have all of it any more."""
        names = self._choice.own_plans(group)
        moved = self._brought(group, names, planner, partial(self._has_seen_nothing, planner=planner))
        for name in names:
            if name not in moved:
                self._choice.stays_apart(name, group)

    def gather_late(self, group: Group, names: Sequence[str], is_free: Callable[[Query], bool]) -> list[Query]:
        """Have queries come to a group that is there, whose history can be run at once for them; gives those that
        have."""
        engine, planner = self._engine, self._planner
        if group.filling or engine.groups.tables.has_waiting(group) or engine.backfills.is_due(group.pipeline):
            return []
        may_come = partial(self._has_whole_past, group=group, planner=planner)
        moved = self._brought(
            group, names, planner, lambda query, entry: is_free(query) and may_come(query, entry), running=True
        )
        return [query for name in moved if (query := self._registry.get(name)) is not None]

    def _has_whole_past(self, query: Query, entry: Entry, group: Group, planner: Planner) -> bool:
        """Whether a query that runs is answered in the same way by its group, from the first instant on."""
        past = of_the_past(self._engine, query.bound)
        is_running = not query.is_filling and query.error is None and not is_fragile(query.bound.plan)
        is_same = _is_planned_by(planner, entry) and _is_kept(query) and query.member_of is None
        is_whole = query.past == past == WHOLE and not self._choice.differs_by_its_past(group, past)
        return is_running and is_same and is_whole

    def _brought(
        self,
        group: Group,
        names: Sequence[str],
        planner: Planner,
        may_come: Callable[[Query, Entry], bool],
        *,
        running: bool = False,
    ) -> set[str]:
        """Have those of some queries come to a group that may, by one commit; gives their names. The plans of queries
        that are `running` go with another one, when these are asked by the group already."""
        session, before = self._session, self._session.declared
        first, moving = self._engine.groups.tables.next_query(group), list[_Move]()
        admitter, edges = self._engine.admitter, list[str]()
        try:
            for name in names:
                query, entry = self._registry.get(name), before.find("query", name)
                if query is not None and entry is not None and may_come(query, entry):
                    moving += self._moves(query, entry, group, planner, first + len(moving))
            if moving:
                coming = [(move.template.shape, move.row, move.past) for move in moving]
                edges = [edge for move in moving for edge in move.query.materialization.edges]
                admitter.gather(group, coming, () if running else edges, session.declared.entries)
        except BaseException:
            session.declared = before
            for template in {move.template for move in moving}:
                if not self._registry.number_of(template):
                    self._templates.forget(template)
            raise
        try:
            if running and moving:
                admitter.admit()
        finally:
            self._have_come(moving)
        if running and moving:
            admitter.hide(edges, session.declared.entries)
        return {move.query.name.lower() for move in moving}

    def _have_come(self, moving: Sequence[_Move]) -> None:
        for move in moving:
            own = move.query.materialization
            (moved,) = self._templates.add_rows(move.template, move.row, lambda _, past=move.past: past)  # type: ignore[misc]
            move.query.join(moved)
            self._registry.add([move.query])
            self._modes.has_gone(move.query.name, own)
            self._choice.forget(move.query.name)

    def _has_seen_nothing(self, query: Query, entry: Entry, planner: Planner) -> bool:
        as_now = _is_planned_by(planner, entry) and _is_kept(query)
        if self._engine.backfills.is_put_off(query.edge):
            return as_now and query.past == WHOLE  # to ask whether it has failed would run the past
        if not as_now or query.error is not None:
            return False  # one that has failed reads nothing any more, whatever it has seen
        history = self._engine.snapshot.history
        return not query.is_filling and not any(history.get(source) for source in query.materialization.inputs)

    def _moves(self, query: Query, entry: Entry, group: Group, planner: Planner, number: int) -> list[_Move]:
        session, bound = self._session, query.bound
        alike = [found for found in self._choice.splits(bound.plan) if found.skeleton == group.split.skeleton]
        if not alike:
            return []  # another one of that name, which could not be registered, was noted
        shape, values = shape_of(alike[0])
        session.declared = session.declared.without("query", query.name)
        planned = Planned(planner, bound, bound, entry["statistics"])
        template = self._templates.declared(planned, group, shape, entry["text"])
        row = SingleRow(shape.parameters, values, query.name, query.mode, entry["text"], template.name)
        past = of_the_past(self._engine, template.bound)
        session.declared = with_past(session.declared, template.name, number, 1, past)
        return [_Move(query, template, row.numbered(number, shape.name), past)]


def _is_planned_by(planner: Planner, entry: Entry) -> bool:
    """Whether an entry's text is read as a planner does."""
    return bool(entry["settings"] == asdict(planner.settings)) and entry.get(AS_OF, 0) == planner.known.get(AS_OF, 0)


def _is_kept(query: Query) -> bool:
    """Whether its answer is, whatever mode it was registered in."""
    return isinstance(query.materialization, Eager)


def query_text(statement: st.RegisterQuery | st.AdHocQuery) -> str:
    """The text of the query alone."""
    place = statement.place
    return place.text[statement.begin if isinstance(statement, st.RegisterQuery) else place.start : place.end]


def statement_of(text: str) -> st.RegisterQuery | st.AdHocQuery:
    """The statement of an entry or a record."""
    (statement,) = parse(text)
    if not isinstance(statement, st.RegisterQuery | st.AdHocQuery):
        raise AssertionError(f"not a query: {text}")
    return statement
