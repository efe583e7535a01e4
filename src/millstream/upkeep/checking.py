"""`ms.check(directory)`: whether all of a database is as it was written; else what is damaged, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from millstream.engine.epochs.parts import LATE, MALFORMED
from millstream.kernel.distribution import HASH
from millstream.state.manifest import Layout
from millstream.state.snapshot import Snapshot
from millstream.state.verification import Damage, Verified, parts_with, verify
from millstream.upkeep.shadow import Concerned, concerned

_RESTORE = "restore it from a backup that has it: such a file never changes under its name"
_ALL = "restore the whole directory from a backup: without this file nobody knows what of the others counts"
_ANEW = "or drop these queries and register them again: their answers are computed from history"


@dataclass(frozen=True)
class DamagedFile:
    """A file that is not as it was written, the streams and queries that it concerns, and what can be done."""

    path: Path
    reason: str
    concerns: str
    streams: tuple[str, ...]
    queries: tuple[str, ...]
    advice: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}\n  concerns: {self.concerns}\n  hint: {self.advice}"


@dataclass(frozen=True)
class CheckReport:
    """What was looked at, and what is damaged."""

    directory: Path
    format: int | None
    epoch: int | None
    files: int
    bytes: int
    damaged: tuple[DamagedFile, ...]

    @property
    def is_well(self) -> bool:
        return not self.damaged

    def __str__(self) -> str:
        said = f"format {self.format or 'unknown'}" + ("" if self.epoch is None else f", epoch {self.epoch}")
        looked = f"{self.directory}: {said}, {self.files} file{'' if self.files == 1 else 's'}, {self.bytes:,} bytes"
        if self.is_well:
            return f"{looked}: all as it was written"
        count = len(self.damaged)
        lines = [f"{looked}: {count} {'is' if count == 1 else 'are'} damaged", *map(str, self.damaged)]
        return "\n".join(lines)


def check(path: str | Path, progress: Callable[[int, int], None] | None = None) -> CheckReport:
    """Whether every byte of a database's directory that counts is as it was written.

    Nothing is written or locked, so that another process may have it open. `progress` is told the files done, and the
    files in all. Where something is damaged, a shadow of the directory is opened, with users' code, to find out which
    queries that concerns.
    """
    directory = Path(path)
    found = verify(directory, Layout(1, HASH), progress or (lambda done, of: None))
    return CheckReport(
        directory,
        found.format,
        None if found.snapshot is None else found.snapshot.epoch,
        found.files,
        found.bytes,
        tuple(_described(found)),
    )


def _described(found: Verified) -> list[DamagedFile]:
    lasting = [damage for damage in found.damages if damage.names]
    known = concerned(found) if lasting and found.snapshot is not None else Concerned()
    return [
        _of_contents(damage, found.snapshot, known, found.directory)
        if damage.names and found.snapshot is not None
        else DamagedFile(_within(damage.path, found.directory), damage.reason, "the whole database", (), (), _ALL)
        for damage in found.damages
    ]


def _of_contents(damage: Damage, snapshot: Snapshot, known: Concerned, directory: Path) -> DamagedFile:
    parts = [*parts_with(snapshot, damage.names)]
    sources = tuple(dict.fromkeys(key for section, key in parts if section == "history"))
    steps = {key for section, key in parts if section != "history"}
    holding, reading = known.queries_of(steps), known.readers_of(sources)
    said = []
    if sources:
        lost = " and ".join(filter(None, map(_shown_source, sources)))
        said.append(f"history of {lost}" + (f", which {_listed(reading)} read" if reading else ""))
    if steps:
        whose = _listed(holding) if holding else known.unknown or "queries that are no more"
        said.append(f"what is kept for {whose}")
    advice = _RESTORE
    if steps and not sources and holding:
        advice = f"{_RESTORE}; {_ANEW}"
    elif sources:
        advice = f"{_RESTORE}; without it what needs these rows raises an error, and the rest goes on"
    queries = tuple(dict.fromkeys((*holding, *reading)))
    path = _within(damage.path, directory)
    return DamagedFile(path, damage.reason, "; ".join(said), tuple(map(_base, sources)), queries, advice)


def _shown_source(key: str) -> str:
    base = _base(key)
    return f"{base} ({key.rpartition('.')[2].lstrip('_')} rows)" if key.endswith((LATE, MALFORMED)) else base


def _base(key: str) -> str:
    return key.rpartition(".")[0] if key.endswith((f".{LATE}", f".{MALFORMED}")) else key


def _within(path: Path, directory: Path) -> Path:
    return path.relative_to(directory) if path.is_relative_to(directory) else path


_LISTED = 10


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return f"{'query' if len(names) == 1 else 'queries'} {', '.join(names[:_LISTED])}{more}"
