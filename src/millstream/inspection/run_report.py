"""What came of reading sources: said at the end of a run, so that nobody need look for what was lost on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.connectors.source_reports import SourceReport


@dataclass(frozen=True)
class RunReport:
    """What a run has read, and what does not run any more after it."""

    sources: dict[str, SourceReport] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # queries, with what stopped them
    paused: dict[str, str] = field(default_factory=dict)  # sinks, with what went wrong

    def __str__(self) -> str:
        lines = [f"{name}: {report}" for name, report in self.sources.items()]
        lines += [f"query {name} has failed: {_first(error)}" for name, error in self.failed.items()]
        lines += [f"sink {name} is paused: {_first(error)}" for name, error in self.paused.items()]
        return "\n".join(lines) or "no sources to read"


def _first(text: str) -> str:
    return text.partition("\n")[0]
