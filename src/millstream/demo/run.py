"""Runs the paper's Linear Road queries over simulated traffic and shows their answers as they become final.

Only the public interface of Millstream is used, so this is also an example of how to use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import millstream as ms
from millstream.demo import plot, traffic

STREAM = "PosSpeedStr"
_NEWEST = 3


class DemoQuery(Protocol):
    """What the demo needs of a registered query."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    def changes(self, since: int | None = None) -> pa.Table: ...


class DemoDatabase(Protocol):
    """What the demo needs of a database."""

    def execute(self, text: str) -> Any: ...
    def insert(self, name: str, rows: pa.Table) -> Any: ...
    def advance(self, name: str, *, to: int) -> Any: ...
    def queries(self) -> list[Any]: ...
    def close(self) -> None: ...


@dataclass
class Watched:
    """A query and the changes of its answer that have been read so far."""

    query: DemoQuery
    tables: list[pa.Table] = field(default_factory=list)
    elements: int = 0

    def read(self) -> None:
        since = self.tables[-1]["_ts"][-1].as_py() if self.tables else None
        changes = self.query.changes(since=since)
        if changes.num_rows:
            self.tables.append(changes)
            self.elements += int(np.abs(changes["_weight"].to_numpy()).sum())

    def newest(self) -> str:
        """The last changes, one per line: when, into or out of the answer, and the row."""
        if not self.tables:
            return ""
        rows = self.tables[-1].slice(max(0, self.tables[-1].num_rows - _NEWEST)).to_pylist()
        return "\n".join(_line(row) for row in rows)


@dataclass
class DemoRun:
    """What a run did: how much went in, how long the database was busy with it, and what came out."""

    watched: list[Watched]
    reports: int = 0
    busy_seconds: float = 0.0
    epochs: int = 0

    @property
    def throughput(self) -> float:
        return self.reports / self.busy_seconds if self.busy_seconds else 0.0

    def changes(self) -> dict[str, pa.Table]:
        return {each.query.name: pa.concat_tables(each.tables) for each in self.watched if each.tables}


def run_demo(
    db: DemoDatabase | None = None,
    *,
    seconds: int = 900,
    cars: int = 5000,
    seed: int = 1,
    batch_seconds: int = 30,
    tolls: bool = True,
    pace: float = 0.0,
    png: Path | None = Path("linear_road.png"),
    console: Console | None = None,
) -> DemoRun:
    """Feeds `seconds` of traffic to the queries in batches of `batch_seconds`, showing their answers.

    Without a `db` a temporary one is used. `tolls` adds the paper's queries 4 to 6. The closing plot goes to
    `png`, or into the terminal where that is None or matplotlib is missing. Batches come `pace` seconds apart at least,
    for those who watch.
    """
    console = console or Console()
    reports = traffic.simulate(seconds, cars, seed)
    with ExitStack() as stack:
        if db is None:
            with console.status("starting Spark"):
                db = stack.enter_context(closing(ms.connect()))
        db.execute(script("linear_road.cql"))
        if tolls:
            db.execute(script("linear_road_tolls.cql"))
        run = _feed(db, reports, seconds, batch_seconds, pace, console)
    _summarise(run, console)
    drawn = plot.draw(plot.panels(run.changes(), seconds), png, console)
    if drawn is not None:
        console.print(f"plot: {drawn}")
    return run


def _feed(
    db: DemoDatabase, reports: pa.Table, seconds: int, batch_seconds: int, pace: float, console: Console
) -> DemoRun:
    run = DemoRun([Watched(query) for query in db.queries()])
    progress = Progress(
        TextColumn("[bold]Linear Road"), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    )
    task = progress.add_task("", total=seconds)
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        for end, batch in _batches(reports, seconds, batch_seconds):
            began = perf_counter()
            db.insert(STREAM, batch)
            if end == seconds:
                # Without this the last second would stay open, since more reports of it could come.
                db.advance(STREAM, to=seconds - 1)
            for each in run.watched:
                each.read()
            took = perf_counter() - began
            run.busy_seconds += took
            run.reports += batch.num_rows
            run.epochs += 1
            progress.update(
                task,
                completed=end,
                description=f"{_clock(end)} of traffic, {run.throughput:,.0f} reports/s",
            )
            live.update(Group(progress, _answers(run)))
            sleep(max(0.0, pace - took))
    return run


def script(name: str) -> str:
    """The text of one of the demo's .cql files."""
    return (files("millstream.demo") / name).read_text(encoding="utf-8")


def _batches(reports: pa.Table, seconds: int, batch_seconds: int) -> Iterator[tuple[int, pa.Table]]:
    """The reports cut by time, each piece with the second at which it ends."""
    times = reports["ts"].to_numpy()
    for start in range(0, seconds, batch_seconds):
        end = min(start + batch_seconds, seconds)
        first, last = np.searchsorted(times, [start, end])
        yield end, reports.slice(first, last - first)


def _answers(run: DemoRun) -> Table:
    answers = Table("query", "kind", "changes", "newest", title="Linear Road: answers so far", min_width=80)
    for each in run.watched:
        answers.add_row(each.query.name, each.query.kind, f"{each.elements:,}", each.newest())
    return answers


def _summarise(run: DemoRun, console: Console) -> None:
    console.print(_answers(run))
    console.print(
        f"{run.reports:,} reports in {run.epochs} batches took {run.busy_seconds:.1f} s: "
        f"{run.throughput:,.0f} reports/s, {run.busy_seconds / max(run.epochs, 1):.2f} s per batch"
    )


def _line(row: dict[str, Any]) -> str:
    values = ", ".join(f"{name} {value}" for name, value in row.items() if not name.startswith("_"))
    return f"{_clock(row['_ts'])} {'+' if row['_weight'] > 0 else '-'} {values}"


def _clock(second: int) -> str:
    return f"{second // 60}:{second % 60:02}"
