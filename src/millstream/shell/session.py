"""What the shell does with what is typed: statements, and commands that begin with a backslash."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

import millstream as ms
from millstream.answers.aligned import aligned
from millstream.answers.on_screen import write_table
from millstream.drawing.plan import FORMATS
from millstream.errors import did_you_mean
from millstream.shell.splitting import is_blank, statements, with_command
from millstream.wire.values import type_name

HELP = r"""statements end with a semicolon; commands are lines of their own:
\d             streams, tables, views, queries, templates and sinks
\d NAME        what one of them is
\plan QUERY    its plan (\plan QUERY json, dot or svg: in that format)
\watch QUERY   its answer, and then its changes as they become final, or those of a template; Ctrl-C ends it
               (\watch QUERY SECONDS ends when nothing has come for so long)
\run [SECONDS] read the sources, until they have no more or for so long
\i FILE        run the statements of a file
\timing        show how long statements take, or not
\q             leave
\?             this"""
COMMANDS = (r"\d", r"\plan", r"\watch", r"\run", r"\i", r"\timing", r"\q", r"\?")
# As other shells have them.
WORDS = {"help": r"\?", "exit": r"\q", "quit": r"\q", "?": r"\?"}
_AS_ELSEWHERE = {r"\help": r"\?", r"\h": r"\?", r"\exit": r"\q", r"\quit": r"\q", r"\dt": r"\d", r"\l": r"\d"}
HEARD = (*COMMANDS, *_AS_ELSEWHERE)
_KINDS = ("STREAMS", "TABLES", "VIEWS", "QUERIES", "TEMPLATES", "SINKS")


class ShellSession:
    """A conversation with a database. What goes wrong is shown, and counted."""

    def __init__(self, db: Any, out: TextIO, errors: TextIO) -> None:
        self.db, self._out, self._errors = db, out, errors
        self.failures = 0
        self.is_over = False
        self._timing = self._has_told_of_waiting = False

    def take(self, text: str) -> str:
        """Do all that is finished in a text; gives what is not."""
        if text.lstrip().startswith("\\"):
            line, _, rest = text.lstrip().partition("\n")
            self._guarded(lambda: self._command(line))
            return rest
        if (word := WORDS.get(text.strip(" \t\n;").lower())) is not None:
            self._guarded(lambda: self._command(word))
            return ""
        finished, rest = statements(text)
        for statement in finished:
            self._guarded(lambda statement=statement: self._statement(statement))  # type: ignore[misc]
        unfinished, command = with_command(rest, HEARD)
        if command:
            if not is_blank(unfinished):
                self._say("what stands before it has no semicolon at its end, and was not run")
            self._guarded(lambda: self._command(command))
            return ""
        # A command may follow a statement, on a line of its own.
        return rest if not is_blank(rest) else ""

    def finish(self, text: str) -> None:
        """Do what is left at the end of the input, as if a semicolon followed."""
        if not is_blank(text):
            self._guarded(lambda: self._statement(text))

    def _guarded(self, work: Callable[[], None]) -> None:
        began = time.perf_counter()
        try:
            work()
        except ms.Error as error:
            self.failures += 1
            self._errors.write(f"{error}\n")
            self._errors.flush()
        except KeyboardInterrupt:
            self._say("interrupted")
        if self._timing:
            self._say(f"time: {(time.perf_counter() - began) * 1000:.1f} ms")

    def _statement(self, text: str) -> None:
        result = self.db.execute(text)
        if not result.has_rows:
            self._say(result.message)
        else:
            if not result.message[:1].isdigit():  # which only counts the rows
                self._say(result.message)
            write_table(self._out, result.arrow())
            for notice in result.notices:
                self._say(f"notice: {notice}")
            if result.waiting and not self._has_told_of_waiting:
                self._has_told_of_waiting = True  # who knows once need not be told each time
                self._say(result.waiting)

    def _command(self, line: str) -> None:
        name, *arguments = line.rstrip().rstrip(";").split(maxsplit=1)
        name = _AS_ELSEWHERE.get(name.lower(), name)
        argument = arguments[0].strip() if arguments else ""
        known: dict[str, Callable[[str], None]] = {
            r"\d": self._describe,
            r"\plan": self._plan,
            r"\watch": self._watch,
            r"\run": self._run,
            r"\i": self._include,
            r"\timing": self._toggle,
            r"\q": self._leave,
            r"\?": lambda _: self._say(HELP),
        }
        if name not in known:
            raise ms.SyntaxError(f"there is no command {name}", hint=r"\? shows those that there are")
        if name in (r"\plan", r"\watch", r"\i") and not argument:
            raise ms.SyntaxError(f"{name} needs a name", hint=r"\? shows how it is used")
        known[name](argument)

    def _plan(self, argument: str) -> None:
        """Of a query, in a format where its name is followed by one."""
        name, _, form = argument.rpartition(" ")
        if not name or form.lower() not in FORMATS:
            name, form = argument, "text"
        self._say(self.db.query(name.strip()).explain(format=form))

    def _describe(self, name: str) -> None:
        if name:
            self._say(self._described(name))
            return
        listed = {kind: self.db.execute(f"SHOW {kind}").table for kind in _KINDS}
        if not any(table.num_rows for table in listed.values()):
            self._say("nothing is defined yet")
        for kind, table in listed.items():
            if table.num_rows:
                self._say(kind.lower())
                write_table(self._out, table)
                self._say("")

    def _described(self, name: str) -> str:
        for kind in ("STREAMS", "TABLES", "VIEWS"):
            for row in self.db.execute(f"SHOW {kind}").table.to_pylist():
                if row["name"].lower() == name.lower():
                    return f"{kind.lower()[:-1]} {row['name']} {row['columns']}\n{row['properties']}"
        query = self._found(name)
        fields = pa.table({"column": query.schema.names, "type": [type_name(field.type) for field in query.schema]})
        if hasattr(query, "text"):
            notices = "".join(f"\nnotice: {notice}" for notice in query.notices)
            said = f"template {query.name}: {len(query)} queries, each a {query.kind}, {query.mode}"
            return f"{said}\n{query.text}{notices}\n{aligned(fields)}"
        defaults = "".join(f"\ndefault: {text}" for text in query.defaults)
        final = "nothing yet" if query.final is None else query.final
        failed = query.stats().get("error")
        said = f"query {query.name}: a {query.kind}, {query.mode}, "
        said += f"failed: {failed}" if failed else f"final is {final}"
        return f"{said}\n{query.cql}{defaults}\n{aligned(fields)}"

    def _found(self, name: str) -> Any:
        """A query, or a template where there is no query of that name."""
        try:
            return self.db.query(name)
        except ms.NameError:
            templates = [template.name for template in self.db.templates()]
            if name.lower() not in {each.lower() for each in templates}:
                kinds = [self.db.execute(f"SHOW {kind}").table["name"].to_pylist() for kind in _KINDS[:4]]
                first = [*kinds[0], *kinds[1], *kinds[2], *templates]  # templates have many queries
                hint = did_you_mean(name, [*first, *kinds[3]], first)
                raise ms.NameError(f'there is nothing called "{name}"', hint=hint) from None
        return self.db.template(name)

    def _watch(self, argument: str) -> None:
        name, _, seconds = argument.rpartition(" ")
        try:
            timeout = float(seconds) if name else None
        except ValueError:
            name, timeout = "", None
        query = self._found(name.strip() if timeout is not None else argument)
        final = query.final
        if final is not None:
            write_table(self._out, query.result(at=final))
        for changes in query.follow(since=final, timeout=timeout):
            write_table(self._out, changes)

    def _run(self, argument: str) -> None:
        try:
            report = self.db.run(float(argument) if argument else "idle")
        except ValueError:
            raise ms.SyntaxError(rf"\run is for a number of seconds, not {argument}") from None
        self._say("done" if report is None else str(report))  # a service tells its own sources' reports

    def _include(self, file: str) -> None:
        try:
            text = Path(file).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ms.InputError(f"cannot read {file}", detail=str(error)) from None
        finished, rest = statements(text)
        for statement in [*finished, rest]:
            if not is_blank(statement):
                self._statement(statement)

    def _toggle(self, _: str) -> None:
        self._timing = not self._timing
        self._say(f"timing is {'on' if self._timing else 'off'}")

    def _leave(self, _: str) -> None:
        self.is_over = True

    def _say(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()
