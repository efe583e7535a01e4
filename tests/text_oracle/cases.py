"""Random cases: what a database is told, step by step, and under which settings. A case prints as a script."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from tests.properties.dice import Dice
from tests.text_oracle.evaluator import Query
from tests.text_oracle.expressions import condition, expression
from tests.text_oracle.from_clause import View
from tests.text_oracle.kinds import DECLARED, TYPES, VALUES, Column, Kind, Text, joined, same, written
from tests.text_oracle.queries import QueryMaker
from tests.text_oracle.risky_queries import RiskyMaker
from tests.text_oracle.user_code import FUNCTIONS
from tests.text_oracle.versions import VersionedMaker
from tests.text_oracle.windows import Row
from tests.text_oracle.world import Stream, Table

HORIZON = 9
_HEARTBEATS = (("", 0), ("HEARTBEAT DELAY {3}", 3), ("HEARTBEAT EXPLICIT", None), ("HEARTBEAT ASCENDING", 0))
_NUMERALS = ("1", "0", "-1", None, "x")
RULES = (
    *("commute_windows", "reduce_windows", "push_selections", "limit_ranks", "pull_up_negation"),
    *("push_distinct", "prune_columns", "merge_projections", "foretell_negation"),
    *("gather_joins", "share_windows", "add_consumers", "fold_constants"),
)


@dataclass(frozen=True)
class Scale:
    """How instants are told: whole numbers of ticks, or TIMESTAMPs of 2026 with ticks of a second or a microsecond."""

    start: dt.datetime | None = None
    tick: int = 1  # microseconds

    @property
    def unit(self) -> int:
        """Ticks in what windows and instants of a case count as one."""
        return 1 if self.start is None else 1_000_000 // self.tick

    @property
    def clause(self) -> str:
        if self.start is None:
            return "TIMESTAMP BY ts"
        tick = " TICK INTERVAL '1' SECOND" if self.tick > 1 else ""
        return f"TIMESTAMP BY ts TIMESTAMP{tick}"

    def instant(self, step: int) -> int:
        if self.start is None:
            return step
        micros = (self.start - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
        return micros // self.tick + step * self.unit

    def shown(self, instant: int) -> Any:
        if self.start is None:
            return instant
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=instant * self.tick)


@dataclass(frozen=True)
class Insert:
    stream: str
    rows: tuple[tuple[Row, int], ...]  # values and instants


@dataclass(frozen=True)
class Advance:
    stream: str | None
    to: int


@dataclass(frozen=True)
class Change:
    table: str
    text: Text
    at: int | None = None


@dataclass(frozen=True)
class Register:
    names: tuple[str, ...]


@dataclass(frozen=True)
class Reopen:
    pass


Step = Insert | Advance | Change | Register | Reopen


@dataclass
class Case:
    settings: dict[str, str | int]
    scale: Scale
    streams: list[Stream]
    tables: list[Table]
    views: list[View]
    queries: dict[str, Query]
    steps: list[Step]
    mode: str = "eager"
    half_open: bool = False
    asks_ad_hoc: bool = False

    @property
    def forgets(self) -> bool:
        """Whether there is RETAIN that says so."""
        return any(stream.retain is not None for stream in self.streams)

    @property
    def needs_directory(self) -> bool:
        return any(isinstance(step, Reopen) for step in self.steps)

    @property
    def definitions(self) -> list[str]:
        return [
            *(f"SET {name} = {value!r}" for name, value in self.settings.items()),
            *(f"CREATE STREAM {s.name} ({_declared(s)}) {s.clause}" for s in self.streams),
            *(f"CREATE TABLE {t.name} ({_declared(t)}) {t.clause}".strip() for t in self.tables),
            *(
                f"CREATE VIEW {v.name} ({', '.join(c.name for c in v.columns)}) AS {v.query.text.cql}"
                for v in self.views
            ),
        ]

    def told(self, stream: str, row: Row, instant: int) -> Row:
        shows_time = any(s.name == stream and s.shows_time for s in self.streams)
        return row if shows_time else (*row, self.scale.shown(instant))

    def statement(self, step: Change) -> str:
        return step.text.cql if step.at is None else f"{step.text.cql} AT {written(self.scale.shown(step.at)).cql}"

    def __str__(self) -> str:
        return ";\n".join([*self.definitions, *(self._shown(step) for step in self.steps)]) + ";"

    def _shown(self, step: Step) -> str:
        match step:
            case Insert():
                rows = [joined(", ", [written(v) for v in self.told(step.stream, *row)]).cql for row in step.rows]
                return f"INSERT INTO {step.stream} VALUES {', '.join(f'({row})' for row in rows)}"
            case Advance():
                return f"ADVANCE {step.stream + ' ' if step.stream else ''}TO {written(self.scale.shown(step.to)).cql}"
            case Change():
                return self.statement(step)
            case Register():
                mode = f" MODE {self.mode.upper()}"
                return ";\n".join(f"REGISTER QUERY {n}{mode} AS {self.queries[n].text.cql}" for n in step.names)
            case _:
                return "-- the database is closed and opened again"


def _declared(source: Stream | Table) -> str:
    return ", ".join(f"{c.name} {kind.cql}" for c, kind in zip(source.columns, source.types, strict=True))


@dataclass
class CaseMaker:
    dice: Dice
    scale: Scale = field(default_factory=Scale)
    forgets: bool = False
    fails: bool = False  # on some rows
    versioned: bool = False  # joined with a NON RETROACTIVE table
    horizon: int = HORIZON

    def case(self) -> Case:
        dice = self.dice
        self.scale = self._scale()
        flavour = dice.number(0, 99)
        self.forgets, self.fails, self.versioned = flavour < 28, flavour >= 75, 28 <= flavour < 40
        streams = [self._stream(name) for name in ("S", "U")[: dice.pick((1, 2, 2))]]
        tables = [self._table("D")] if dice.chance(55) else []
        if self.versioned:
            tables.append(self._table("N", "NON RETROACTIVE"))
        sources: list[Stream | Table | View] = [*streams, *tables]
        views: list[View] = []
        if dice.chance(30) and not self.fails and not self.versioned:
            views = [self._view(sources)]
            sources += views
        maker = self._maker(sources)
        queries = {f"q{n}": maker.query() for n in range(dice.pick((2, 3) if self.fails else (1, 1, 1, 2)))}
        if dice.chance(10):  # some that differ little, so that they share a plan
            first = self._maker(sources)
            alike = [first.query() for _ in range(2)]
            queries |= {f"q{len(queries) + n}": query for n, query in enumerate(alike)}
        settings = self._settings()
        case = Case(
            settings, self.scale, streams, tables, views, queries, [], dice.pick(("eager", "eager", "lazy", "none"))
        )
        case.half_open = settings.get("range_bounds") == "half_open"
        case.asks_ad_hoc = dice.chance(30)
        case.steps = self._steps(case)
        return case

    def _maker(self, sources: list[Stream | Table | View]) -> QueryMaker | RiskyMaker | VersionedMaker:
        numbers = 100 * (1 + self.dice.number(0, 10**6))
        scale = self.scale
        if self.versioned:
            streams = [source for source in sources if isinstance(source, Stream)]
            tables = [source for source in sources if isinstance(source, Table)]
            return VersionedMaker(
                self.dice, streams, tables[-1], tables[:-1], scale.start is not None, scale.unit, _numbers=numbers
            )
        if self.fails:
            read = [source for source in sources if not isinstance(source, View)]
            return RiskyMaker(self.dice, read, scale.start is not None, scale.unit, _numbers=numbers)
        return QueryMaker(self.dice, list(sources), scale.start is not None, scale.unit, self.forgets, _numbers=numbers)

    def _scale(self) -> Scale:
        start = dt.datetime(2026, 3, 1)
        return self.dice.pick((*(Scale(),) * 6, Scale(start, 1_000_000), Scale(start)))

    def _columns(self) -> tuple[tuple[Column, ...], tuple[Text, ...]]:
        kinds = [Kind.INTEGER, *self.dice.some(DECLARED, 0, 3)]
        if self.fails:  # few values, all of which are small
            kinds = [Kind.INTEGER, Kind.INTEGER, Kind.STRING]
        columns = tuple(Column(name, kind) for name, kind in zip("abcd", kinds, strict=False))
        return columns, tuple(self.dice.pick(TYPES[kind][:1] if self.fails else TYPES[kind]) for kind in kinds)

    def _stream(self, name: str) -> Stream:
        columns, types = self._columns()
        words, delay = self._heartbeat()
        shows = self.scale.start is None and self.dice.chance(25) and not self.fails
        if shows:
            columns, types = (*columns, Column("ts", Kind.INTEGER)), (*types, same("BIGINT"))
        retained, retain = None, "" if self.scale.start is None else "RETAIN FOREVER"
        if self.forgets and self.dice.chance(75):
            seconds = self.dice.number(1, 6)
            retained = seconds * self.scale.unit
            retain = f"RETAIN {seconds}{'' if self.scale.start is None else ' SECONDS'}"
        clause = " ".join(f"{self.scale.clause} {words} {retain}".split())
        return Stream(name, columns, types, clause, delay, shows, retained)

    def _heartbeat(self) -> tuple[str, int | None]:
        words, delay = self.dice.pick(_HEARTBEATS)
        words = words.replace("{3}", "3" if self.scale.start is None else "3 SECONDS")
        return words, None if delay is None else delay * self.scale.unit

    def _table(self, name: str, nature: str = "") -> Table:
        columns, types = self._columns()
        form = self.dice.pick(
            ("", "", "", "CHANGES BY", "KEY CHANGES BY", *(() if nature else ("APPEND ONLY", "STATIC")))
        )
        if "CHANGES BY" not in form:
            return Table(name, columns, types, form or nature)
        words, delay = self._heartbeat()
        key = f"KEY ({columns[0].name})" if form.startswith("KEY") else ""
        clause = " ".join(f"{key} {nature} CHANGES BY op {self.scale.clause} {words}".split())
        fed = Stream(name, (*columns, Column("op", Kind.STRING)), (*types, same("STRING")), "", delay)
        return Table(name, columns, types, clause, has_key=bool(key), fed=fed)

    def _view(self, sources: list[Stream | Table | View]) -> View:
        query = self._maker(sources).query()
        return View("V", query, tuple(Column(f"v{n}", c.kind) for n, c in enumerate(query.columns)))

    def _settings(self) -> dict[str, str | int]:
        dice = self.dice
        found: dict[str, str | int] = {}
        choices: tuple[tuple[str, int, tuple[str | int, ...]], ...] = (
            ("range_bounds", 25, ("half_open",)),
            ("strategy", 25, ("negative", "direct")),
            ("join_plan", 50, ("eddy", "tree", "mjoin")),
            ("jit", 40, ("on", "off")),
            ("jit_detection", 15, ("single", "bloom", "lattice", "lattice bloom")),
            ("shards", 30, (1, 2, 3)),
            ("sharing", 40, ("on", "off")),
            ("stem_window", 10, (8,)),
            ("expiry_groups", 15, (3,)),
            ("background_rows", 15, (0, 3)),
            ("disabled_rules", 20, (*RULES, ", ".join(RULES))),
        )
        for name, share, options in choices:
            if dice.chance(share):
                found[name] = dice.pick(options)
        return found

    # What happens

    def _steps(self, case: Case) -> list[Step]:
        dice = self.dice
        queues = {stream.name: self._batches(self._elements(stream)) for stream in case.streams}
        for table in case.tables:
            if table.fed is not None:
                queues[table.name] = self._batches(self._fed(table, table.fed))
        steps: list[Step] = []
        while any(queues.values()):
            name = dice.pick([name for name, batches in queues.items() if batches])
            steps.append(Insert(name, tuple(queues[name].pop(0))))
            if dice.chance(15):
                to = self.scale.instant(dice.number(0, self.horizon))
                steps.append(Advance(dice.pick((None, name)), to))
        for table in case.tables:
            for _ in range(dice.number(1, 4) if table.fed is None else 0):
                last = 0 if table.clause == "STATIC" else len(steps)  # which has all its rows from tick 0 on
                steps.insert(dice.number(0, last), self._change(table))
        names = tuple(case.queries)
        late = ("last together", "between", "one by one")
        match dice.pick(("first", *late * 2) if self.forgets else ("first", "first", *late)):
            case "first":
                steps.insert(0, Register(names))
            case "last together":
                steps.append(Register(names))
            case "between":
                steps.insert(dice.number(0, len(steps)), Register(names))
            case _:
                for name in names:
                    steps.insert(dice.number(0, len(steps)), Register((name,)))
        if dice.chance(20):
            steps.insert(dice.number(0, len(steps)), Reopen())
        if not dice.chance(8):
            steps.append(
                Advance(None, self.scale.instant(self.horizon + dice.pick((5, 5, 30) if self.forgets else (5,))))
            )
        if dice.chance(10):
            steps.append(Reopen())
        return steps

    def _elements(self, stream: Stream) -> list[tuple[Row, int]]:
        dice = self.dice
        count = 0 if dice.chance(4) else dice.number(3, 14 if self.forgets else 9)
        instants = self._jumps(count) if self.forgets else [dice.number(0, HORIZON) for _ in range(count)]
        order = dice.pick(("sorted", "sorted", "nearly", "any"))
        if order == "sorted":
            instants.sort()
        elif order == "nearly":
            instants = [t for _, t in sorted((t + dice.number(0, 3), t) for t in instants)]
        found = []
        for step in instants:
            instant = self.scale.instant(step)
            visible = stream.columns[:-1] if stream.shows_time else stream.columns
            row = self._values(visible)
            found.append(((*row, instant) if stream.shows_time else row, instant))
        return found

    def _fed(self, table: Table, fed: Stream) -> list[tuple[Row, int]]:
        """Changes of a table, many of them of rows that were there."""
        dice, found, rows = self.dice, list[tuple[Row, int]](), list[Row]()
        for number, (values, instant) in enumerate(self._elements(fed)):
            row, what = values[:-1], dice.pick(("+", "+", "insert", "-", "delete"))
            if table.has_key and what in ("+", "insert") and dice.chance(70):
                row, what = (dice.pick((0, 1, 2)), *row[1:]), "update"
            elif table.has_key and what in ("+", "insert"):  # keys that are there are not inserted again
                row = (1000 + number, *row[1:])
            elif rows and what in ("-", "delete") and dice.chance(75):
                row = dice.pick(rows)
            rows.append(row)
            found.append(((*row, what), instant))
        return found

    def _jumps(self, count: int) -> list[int]:
        """Time that jumps now and then by more than what is kept."""
        instant, found = self.dice.pick((0, 0, 3, 20)), []
        for _ in range(count):
            instant += self.dice.pick((0, 0, 1, 1, 1, 2, 2, 3, 12))
            found.append(instant)
        self.horizon = max([self.horizon, *found])
        return found

    def _values(self, columns: tuple[Column, ...]) -> Row:
        return tuple(
            self.dice.pick(_NUMERALS if self.fails and column.kind is Kind.STRING else VALUES[column.kind])
            for column in columns
        )

    def _batches(self, rows: list[tuple[Row, int]]) -> list[list[tuple[Row, int]]]:
        found = []
        while rows:
            size = self.dice.number(1, len(rows))
            found.append(rows[:size])
            rows = rows[size:]
        return found

    def _change(self, table: Table) -> Change:
        text = self._statement(table)
        while any(f"{name}(" in text.cql for name in FUNCTIONS):  # which statements do not take
            text = self._statement(table)
        if table.clause == "STATIC" or not self.dice.chance(25):
            return Change(table.name, text)
        return Change(table.name, text, self.scale.instant(self.dice.number(0, self.horizon + 3)))

    def _statement(self, table: Table) -> Text:
        dice = self.dice
        forms = ("INSERT", "INSERT", "DELETE") if self.fails else ("INSERT", "INSERT", "DELETE", "UPDATE")
        form = "INSERT" if table.clause in ("APPEND ONLY", "STATIC") else dice.pick(forms)
        where = same(" WHERE ") + condition(dice, table.columns, 2) if dice.chance(85) else same("")
        if form == "DELETE":
            return same(f"DELETE FROM {table.name}") + where
        if form == "UPDATE":
            column = dice.pick(table.columns)
            value = expression(dice, table.columns, column.kind, 1)
            if column.kind is Kind.DECIMAL:
                value = same("CAST(") + value + " AS DECIMAL(5,1))"
            return same(f"UPDATE {table.name} SET {column.name} = ") + value + where
        columns = ""
        if dice.chance(30):
            columns = f" ({', '.join(column.name for column in table.columns)})"
        into = same(f"INSERT INTO {table.name}{columns} ")
        if dice.chance(20):
            query = same(f"SELECT {', '.join(column.name for column in table.columns)} FROM {table.name}") + where
            # Behind the name of a table, AT would be an alias.
            in_parentheses = dice.chance(50) or not where.cql
            return into + (Text("(", "") + query + Text(")", "") if in_parentheses else query)
        rows = [joined(", ", [written(v) for v in self._values(table.columns)]) for _ in range(dice.number(1, 3))]
        return into + "VALUES " + joined(", ", [same("(") + row + ")" for row in rows])
