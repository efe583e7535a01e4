"""Commits: a checksummed manifest names everything the database consists of, and a log what has changed since.

A manifest's name appears when all of it, and all that it names, is on disk. The newest one counts, with the changes in
the log that it names. A commit that changes little is a line of that log, on disk when the commit is done: one fsync.
When lines have become many, or something was declared, the next commit is a manifest again, with a log of its own.

One process commits. A manifest's number is one more than that of the manifest before it, and is taken by link(2), which
fails where the name is there already. Whoever opens the database takes the next number at once, with a fencing number
one greater: from then on the owner before it, should it still live, finds the number taken that it would take next.
When that manifest has been removed in its turn, the name is free again; but then the one before it is gone too, since
old ones are removed in the order of their numbers. So a commit counts when its number could be taken, the manifest
before it was still there to be removed, and there is none after it. That needs neither a lock nor a clock. Where the
number could be taken and the rest is not so, the next owner may have begun with that commit or without it: the one
before it is told that it was taken over, and leaves all files to the next one.

Whoever takes the database over does so by a manifest that says what the one before it says, the same log included. Then
it reads that log, and begins a manifest and a log of its own. An owner looks for later manifests after each line: where
there is none, the line was there before whoever comes next reads the log; where there is one, its commit is in doubt.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from millstream.errors import StateError
from millstream.state.changes import change, changed
from millstream.state.encoding import Encoding
from millstream.state.faults import reach
from millstream.state.files import checksum, damaged, format_of, read_whole, write_new, write_whole
from millstream.state.notes import CHANGES, OF_OLD, Notes, Record
from millstream.state.snapshot import Catalog, Snapshot, from_json

# 4: users' code is kept without classes of ours; 5: query tables are a part of the snapshot; 6: commits may be lines of
# a log, and history may lie in segments.
FORMAT = 6
READABLE = (3, 4, 5, FORMAT)
_OLD = re.compile(r"(?:catalog|notes|changes)-(\d{10})(?:-\w+)?\.(?:json|log)|.*\.tmp|notes\.log")
_CHANGES = 1 << 20  # bytes of changes after which there is a manifest again, or as many as that has, if it is longer
_ATTEMPTS = 100  # to take over from a process that goes on committing


@dataclass(frozen=True)
class Layout:
    """How rows are placed: on how many shards, by which hash. State is where it says."""

    shards: int
    hash: str


class Journal(Protocol):
    """Where snapshots are committed."""

    layout: Layout
    # Whether what was noted counts after commits too: while a database is opened, they need not hold it yet.
    keeps_notes: bool

    def commit(self, snapshot: Snapshot, names_synced: Callable[[], None]) -> None:
        """Make a snapshot the one that counts; `names_synced` has all that it names on disk when it returns."""
        ...

    def check_current(self) -> None:
        """Raise where another process has taken the database over."""
        ...

    @property
    def directory(self) -> Path | None:
        """Where the manifests are; None for databases that end with their process."""
        ...

    @property
    def is_in_doubt(self) -> bool:
        """Whether a commit was cut short, so that nobody knows here whether it counts: nothing may be removed."""
        ...

    def note(self, record: Record) -> None:
        """Keep a record until the next commit, which holds what it says."""
        ...

    def notes(self) -> list[Record]:
        """What was noted since the last commit."""
        ...


class NoJournal:
    """For databases that end with their process."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    directory = None
    is_in_doubt = False
    keeps_notes = False

    def commit(self, snapshot: Snapshot, names_synced: Callable[[], None]) -> None:
        """Nothing to keep."""

    def check_current(self) -> None:
        """Nobody else knows of it."""

    def note(self, record: Record) -> None:
        """Nothing to keep."""

    def notes(self) -> list[Record]:
        return []


@dataclass(frozen=True)
class Manifest:
    """What a manifest says."""

    version: int
    fence: int  # how often the database has changed hands
    noted: int  # the commit after which notes count that this one does not hold
    layout: Layout
    catalog: str
    snapshot: Snapshot
    changed: int = 0  # the manifest in whose log the commits are that count on top of the snapshot


class Manifests:
    """The manifests of a database directory, as the process sees them that owns it."""

    def __init__(self, directory: Path, layout: Layout) -> None:
        self.directory = directory
        self.layout = layout
        self.fence = 0
        self.is_in_doubt = False
        self._is_lost = False
        self._version = 0
        self._neighbours = -1, directory, directory  # a version, and the manifests of it and of the next one
        self._catalog: tuple[str, Catalog] = "", ()
        self._notes = Notes(directory, 0)
        self._changes = Notes(directory, 0, CHANGES)
        self._committed = Snapshot()
        self._size = 0  # of the manifest
        self._encoding = Encoding()
        self.keeps_notes = False

    def take_over(self, check: Callable[[Snapshot], None]) -> Snapshot:
        """Become the owner: the committed snapshot, or an empty one where nothing was ever committed. `check` may
        refuse it, and then nothing is changed."""
        self.directory.mkdir(exist_ok=True)
        for _ in range(_ATTEMPTS):
            try:
                found = self.read()
            except StateError:
                if self._newest() is None:
                    raise
                found = self.read()  # the owner before may just have replaced it
            check(Snapshot() if found is None else self._with_changes(found))
            try:
                self._committed = self._taken(found)
            except FileExistsError:
                continue
            self._remove_old()
            reach("manifest-counts")
            return self._committed
        raise StateError(
            f"{self.directory.parent} is being written to by another process",
            hint="a database has one writer: close it there first, or ask it by its address where it is served",
        )

    def _taken(self, found: Manifest | None) -> Snapshot:
        """What is committed once the database is ours. FileExistsError says that another owner was there."""
        if found is None:
            self._begin(Manifest(1, 1, 1, self.layout, "", Snapshot(), 1), ())
            return Snapshot()
        # The owner before may have gone on up to here, or may be at it: only now it finds that it must not.
        mine = replace(found, version=found.version + 1, fence=found.fence + 1)
        self._begin(mine, found.snapshot.catalog)
        if not self._remove_before(found.version):
            raise FileExistsError
        snapshot = self._with_changes(found)
        # What it may still write to that log must not count, since its files will be gone.
        again = replace(mine, version=mine.version + 1, changed=mine.version + 1, snapshot=snapshot)
        self._begin(again, snapshot.catalog)
        if not self._remove_before(mine.version):
            raise FileExistsError
        return snapshot

    def _begin(self, manifest: Manifest, catalog: Catalog) -> None:
        """Own the database by a manifest."""
        version, snapshot = manifest.version, manifest.snapshot
        self.layout, self._catalog = manifest.layout, (manifest.catalog, catalog)
        if not manifest.catalog:
            self._catalog = self._write_catalog(catalog, version), catalog
        self._write(version, manifest.fence, manifest.noted, snapshot, lambda: None, changed=manifest.changed)
        self._version, self.fence = version, manifest.fence
        self._notes = Notes(self.directory, manifest.noted)
        self._changes = Notes(self.directory, manifest.changed, CHANGES)

    def _with_changes(self, manifest: Manifest) -> Snapshot:
        snapshot = manifest.snapshot
        for record in Notes(self.directory, manifest.changed, CHANGES).read():
            snapshot = changed(snapshot, record["change"])
        return snapshot

    def commit(self, snapshot: Snapshot, names_synced: Callable[[], None]) -> None:
        if self._is_lost:
            raise self._taken_over()
        if self.is_in_doubt:
            raise StateError(
                f"a commit to {self.directory.parent} was cut short", hint="close the database and open it again"
            )
        if self._may_be_a_change(snapshot):
            self._commit_change(snapshot, names_synced)
        else:
            self._commit_whole(snapshot, names_synced)
        self._committed = snapshot

    def _may_be_a_change(self, snapshot: Snapshot) -> bool:
        """Where all that was declared and noted is in the manifest, and the log is our own and not long yet."""
        is_known = snapshot.catalog is self._catalog[1] and not self.keeps_notes and not self._notes.length
        is_ours = self._changes.version == self._version
        return is_known and is_ours and self._changes.length < max(_CHANGES, self._size)

    def _commit_change(self, snapshot: Snapshot, names_synced: Callable[[], None]) -> None:
        said = {"change": change(self._committed, snapshot)}
        names_synced()
        self.is_in_doubt = True
        try:
            self._changes.append(said)
        except OSError as error:
            self.is_in_doubt = self._changes.is_in_doubt
            raise _not_written(self._changes.path, error) from error
        self.check_current()  # else it stays in doubt
        self.is_in_doubt = False
        reach("change-counts")

    def _commit_whole(self, snapshot: Snapshot, names_synced: Callable[[], None]) -> None:
        before, version = self._version, self._version + 1
        catalog = self._write_catalog(snapshot.catalog, version)
        kept, self._catalog = self._catalog, (catalog, snapshot.catalog)
        self.is_in_doubt = True
        try:
            noted = self._notes.version if self.keeps_notes else version
            self._write(version, self.fence, noted, snapshot, names_synced)
        except FileExistsError:
            self._is_lost, self.is_in_doubt, self._catalog = True, False, kept
            raise self._taken_over() from None
        except StateError:
            self.is_in_doubt, self._catalog = self._path(version).exists(), kept
            raise
        if not self._remove_before(before) or self._newest() != self._path(version):
            # Whoever came may have begun with this commit, and then needs its files: it stays in doubt.
            self._is_lost, self._catalog = True, kept
            raise self._taken_over()
        self._version = version
        self._changes.close()
        self._changes = Notes(self.directory, version, CHANGES)
        if not self.keeps_notes:
            self._notes.close()
            self._notes = Notes(self.directory, version)
        self.is_in_doubt = False
        reach("manifest-counts")
        self._remove_old()

    def close(self) -> None:
        """Nothing is committed or noted any more."""
        self._notes.close()
        self._changes.close()

    def restore(self, manifest: Manifest) -> None:
        """Begin a directory with what a manifest of another one says, which nobody owns yet."""
        self._catalog = self._write_catalog(manifest.snapshot.catalog, manifest.version), manifest.snapshot.catalog
        self._write(manifest.version, manifest.fence, manifest.version, manifest.snapshot, lambda: None)

    def current(self, snapshot: Snapshot) -> Manifest:
        """What the manifest says, with what the process knows since."""
        version = self._version
        return Manifest(version, self.fence, self._notes.version, self.layout, self._catalog[0], snapshot, version)

    def check_current(self) -> None:
        if not self._is_lost:
            if self._neighbours[0] != self._version:  # notes ask after each of them
                self._neighbours = self._version, self._path(self._version), self._path(self._version + 1)
            _, own, following = self._neighbours
            self._is_lost = following.exists() or not own.exists()
        if self._is_lost:
            raise self._taken_over()

    def note(self, record: Record) -> None:
        """One line, on disk when this returns. Whoever takes the database over reads what was noted before."""
        try:
            self._notes.append(record)
        except OSError as error:
            raise _not_written(self._notes.path, error) from error
        self.check_current()

    def notes(self) -> list[Record]:
        return self._notes.read()

    def read(self) -> Manifest | None:
        """The newest manifest, without the changes since, or None where nothing was ever committed. One that is damaged
        is refused: what an older one names need not be there any more."""
        path = self._newest()
        if path is None:
            return None
        content = json.loads(read_whole(path, "manifest", READABLE))
        if self._path(content["version"]) != path:
            raise damaged(path, f"it is manifest {content['version']} by what it holds")
        name = content["catalog"]
        catalog = tuple(json.loads(read_whole(self.directory / name, "catalog", READABLE)))
        layout = self._known_layout(Layout(**content["layout"]), path)
        snapshot = from_json(content["snapshot"], catalog)
        version = content["version"]
        noted, since = content.get("noted", version), content.get("changed", version)
        return Manifest(version, content.get("fence", 0), noted, layout, name, snapshot, since)

    @property
    def newest(self) -> Path | None:
        """The manifest that counts."""
        return self._newest()

    @property
    def format(self) -> int | None:
        """The format that the newest manifest says it has; None where that cannot be read."""
        path = self._newest()
        return None if path is None else format_of(path, "manifest")

    def _newest(self) -> Path | None:
        return max(self.directory.glob("manifest-*.json"), default=None)

    def _path(self, version: int) -> Path:
        return self.directory / f"manifest-{version:010d}.json"

    def _write_catalog(self, catalog: Catalog, version: int) -> str:
        name, written = self._catalog
        if name and written is catalog:
            return name
        body = self._encoding.catalog(catalog).encode()
        name = f"catalog-{version:010d}-{checksum(body)}.json"
        try:
            write_whole(self.directory / name, "catalog", FORMAT, body)
        except OSError as error:
            raise _not_written(self.directory / name, error) from error
        return name

    def _write(
        self,
        version: int,
        fence: int,
        noted: int,
        snapshot: Snapshot,
        names_synced: Callable[[], None],
        changed: int | None = None,
    ) -> None:
        content = {
            "version": version,
            "fence": fence,
            "owner": f"process {os.getpid()} on {socket.gethostname()}",
            "noted": noted,
            "changed": version if changed is None else changed,
            "layout": {"shards": self.layout.shards, "hash": self.layout.hash},
            "catalog": self._catalog[0],
        }
        head, path = json.dumps(content, separators=(",", ":")).removesuffix("}"), self._path(version)
        body = f'{head},"snapshot":{self._encoding.snapshot(snapshot)}}}'.encode()
        self._size = len(body)
        try:
            write_new(path, "manifest", FORMAT, body, names_synced)
        except FileExistsError:
            raise
        except OSError as error:
            raise _not_written(path, error) from error

    def _known_layout(self, found: Layout, path: Path) -> Layout:
        if found.hash != self.layout.hash:
            raise StateError(
                f"{path} places rows by {found.hash}, and this version of Millstream by {self.layout.hash}",
                detail="nothing was changed",
                hint="open the database with the version of Millstream that wrote it",
            )
        return found

    def _remove_before(self, version: int) -> bool:
        """Remove the manifest before the one just written; False where another owner has done so."""
        try:
            self._path(version).unlink()
        except FileNotFoundError:
            return version == 0
        except OSError:
            pass  # it is tried again with the next commit
        return True

    def _remove_old(self) -> None:
        """What a manifest replaces. Files that are not ours are left alone, and what cannot be removed is tried again
        with the next commit."""
        for path in sorted(self.directory.glob("manifest-*.json")):
            if path >= self._path(self._version) or not _removed(path):
                break  # those after it stay as long as it does
        kept = self._catalog[0], self._notes.path.name, self._changes.path.name
        for path in self.directory.iterdir():
            found = _OLD.fullmatch(path.name)
            if found is None or path.name in kept or int(found[1] or 0) > self._version:
                continue
            if path.name != OF_OLD or self._notes.version == self._version:
                _removed(path)

    def _taken_over(self) -> StateError:
        newest = self._newest()
        try:
            owner = "another process" if newest is None else _owner(newest)
        except StateError:
            owner = "another process"  # which has just committed again
        return StateError(
            f"database {self.directory.parent} was taken over",
            detail=f"by {owner}; nothing is committed here any more",
            hint="a database has one writer: close it here, and ask there what was committed",
        )


def _removed(path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _owner(path: Path) -> str:
    return str(json.loads(read_whole(path, "manifest", READABLE)).get("owner", "another process"))


def _not_written(path: Path, error: OSError) -> StateError:
    return StateError(
        f"{path} could not be written: {error.strerror or error}",
        detail="the last committed state is intact",
        hint="make room on the disk, then try again or reopen the database",
    )
