"""What operators did and hold: for EXPLAIN ANALYZE and statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millstream.kernel.pipeline import Pipeline
from millstream.state.snapshot import Names
from millstream.state.store import Store

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class OperatorReport:
    """One operator since the database was opened: rows given, seconds spent on all shards, bytes of state held now,
    and how many queries share it."""

    name: str
    inputs: tuple[str, ...]
    rows: int
    seconds: float
    state: int
    queries: int

    @property
    def share(self) -> float:
        """The seconds that one of the queries has to answer for."""
        return self.seconds / max(self.queries, 1)


def report(
    pipeline: Pipeline,
    edge: str,
    rows: Mapping[str, int],
    seconds: Mapping[str, float],
    states: Mapping[str, Mapping[str, Names]],
    shown: Mapping[str, int],
    store: Store,
) -> list[OperatorReport]:
    """The operators that an edge is made by, sources first."""
    below = pipeline.edges_below(edge)
    users = {other: pipeline.edges_below(other) for other in shown}
    found = []
    for step in pipeline.steps:
        if step.name in below:
            held = bytes_of(states.get(step.name, {}), store)
            queries = sum(count for other, count in shown.items() if step.name in users[other])
            spent = seconds.get(step.name, 0.0)
            found.append(OperatorReport(step.name, step.inputs, rows.get(step.name, 0), spent, held, queries))
    return found


def bytes_of(synopses: Mapping[str, Names], store: Store) -> int:
    """What a step holds."""
    return sum(store.size(name) for names in synopses.values() for name in names)


def as_text(reports: Sequence[OperatorReport]) -> str:
    """A table of operators, the result last."""
    header = ("operator", "rows", "seconds", "share", "state", "queries")
    lines = [
        (r.name, f"{r.rows:,}", f"{r.seconds:.3f}", f"{r.share:.3f}", shown_bytes(r.state), str(r.queries))
        for r in reports
    ]
    widths = [max(len(line[column]) for line in (header, *lines)) for column in range(len(header))]
    return "\n".join("  ".join(map(_padded, line, widths, range(len(line)))) for line in (header, *lines))


def _padded(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column else cell.ljust(width)


def shown_bytes(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"
