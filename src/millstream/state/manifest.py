"""Commits: each writes one small checksummed manifest that names everything the database consists of.

A manifest's name appears when all of it, and all that it names, is on disk. The newest one counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from millstream.errors import StateError
from millstream.state.files import checksum, damaged, read_whole, sync_directory, write_whole
from millstream.state.snapshot import Snapshot, from_json, to_json

FORMAT = 3
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Layout:
    """How rows are placed: on how many shards, by which hash. State is where it says."""

    shards: int
    hash: str


class Journal(Protocol):
    """Where snapshots are committed."""

    layout: Layout

    def commit(self, snapshot: Snapshot) -> None: ...

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

    def commit(self, snapshot: Snapshot) -> None:
        """Nothing to keep."""

    def note(self, record: Record) -> None:
        """Nothing to keep."""

    def notes(self) -> list[Record]:
        return []


class Manifests:
    """The manifests of a database directory."""

    def __init__(self, directory: Path, layout: Layout) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.layout = layout
        self._version = 0
        self._catalog: tuple[str, tuple[Mapping[str, Any], ...]] = "", ()
        self._log = directory / "notes.log"
        self._noted = False

    def commit(self, snapshot: Snapshot) -> None:
        version = self._version + 1
        catalog = self._write_catalog(snapshot.catalog, version)
        layout = {"shards": self.layout.shards, "hash": self.layout.hash}
        content = {"version": version, "layout": layout, "catalog": catalog, "snapshot": to_json(snapshot)}
        self._write(f"manifest-{version:010d}.json", "manifest", content)
        self._version = version
        self._catalog = catalog, snapshot.catalog
        self._noted = False
        self._remove_old()

    def note(self, record: Record) -> None:
        """One line with a checksum, on disk when this returns. It says which commit it came after, so that one that
        the next commit could not remove is not taken for news."""
        line = json.dumps({"version": self._version, **record}, separators=(",", ":")).encode()
        try:
            with self._log.open("ab" if self._noted else "wb") as file:
                file.write(checksum(line).encode() + b" " + line + b"\n")
                file.flush()
                os.fsync(file.fileno())
            if not self._noted:
                sync_directory(self.directory)
        except OSError as error:
            raise _not_written(self._log, error) from error
        self._noted = True

    def notes(self) -> list[Record]:
        if not self._log.exists():
            return []
        found = []
        *lines, _ = self._log.read_bytes().split(b"\n")  # one that was cut short: nobody was told that it is kept
        for line in lines:
            expected, _, content = line.partition(b" ")
            if checksum(content).encode() != expected:
                raise damaged(self._log, "the checksum of a line does not agree with what it holds")
            record = json.loads(content)
            if record["version"] == self._version:
                found.append(record)
        return found

    def _write_catalog(self, catalog: tuple[Mapping[str, Any], ...], version: int) -> str:
        name, written = self._catalog
        if name and written is catalog:
            return name
        name = f"catalog-{version:010d}.json"
        self._write(name, "catalog", list(catalog))
        return name

    def _write(self, name: str, kind: str, content: object) -> None:
        path = self.directory / name
        try:
            write_whole(path, kind, FORMAT, json.dumps(content, separators=(",", ":")).encode())
        except OSError as error:
            # Also where it has its name already, but that may not last: the one before it counts.
            for written in (path.with_suffix(".tmp"), path):
                written.unlink(missing_ok=True)
            raise _not_written(path, error) from error

    def open(self) -> Snapshot | None:
        """The committed snapshot and layout, or None where nothing was ever committed."""
        found = sorted(self.directory.glob("manifest-*.json"))
        if not found:
            return None
        content = json.loads(read_whole(found[-1], "manifest", FORMAT))
        name = content["catalog"]
        catalog = tuple(json.loads(read_whole(self.directory / name, "catalog", FORMAT)))
        self._version = content["version"]
        self._catalog = name, catalog
        self.layout = self._known_layout(Layout(**content["layout"]), found[-1])
        return from_json(content["snapshot"], catalog)

    def _known_layout(self, found: Layout, path: Path) -> Layout:
        if found.hash != self.layout.hash:
            raise StateError(
                f"{path} places rows by {found.hash}, and this version of Millstream by {self.layout.hash}",
                detail="nothing was changed",
                hint="open the database with the version of Millstream that wrote it",
            )
        return found

    def _remove_old(self) -> None:
        current = f"manifest-{self._version:010d}.json", self._catalog[0]
        for path in self.directory.iterdir():
            if path.name not in current:
                path.unlink(missing_ok=True)


def _not_written(path: Path, error: OSError) -> StateError:
    return StateError(
        f"{path} could not be written: {error.strerror or error}",
        detail="the last committed state is intact",
        hint="make room on the disk, then try again or reopen the database",
    )
