"""Templates of an earlier process: their groups and queries, found again, moved, or taken apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from millstream.catalog.alterations import AS_OF
from millstream.catalog.entries import Entry
from millstream.engine.groups.group import Group, numbers_of
from millstream.engine.groups.new_rows import MODE, TEMPLATE, TEXT, ManyRows
from millstream.engine.past import WHOLE, Past
from millstream.engine.plans import steps_name
from millstream.engine.query_tables import NAME
from millstream.errors import Error
from millstream.kernel.batch import value_column, value_columns
from millstream.kernel.sharing.keyed_selection import equality_key
from millstream.kernel.sharing.parameters import QUERY
from millstream.language.bind_parameters import with_constants
from millstream.language.syntax import numbered_parameters
from millstream.plan.grouping import Split, shape_of
from millstream.plan.lowering.options import Options
from millstream.plan.shapes import Shape
from millstream.queries.group_replanning import core_of
from millstream.queries.known_texts import KnownTexts, Recognised
from millstream.queries.modes import Modes
from millstream.queries.named_templates import OF, NamedTemplates
from millstream.queries.none_mode import ROWS, NoneTemplates, rows_of
from millstream.queries.notices import of_the_past, past_in
from millstream.queries.parameters import stored_kinds
from millstream.queries.planner import Planned, Planner
from millstream.queries.registration import PlannedOtherwise, statement_of
from millstream.queries.templates import CORE, CUT, Templates
from millstream.queries.weighing import REPLANNED, last_move


class TemplateRecovery:
    """Goes on with what is kept for the queries of templates."""

    def __init__(
        self,
        planner: Planner,
        modes: Modes,
        templates: Templates,
        none_templates: NoneTemplates,
        named: NamedTemplates,
    ) -> None:
        self._planner, self._engine, self._session = planner, planner.engine, planner.session
        self._modes, self._templates, self._none_templates, self._named = modes, templates, none_templates, named
        # Of selections whose queries were moved, since groups are planned otherwise now: what keeps those apart.
        self._apart: dict[str, str] = {}
        self._known: KnownTexts | None = None
        self._last: tuple[str, dict[str, dict[str, str | None]]] = "", {}  # the texts of the selection asked for last

    def recover(self, entry: Entry) -> None:
        """Have the queries of a template; PlannedOtherwise where what is kept does not fit."""
        engine, planner = self._engine, self._planner.of(entry)
        kinds = stored_kinds(entry["parameters"])
        statement = statement_of(entry["text"])
        numbered_parameters(statement.query)
        planned = planner.plan(entry["text"], statement.query, kinds, entry["statistics"])
        if ROWS in entry:
            self._named.join(entry.get(OF), self._none_templates.recover(entry, planned))
            return
        cut = entry.get(CUT, "from")
        lazy, found = self._modes.of_group(planned, lazy="kept" in entry, known=entry.get("kept"), cut=cut)
        if found is None:
            raise PlannedOtherwise
        shape = Shape(found.condition, kinds, found.own_columns) if kinds else shape_of(found)[0]
        planned_shapes = self._shapes(entry, planned, found, shape)
        equality = equality_key(shape.condition) if entry["keyed"] else None
        key = equality[0] if equality else None
        group = engine.groups.find(found, key, replace(planner.options, apart=entry.get("apart", "")))
        steps = steps_name(group.steps)
        if CORE in entry and group.selection != entry["selection"]:
            core = core_of(found.core, entry[CORE], engine.runner.planner.shards)
            group = engine.groups.by_core(group, core, entry[CORE])
            steps = steps_name(group.steps)
        if (group.selection, steps) != (entry["selection"], entry.get("steps", steps)):
            group, entry = self._moved(entry, planned, lambda apart: engine.groups.find(found, key, apart))
        rows = engine.admitter.recover(group, [*planned_shapes], pl.col(TEMPLATE) == entry["name"])
        pasts = {number: past_in(entry, number) for number in numbers_of(rows)} if entry.get("notices") else {}
        if pasts:
            self._note_pasts(group, pasts)
        for shape, planned in planned_shapes.items():
            template = self._templates.add(entry["name"], planned, group, shape, kinds, lazy, entry.get(OF))
            own = ManyRows(rows[shape.name])
            members = self._templates.add_rows(template, own, lambda number: pasts.get(number, WHOLE))
            self._named.join(template.of, members)
            for query in members if REPLANNED in entry else ():
                query.plan_change = last_move(entry)

    def _note_pasts(self, group: Group, pasts: Mapping[int, Past]) -> None:
        """What queries have of the past; where they wait, that is worked through."""
        engine, equal = self._engine, group.equal
        waiting = numbers_of(engine.groups.tables.rows(group, "waiting"))
        for number, past in pasts.items():
            row = equal.row_of(number)
            if row == number:
                equal.note_past(row, past)
            elif not equal.has_lost_its_first(row):
                continue
            elif past.covered:
                past = replace(past, kept={})  # one that came before it, and is gone, may have seen more
            if row in waiting:
                engine.pasts.note(group.edge, {row: past})

    def leave_out(self, entry: Entry) -> None:
        """The queries of a template are in their group no more, since they are put off; others may have their rows."""
        for group in self._engine.groups:
            if group.selection == entry.get("selection"):
                rows = self._engine.groups.tables.of_selection(group.selection).values()
                numbers = [number for table in rows for number in _of(entry, table)[QUERY]]
                self._engine.admitter.leave_out(group, numbers)

    def _shapes(self, entry: Entry, planned: Planned, found: Split, shape: Shape) -> dict[Shape, Planned]:
        """The shapes that queries of a template have, each with the plan of one of these."""
        shapes, known = {}, self._known_texts(entry, planned.planner)
        for name, text in self._texts(entry["selection"]).get(entry["name"], {}).items():
            if name == shape.name:
                shapes[shape] = planned
                continue
            if text is None:
                raise PlannedOtherwise
            alike = (each for each in known.find(text) if each.split.skeleton == found.skeleton)
            other = next(alike, None) or self._planned(text, entry, planned.planner, known)
            if other.split.skeleton != found.skeleton or other.shape.name != name:
                raise PlannedOtherwise
            shapes[other.shape] = other.planned
        if not shapes:
            raise PlannedOtherwise
        return shapes

    def _planned(self, text: str, entry: Entry, planner: Planner, known: KnownTexts) -> Recognised:
        planned = planner.plan(text, statement_of(text).query, statistics=entry["statistics"])
        kept, cut = entry.get("kept"), entry.get(CUT, "from")
        _, found = self._modes.of_group(planned, lazy=kept is not None, known=kept, cut=cut)
        if found is None:
            raise PlannedOtherwise
        known.learn_comparisons(text, planned)
        return Recognised(planned, found, *shape_of(found))

    def _known_texts(self, entry: Entry, planner: Planner) -> KnownTexts:
        """Those that are read in the same mode as a template's; of mode LAZY by what its queries keep."""
        if "kept" in entry:
            return KnownTexts(planner, lambda planned, _: self._modes.shared(planned, entry["kept"]))
        if self._known is None or self._known.planner != planner:
            self._known = KnownTexts(planner)
        return self._known

    def _texts(self, selection: str) -> dict[str, dict[str, str | None]]:
        """By template and shape, the text of a query that a selection of this name has."""
        if self._last[0] != selection:
            found: dict[str, dict[str, str | None]] = {}
            for shape, rows in self._engine.groups.tables.of_selection(selection).items():
                for template, text in dict(zip(rows[TEMPLATE], rows[TEXT], strict=True)).items():
                    found.setdefault(template, {})[shape] = text
            self._last = selection, found
        return self._last[1]

    def _moved(self, entry: Entry, planned: Planned, group_of: Callable[[Options], Group]) -> tuple[Group, Entry]:
        """The group that the queries of a template are in from now on, since it is planned otherwise than by the
        version that wrote it: they wait there, with what is kept of the past now."""
        engine, groups, selection = self._engine, self._engine.groups, entry["selection"]
        options, past = planned.planner.options, of_the_past(engine, planned.bound)
        counts = past.apart and past.covered and past.counted  # a group counts what fails from now on
        if past.unseen is not None or counts:
            raise PlannedOtherwise
        if selection not in self._apart:
            is_used = bool(groups.tables.of_selection(group_of(options).selection))
            # What others have there goes with another past, and has other numbers.
            self._apart[selection] = selection if past.apart or is_used else ""
        apart = self._apart[selection]
        group = group_of(replace(options, apart=apart))
        last = max(groups.tables.next_query(group), engine.snapshot.queries.get(entry["edge"], 0))
        changed = {key: value for key, value in entry.items() if key not in ("notices", "apart", CORE)}
        changed |= {
            "edge": group.edge,
            "selection": group.selection,
            "steps": steps_name(group.steps),
            **({"apart": apart} if apart else {}),
            **({} if group.core_said is None else {CORE: group.core_said}),
        }
        changed |= {"notices": [[0, last, list(past.notices), *past.content()]]} if past.is_recorded else {}
        self._session.declared = self._session.declared.replacing(entry, changed)
        chosen = pl.col(TEMPLATE) == entry["name"]
        groups.move(selection, entry["edge"], group, chosen, self._session.declared.entries)
        return group, changed

    def taken_apart(self, entry: Entry) -> list[Entry]:
        """The queries of a template as if each had come alone."""
        tables = [rows_of(entry)] if ROWS in entry else []
        if not tables:
            kept = self._engine.groups.tables.of_selection(entry["selection"]).values()
            tables = [_of(entry, table) for table in kept]
        common = {"kind": "query", "settings": entry["settings"], "statistics": entry["statistics"]}
        common |= {AS_OF: entry[AS_OF]} if AS_OF in entry else {}
        count = len(entry["parameters"])
        for table in tables:
            self._named.take_apart(entry.get(OF), table[NAME].to_list(), table.select(value_columns(count)))
        return [
            {
                **common,
                "name": row[NAME].lower(),
                "shown": row[NAME],
                "mode": row.get(MODE, "none"),
                "text": row.get(TEXT) or _with_constants(entry["text"], [row[value_column(n)] for n in range(count)]),
            }
            for table in tables
            for row in table.iter_rows(named=True)
        ]


def _of(entry: Entry, table: pl.DataFrame) -> pl.DataFrame:
    """The rows of a template."""
    return table.filter(pl.col(TEMPLATE) == entry["name"])


def _with_constants(template: str, values: Sequence[object]) -> str:
    try:
        return with_constants(template, values)
    except Error:
        return f"{template} -- {', '.join(map(repr, values))}"  # which says why it cannot be read
