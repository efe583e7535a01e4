"""`millstream run`: a file of statements, and then its sources."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import millstream as ms
from millstream.cli.showing import console, database, or_exit, show, text_of
from millstream.cli.stopping import INTERRUPTED, Stop, leave_later, work_until_stopped
from millstream.shell.splitting import is_blank, statements

InProcess = Annotated[bool, typer.Option("--in-process", help="Run in this process, without Spark.")]
_FOREVER = "forever"


def run(
    file: Path,
    until: Annotated[
        str, typer.Option(help='How long sources are read: "idle" (until they have no more), seconds, or "forever".')
    ] = "idle",
    db: Annotated[Path | None, typer.Option(help="The database's directory; without one nothing is kept.")] = None,
    in_process: InProcess = False,
    log_format: Annotated[str, typer.Option(help="Lines of text, or of json for programs.")] = "text",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "error",
) -> None:
    """Run the statements of a file, read its sources, and show the last statement's rows as of then and the queries.

    What the same file declared in this database before is left as it is, and told.

    Ends with 0 when that is done (with --until forever: when SIGINT or SIGTERM comes), 1 when a statement or a source
    fails, 2 when it is called wrongly, 130 when a signal comes before it is done, and 3 when stopping takes longer than
    ten seconds; what was committed is kept in any case.
    """
    lasting = _lasting(until)
    from millstream.service.logs import log_to  # slow to import, and not needed by other commands

    or_exit(lambda: log_to(log_format.lower(), log_level.lower()))
    text = or_exit(lambda: text_of(file))  # first: a wrong name leaves no directory behind
    with Stop() as stop:
        opened = or_exit(lambda: database(db, in_process))
        stop.again()

        def work() -> None:
            result, report = opened.execute(text, again=True), None
            if lasting is None:
                _notices(result)
                console().print(f"{result.message}; the sources are read until SIGINT or SIGTERM comes", markup=False)
            if not stop.came:
                report = opened.run(lasting)
            if result.has_rows and report is not None and report.sources and not stop.came:
                # What the last statement asks is asked of the rows that the sources had.
                result = replace(opened.execute(_last_statement(text)), notices=result.notices)
            if not stop.came or lasting is None:
                _report(opened, result, report, stop)

        try:
            done = or_exit(lambda: work_until_stopped(stop, work, opened.end_run), file)
        finally:
            if stop.came:
                leave_later()
            opened.close()
        if not done and lasting is not None:
            raise typer.Exit(INTERRUPTED)


def _last_statement(text: str) -> str:
    finished, rest = statements(text)
    return finished[-1] if is_blank(rest) else rest


def _report(db: ms.Database, result: ms.Result, report: ms.RunReport | None, stop: Stop) -> None:
    _wait_for_the_past(db, stop)
    if stop.came and any(query.is_filling for query in db.queries()):
        return  # whose answers would have to be waited for
    _notices(result)
    show(result)
    failed = report.failed if report is not None else {}
    for query in db.queries():
        if query.name not in failed:
            count = query.result().num_rows
            console().print(f"[bold]{query.name}[/] ({query.kind}): {count} row{'' if count == 1 else 's'}")
    if report is not None and (report.sources or failed or report.paused):
        console().print(str(report), markup=False, highlight=False, soft_wrap=True)


def _notices(result: ms.Result) -> None:
    for notice in result.notices:
        if notice != result.message:
            console().print(notice, markup=False, highlight=False, soft_wrap=True)


def _wait_for_the_past(db: ms.Database, stop: Stop) -> None:
    """A bar for each query whose past is still being worked through."""
    filling = [query for query in db.queries() if query.is_filling]
    if not filling:
        return
    from rich.progress import Progress

    with Progress(*Progress.get_default_columns(), console=console(), transient=True) as progress:
        bars = {query: progress.add_task(f"{query.name}: its past", total=1.0) for query in filling}
        while bars and not stop.came:
            for query, bar in [*bars.items()]:
                backfill = query.backfill
                progress.update(bar, completed=backfill["fraction"] if backfill else 1.0)
                if backfill is None:
                    del bars[query]
            next(iter(bars), filling[0]).wait(0.1)


def _lasting(until: str) -> str | float | None:
    if until.lower() in ("idle", _FOREVER):
        return "idle" if until.lower() == "idle" else None
    try:
        seconds = float(until)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise typer.BadParameter(f'"idle", "{_FOREVER}" or a number of seconds, not "{until}"', param_hint="--until")
    return seconds
