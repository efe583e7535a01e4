"""Whether all that a database directory consists of is as it was written. Only reads, and takes no lock.

An owner may commit meanwhile: what is found wrong counts only if the newest commit still needs it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from millstream.errors import StateError
from millstream.state.changes import changed
from millstream.state.layout import MANIFESTS, has_manifest
from millstream.state.manifest import Layout, Manifest, Manifests
from millstream.state.notes import CHANGES, Notes
from millstream.state.snapshot import Snapshot
from millstream.state.store import DirectoryStore

OnProgress = Callable[[int, int], None]  # files done, and files in all
_ATTEMPTS = 5  # to read what an owner replaces at that moment
_GLANCE = 0.1  # seconds


@dataclass(frozen=True)
class Damage:
    """A file that is not as it was written. `names` are those of the snapshot that cannot be read from it; where there
    are none, it is one of those that say what the database consists of."""

    path: Path
    reason: str
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Verified:
    """What was found. Without a snapshot nobody knows what else there should be."""

    directory: Path
    format: int | None
    snapshot: Snapshot | None
    files: int = 0
    bytes: int = 0
    damages: tuple[Damage, ...] = field(default=())


def verify(directory: Path, layout: Layout, on_progress: OnProgress = lambda done, of: None) -> Verified:
    """Look at every byte that counts. StateError says that there is no database."""
    if not has_manifest(directory):
        raise StateError(
            f"there is no database in {directory}",
            detail="it has no manifest, which would say what of it counts",
            hint="name a database's directory; or, if it was one, restore it from a backup",
        )
    manifests = Manifests(directory / MANIFESTS, layout)
    form, snapshot, damages = _head(manifests)
    if snapshot is None:
        return Verified(directory, form, None, damages=tuple(damages))
    store = DirectoryStore(directory)
    files, size, found = _contents(store, snapshot, on_progress)
    if found:
        found = _that_still_count(found, manifests, snapshot)
    return Verified(directory, form, snapshot, files, size, (*damages, *found))


def _head(manifests: Manifests) -> tuple[int | None, Snapshot | None, list[Damage]]:
    """The newest commit, and what is wrong with the files that say it: an owner may just have replaced them."""
    for _ in range(_ATTEMPTS):
        path = manifests.newest
        form, snapshot, damages = _head_of(manifests)
        if not damages or path == manifests.newest:
            break
        time.sleep(_GLANCE)
    return form, snapshot, damages


def _head_of(manifests: Manifests) -> tuple[int | None, Snapshot | None, list[Damage]]:
    path = manifests.newest
    try:
        manifest = manifests.read()
    except StateError as error:
        where = next((file for file in manifests.directory.glob("catalog-*") if str(file) in error.primary), path)
        return manifests.format, None, [Damage(where or manifests.directory, _reason(error))]
    if manifest is None:
        return None, None, [Damage(manifests.directory, "its manifest has just gone")]
    damages = []
    try:
        Notes(manifests.directory, manifest.noted).read()
    except StateError as error:
        damages.append(Damage(Notes(manifests.directory, manifest.noted).path, _reason(error)))
    try:
        snapshot = _with_changes(manifests.directory, manifest)
    except StateError as error:
        log = Notes(manifests.directory, manifest.changed, CHANGES).path
        return manifests.format, None, [*damages, Damage(log, _reason(error))]
    return manifests.format, snapshot, damages


def _with_changes(directory: Path, manifest: Manifest) -> Snapshot:
    snapshot = manifest.snapshot
    for record in Notes(directory, manifest.changed, CHANGES).read():
        snapshot = changed(snapshot, record["change"])
    return snapshot


def _contents(store: DirectoryStore, snapshot: Snapshot, on_progress: OnProgress) -> tuple[int, int, list[Damage]]:
    """How many files there are, their bytes, and what is wrong with them."""
    by_path: dict[Path, list[str]] = {}
    for name in dict.fromkeys(snapshot.names()):
        by_path.setdefault(next(iter(store.paths([name]))), []).append(name)
    size, damages = 0, list[Damage]()
    for done, (path, names) in enumerate(sorted(by_path.items())):
        on_progress(done, len(by_path))
        reasons = {name: reason for name in names if (reason := _why_wrong(store, path, name))}
        if reasons:
            said = Counter(reasons.values())
            more = f" (and {sum(said.values()) - 1} more in the file)" if len(reasons) > 1 else ""
            damages.append(Damage(path, f"{next(iter(said))}{more}", frozenset(reasons)))
        if path.exists():
            size += path.stat().st_size
    on_progress(len(by_path), len(by_path))
    return len(by_path), size, damages


def _why_wrong(store: DirectoryStore, path: Path, name: str) -> str | None:
    try:
        store.verify(name)
    except StateError as error:
        return _reason(error)
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    return None


def _that_still_count(found: list[Damage], manifests: Manifests, before: Snapshot) -> list[Damage]:
    """Without what a later commit does not name any more: that may have been removed since."""
    _, snapshot, _ = _head(manifests)
    needed = {*(before if snapshot is None else snapshot).names()}
    return [damage for damage in found if not needed.isdisjoint(damage.names)]


def _reason(error: StateError) -> str:
    _, said, reason = error.primary.partition("is damaged: ")
    return reason if said else error.primary


def parts_with(snapshot: Snapshot, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """In which parts of a snapshot some names are: a section, and the source, step or edge there."""
    for source, files in snapshot.history.items():
        if any(file.name in names for file in files):
            yield "history", source
    for step, synopses in snapshot.states.items():
        if any(not names.isdisjoint(kept) for kept in synopses.values()):
            yield "states", step
    for edge, shown in snapshot.results.items():
        if not names.isdisjoint(shown):
            yield "results", edge
    for step, table in snapshot.query_tables.items():
        if not names.isdisjoint(table.names()):
            yield "query_tables", step
    for edge, run in snapshot.runs.items():
        if not names.isdisjoint({*run.names()}):
            yield "runs", edge
