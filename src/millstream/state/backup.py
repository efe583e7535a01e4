"""Backups: a copy of a database as of one snapshot.

Files that a snapshot names never change, so they are linked where the copy lies on the same file system, and copied
elsewhere; those that their owner appends to are always copied. Whoever asks keeps them from being removed meanwhile.
The manifest is written last: a copy that was cut short has none, and is refused as a database.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from millstream.errors import StateError
from millstream.state.files import sync_directory
from millstream.state.layout import CHECKPOINTS, HISTORY, MANIFESTS, SEGMENTS
from millstream.state.manifest import Manifest, Manifests
from millstream.state.store import DirectoryStore
from millstream.state.tail import PREFIX

OnProgress = Callable[[int, int], None]  # bytes done, and bytes in all
_NOT_LINKED = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)
# Of Spark's checkpoints: what says that a batch is done goes first, so that a copy knows all of what is done in it.
_ORDER = ("commits", "offsets")


@dataclass(frozen=True)
class Backup:
    """A copy that was made: where, of which epoch, and how much there is of it."""

    path: Path
    epoch: int
    files: int
    bytes: int


class Copy:
    """A copy that is being made."""

    def __init__(self, source: Path, target: Path, *, copy: bool) -> None:
        self.source, self.target = source.resolve(), target.absolute()
        self._copies = copy
        if self.target.resolve().is_relative_to(self.source):
            raise StateError(f"{target} lies in the database itself", hint="choose a directory outside of it")
        try:
            self.target.mkdir(parents=True, exist_ok=True)
            if any(self.target.iterdir()):
                raise StateError(
                    f"{target} is not empty",
                    detail="nothing was changed or removed",
                    hint="a backup goes to a new or an empty directory",
                )
        except OSError as error:
            raise StateError(f"{target} cannot be a backup: {error.strerror or error}") from error

    def checkpoints(self) -> None:
        """Spark's, of all sources: a few small files each. To be called while no batch can be committed."""
        for directory in sorted((self.source / CHECKPOINTS).glob("*")):
            paths = sorted(self._files(directory), key=lambda path: _rank(path.relative_to(directory)))
            for path in paths:
                made = self.target / path.relative_to(self.source)
                made.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, made)  # Spark may write to some of its files again
                _sync(made)

    def _files(self, directory: Path) -> Iterator[Path]:
        # What Spark is just writing has another name until it is whole.
        found = (path for path in directory.rglob("*") if not path.name.endswith((".tmp", ".tmp.crc")))
        return (path for path in found if path.is_file())

    def finish(self, manifest: Manifest, on_progress: OnProgress) -> Backup:
        """All that a manifest names, and then itself."""
        try:
            return self._finish(manifest, on_progress)
        except BaseException as error:
            self.discard()
            if isinstance(error, OSError):
                raise StateError(
                    f"the backup to {self.target} failed: {error.strerror or error}",
                    detail=f"{error.filename or self.target}; the database itself is as it was",
                    hint="make room, then try again",
                ) from error
            raise

    def _finish(self, manifest: Manifest, on_progress: OnProgress) -> Backup:
        store = DirectoryStore(self.source)
        files = {path: path.stat().st_size for path in sorted({*store.paths(manifest.snapshot.names())})}
        done, size = 0, sum(files.values())
        on_progress(done, size)
        for name in (SEGMENTS, HISTORY):
            (self.target / name).mkdir(exist_ok=True)
        for path, length in files.items():
            self._take(path)
            done += length
            on_progress(done, size)
        for directory in sorted(path for path in self.target.rglob("*") if path.is_dir()):
            sync_directory(directory)
        made = Manifests(self.target / MANIFESTS, manifest.layout)
        made.directory.mkdir()
        made.restore(manifest)
        for directory in (self.target, self.target.parent):
            sync_directory(directory)
        return Backup(self.target, manifest.snapshot.epoch, len(files), size)

    def _take(self, path: Path) -> None:
        made = self.target / path.relative_to(self.source)
        made.parent.mkdir(parents=True, exist_ok=True)
        if not self._copies and not path.name.startswith(PREFIX):
            try:
                os.link(path, made)
                return
            except OSError as error:
                if error.errno not in _NOT_LINKED:
                    raise
                self._copies = True
        shutil.copyfile(path, made)
        _sync(made)

    def discard(self) -> None:
        """Remove what was made: the directory was empty."""
        for name in (MANIFESTS, SEGMENTS, HISTORY, CHECKPOINTS):
            shutil.rmtree(self.target / name, ignore_errors=True)


def _rank(path: Path) -> tuple[int, str]:
    first = path.parts[0]
    return _ORDER.index(first) if first in _ORDER else len(_ORDER), str(path)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
