"""Runs `.cql` test files: CQL with directives in comments, so that a file stays valid CQL. The directives:

--? result q at 5            the result of q at 5; a stream's rows start with the timestamp; without `at`: now
--| 1, 'x', NULL             one expected row of SQL literals; any order
--? changes q since 3        rows start with _ts and _weight; without `since`: all
--? same q1 q2               two queries of one kind with the same changes
--? kind q stream
--? defaults q               as many defaults as lines, each with the text of its line in it
--? error <regex>            the next statement or directive must fail with a message that matches
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from tests.oracle.relational import connection

from millstream.errors import Error

Row = tuple[Any, ...]

_SIGNATURES = {
    "result": re.compile(r"(?P<query>\w+)(?:\s+at\s+(?P<instant>.+))?"),
    "changes": re.compile(r"(?P<query>\w+)(?:\s+since\s+(?P<instant>.+))?"),
    "same": re.compile(r"(?P<query>\w+)\s+(?P<other>\w+)"),
    "kind": re.compile(r"(?P<query>\w+)\s+(?P<other>stream|relation)"),
    "defaults": re.compile(r"(?P<query>\w+)"),
}


class Subject(Protocol):
    """What a file is run against; rows of streams start with the timestamp, rows of changes with _ts and _weight."""

    def execute(self, text: str) -> None: ...
    def result(self, query: str, at: Any) -> list[Row]: ...
    def changes(self, query: str, since: Any) -> list[Row]: ...
    def kind(self, query: str) -> str: ...
    def defaults(self, query: str) -> list[str]: ...


@dataclass
class Step:
    """Statements (`action` is "execute") or a directive with its expected lines."""

    line: int
    action: str
    argument: str
    expected: list[str] = field(default_factory=list)
    error: str | None = None


@dataclass
class CqlFile:
    path: Path
    steps: list[Step]


def load(path: Path) -> CqlFile:
    return CqlFile(path, _steps(path.read_text().splitlines()))


def _steps(lines: list[str]) -> list[Step]:
    steps: list[Step] = []
    error: str | None = None
    for number, line in enumerate(lines, 1):
        if line.startswith("--?"):
            word, _, argument = line[3:].strip().partition(" ")
            if word == "error":
                error = argument.strip()
                continue
            steps.append(Step(number, word, argument.strip(), error=error))
            error = None
        elif line.startswith("--|"):
            steps[-1].expected.append(line[3:].strip())
        elif not line.strip() or line.lstrip().startswith("--"):
            continue
        elif _is_open(steps, error):
            steps[-1].argument += "\n" + line
        else:
            steps.append(Step(number, "execute", line, error=error))
            error = None
    return steps


def _is_open(steps: list[Step], error: str | None) -> bool:
    """Whether a line of statements goes on with the last step: one that must fail is a single statement."""
    if error is not None or not steps or steps[-1].action != "execute":
        return False
    return steps[-1].error is None or not steps[-1].argument.rstrip().endswith(";")


def run(file: CqlFile, subject: Subject) -> None:
    for step in file.steps:
        place = f"{file.path.name}:{step.line}: "
        if step.error is None:
            try:
                complaint = _run_step(step, subject)
            except Error as error:
                raise AssertionError(f"{place}{step.action} {step.argument} failed: {error}") from error
        else:
            complaint = _run_failing(step, subject)
        assert complaint is None, place + complaint


def _run_failing(step: Step, subject: Subject) -> str | None:
    assert step.error is not None
    try:
        _run_step(step, subject)
    except Error as error:
        return None if re.search(step.error, str(error)) else f"expected an error like {step.error}, got: {error}"
    return f"expected an error like {step.error}"


def _run_step(step: Step, subject: Subject) -> str | None:
    """Nothing, or what is wrong."""
    if step.action == "execute":
        subject.execute(step.argument)
        return None
    arguments = _SIGNATURES[step.action].fullmatch(step.argument)
    assert arguments is not None, f"{step.action} {step.argument}"
    query = arguments["query"]
    if step.action == "kind":
        kind = subject.kind(query)
        return None if kind == arguments["other"] else f"{query} is a {kind}"
    if step.action == "defaults":
        return _compare_defaults(subject.defaults(query), step.expected)
    if step.action == "same":
        return _compare_queries(subject, query, arguments["other"])
    instant = None if arguments["instant"] is None else literals(arguments["instant"])[0]
    found = subject.result(query, instant) if step.action == "result" else subject.changes(query, instant)
    return _compare(f"{step.action} {step.argument}", found, [literals(line) for line in step.expected])


def _compare(what: str, found: list[Row], expected: list[Row]) -> str | None:
    have, want = bag(found), bag(expected)
    if have == want:
        return None
    missing, surplus = sorted((want - have).elements(), key=repr), sorted((have - want).elements(), key=repr)
    return f"{what}\n  missing: {missing}\n  surplus: {surplus}"


def _compare_defaults(found: list[str], expected: list[str]) -> str | None:
    left = list(found)
    for line in expected:
        match = next((text for text in left if line.lower() in text.lower()), None)
        if match is None:
            return f"no default says {line!r}: {found}"
        left.remove(match)
    return f"unexpected defaults: {left}" if left else None


def _compare_queries(subject: Subject, first: str, second: str) -> str | None:
    kinds = subject.kind(first), subject.kind(second)
    if kinds[0] != kinds[1]:
        return f"{first} is a {kinds[0]}, {second} a {kinds[1]}"
    return _compare(f"changes of {first} and {second}", subject.changes(first, None), subject.changes(second, None))


def literals(line: str) -> Row:
    """The values of a line of SQL literals."""
    row: Row | None = connection().execute(f"SELECT {line}").fetchone()
    assert row is not None
    return row


def bag(rows: list[Row]) -> Counter[Row]:
    return Counter(tuple(_comparable(value) for value in row) for row in rows)


def _comparable(value: Any) -> Any:
    """Numbers to nine decimals, whatever their type; instants in UTC; all NaNs alike."""
    if isinstance(value, (float, Decimal)):
        return "NaN" if value != value else round(float(value), 9)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return value
