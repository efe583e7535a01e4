"""What came of reading files and other sources: how many rows, how many not, and why, with examples."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from millstream.catalog.objects import CatalogOfObjects
from millstream.connectors.feeds import feed_of, malformed_key
from millstream.engine.engine import Engine
from millstream.ingest.landed import Landed, LandedBatch
from millstream.kernel.batch import value_column
from millstream.plan.definitions import StreamDefinition, TableDefinition
from millstream.state.snapshot import Snapshot
from millstream.state.store import Store

_SHOWN = 120  # characters of an example
_REASONS = 5  # that are told
_LOOKED_AT = 1000  # rows, and parts, in search of them
_VALUES = re.compile(r"'(?:[^'\\]|\\.)*'|\d+")


@dataclass(frozen=True)
class SourceReport:
    """What a source has given: rows that came (late and shed ones among them), and what could not be read."""

    rows: int = 0
    late: int = 0
    malformed: int = 0
    shed: int = 0
    skipped_files: int = 0
    example: str = ""  # of what could not be read

    def __str__(self) -> str:
        said = [f"{self.rows:,} row{'' if self.rows == 1 else 's'}"]
        for name in ("late", "malformed", "shed"):
            said += [f"{getattr(self, name):,} {name}"] if getattr(self, name) else []
        said += [f"{self.skipped_files:,} files skipped"] if self.skipped_files else []
        return ", ".join(said) + (f"; {self.example}" if self.example else "")


def source_reports(engine: Engine, catalog: CatalogOfObjects, before: Snapshot) -> dict[str, SourceReport]:
    """What sources have given since a snapshot, by name."""
    found = {}
    for definition in [*catalog.values()]:
        feed = None if not isinstance(definition, StreamDefinition | TableDefinition) else feed_of(definition)
        if feed is not None:
            found[definition.name] = _of_source(engine, feed.key, malformed_key(feed), definition.name, before)
    return found


def _of_source(engine: Engine, key: str, rejected: str, name: str, before: Snapshot) -> SourceReport:
    then, now = before.progress(key), engine.snapshot.progress(key)
    malformed = now.malformed - then.malformed
    example = _example(engine, rejected, before) if malformed else ""
    if example:
        table = f"{name}{rejected.removeprefix(key)}"
        example = f"malformed, as {example} (SELECT * FROM {table})"
    return SourceReport(
        now.arrived - then.arrived,
        now.late - then.late,
        malformed,
        now.shed - then.shed,
        now.skipped_files - then.skipped_files,
        example,
    )


def _example(engine: Engine, rejected: str, before: Snapshot) -> str:
    """The first row that could not be read since, and why."""
    known = {*before.history.get(rejected, ())}
    new = [file for file in engine.snapshot.history.get(rejected, ()) if file not in known][:1]
    rows = engine.sources.kept_rows(rejected, engine.snapshot, lambda file: file in new)
    if not rows.height:
        return ""
    raw, reason = (rows[value_column(index)][0] for index in range(2))
    return example_of(raw, reason)


def read_report(store: Store, table: TableDefinition, landed: LandedBatch) -> str:
    """What came of reading a table's files: how many rows, how many not, and an example of each reason."""
    rows, malformed, skipped = (
        sum(part.rows for part in parts) for parts in (landed.parts, landed.malformed, landed.skipped)
    )
    said = [f": {rows:,} row{'' if rows == 1 else 's'} read"]
    said += [f"{malformed:,} malformed"] if malformed else []
    said += [f"{skipped:,} files skipped"] if skipped else []
    examples = [f"  {example_of(raw, reason)}" for raw, reason in _reasons(store, landed.malformed)]
    examples += [f"  {file}: {reason}" for file, reason in _reasons(store, landed.skipped)]
    examples += [f"  SELECT * FROM {table.name}._malformed has all"] if malformed else []
    drift = [f"  {files} file{'' if files == 1 else 's'}: {column}" for column, files in sorted(landed.drift.items())]
    return "\n".join([", ".join(said), *examples, *drift[:_REASONS]])


def _reasons(store: Store, parts: Sequence[Landed]) -> list[tuple[str | None, str]]:
    """The first that has each reason, for some reasons: those that differ in quoted values and numbers are alike."""
    found: dict[str, tuple[str | None, str]] = {}
    for part in parts[:_LOOKED_AT]:
        for raw, reason in store.read(part.name).head(_LOOKED_AT).iter_rows():
            found.setdefault(_VALUES.sub("", reason or ""), (raw, reason))
            if len(found) == _REASONS:
                return [*found.values()]
    return [*found.values()]


def example_of(raw: str | None, reason: str | None) -> str:
    """A text that is no row, and why, in a few words."""
    shown = repr(raw) if raw is None or len(raw) <= _SHOWN else f"{raw[:_SHOWN]!r}.."
    return f"{shown}: {reason}"
