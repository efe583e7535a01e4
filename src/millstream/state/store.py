"""Stores of segments and of history: immutable frames under names.

A frame is written once under a new name and never changed. Names of segments carry where in which file they lie and
their checksum, so that a manifest that names them says all there is to know. Processes map what is large into memory
and so share it.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import polars as pl
import pyarrow as pa

from millstream.errors import StateError
from millstream.state.column_bounds import bounds_of_file, bounds_of_frame
from millstream.state.faults import reach
from millstream.state.files import checksum, damaged, disk_errors, sync_directory
from millstream.state.layout import HISTORY, SEGMENTS
from millstream.state.packing import unpacked
from millstream.state.pool import Pool, pool_for
from millstream.state.tail import PREFIX, Tail
from millstream.state.writers import SMALL, SegmentWriter, TailWriter
from millstream.state.writers import Writer as Writer

_Argument = TypeVar("_Argument")
PERIOD = "_period"  # names the directories of history, as Hive does
_REMEMBERED = 10_000
# Bytes up to which a segment is read and not mapped: a map is of the whole file, however little of it is wanted, takes
# more than that of memory, and keeps the file on the disk when it was removed.
_SHORT = 2 * SMALL
# What we call our files; those of earlier versions do not say whose they are.
_FILE = re.compile(r"(?:e\d+|queries|landing|moves|handover|tail)(?:-[a-z]?\d+)*?(?:-f(\d+))?-\w+\.(?:seg|parquet)")
_bounds: dict[str, dict[str, tuple[Any, Any] | None]] = {}  # of columns of files of history, by their footers
_checked: set[str] = set()  # files of history whose checksums this process has found to be right


class Store(Protocol):
    """Where segments and history live."""

    @property
    def pool(self) -> Pool:
        """The memory of this process."""
        ...

    def file(self, label: str, *, synced: bool = True) -> AbstractContextManager[Writer]:
        """A file for many segments, on disk when the block ends, or (not `synced`) when `sync` says so."""
        ...

    def in_other_threads(self) -> Callable[[], AbstractContextManager[None]]:
        """Blocks for other threads: what they write there is of the task whose file this thread has open."""
        ...

    def sync(self, names: Iterable[str]) -> None:
        """Have segments on disk."""
        ...

    def read(self, name: str) -> pl.DataFrame: ...

    def read_once(self, name: str) -> pl.DataFrame:
        """A segment that nobody asks for again."""
        ...

    def size(self, name: str) -> int:
        """The bytes of a segment."""
        ...

    def height(self, name: str) -> int:
        """The rows of a segment."""
        ...

    def write_history(self, source: str, period: int, label: str, frame: pl.DataFrame, *, apart: bool = False) -> str:
        """Keep rows of a source, among those of a period; gives the file's name. Others can read it where it is large,
        or is to lie `apart` from what else is written."""
        ...

    def adopt_history(self, source: str, period: int, label: str, content: bytes) -> str:
        """Keep a Parquet file as it is; gives the name of the copy."""
        ...

    def read_history(self, name: str, wanted: pl.Expr | None = None) -> pl.DataFrame:
        """The rows of a file of history, or those of them for which a condition on its columns is true."""
        ...

    def bounds(self, name: str, columns: Iterable[str]) -> Mapping[str, tuple[Any, Any] | None]:
        """The least and the greatest value of columns of a file of history; None where they are not known."""
        ...

    def close(self) -> None:
        """No file stays open; what is written is."""
        ...

    def limit(self, budget: int | None) -> None:
        """How many bytes the pools of all processes have together; None leaves it to us."""
        ...

    def syncing_names(self, names: Iterable[str]) -> Callable[[], None]:
        """Have the names of synced files last as long as what they name; gives what waits for that."""
        ...

    def sweep(self, before: Iterable[str], after: Iterable[str]) -> None:
        """Remove what the names of `before` need and those of `after` do not. What cannot be removed is tried again
        the next time: it does nobody any harm."""
        ...


class MemoryStore:
    """Segments of this process only."""

    def __init__(self) -> None:
        self.pool = Pool()  # all segments are in memory anyway, and not counted
        self._frames: dict[str, pl.DataFrame] = {}
        self._numbers = itertools.count()

    @contextmanager
    def file(self, label: str, *, synced: bool = True) -> Iterator[Writer]:
        yield _MemoryWriter(self, label)

    def sync(self, names: Iterable[str]) -> None:
        """There is no disk."""

    def read(self, name: str) -> pl.DataFrame:
        frame = self._frames.get(name)
        if frame is None:
            raise StateError(f"there is no segment {name}")
        return frame

    def read_once(self, name: str) -> pl.DataFrame:
        return self.read(name)

    def size(self, name: str) -> int:
        return int(self.read(name).estimated_size())

    def height(self, name: str) -> int:
        return self.read(name).height

    def in_other_threads(self) -> Callable[[], AbstractContextManager[None]]:
        return nullcontext

    def write_history(self, source: str, period: int, label: str, frame: pl.DataFrame, *, apart: bool = False) -> str:
        return self.keep(f"{source}-{label}", frame)

    def adopt_history(self, source: str, period: int, label: str, content: bytes) -> str:
        return self.keep(f"{source}-{label}", pl.read_parquet(io.BytesIO(content)))

    def read_history(self, name: str, wanted: pl.Expr | None = None) -> pl.DataFrame:
        frame = self.read(name)
        return frame if wanted is None else frame.filter(wanted)

    def bounds(self, name: str, columns: Iterable[str]) -> Mapping[str, tuple[Any, Any] | None]:
        known = bounds_of_frame(self.read(name))
        return {column: known.get(column) for column in columns}

    def limit(self, budget: int | None) -> None:
        self.pool.limit(budget)

    def close(self) -> None:
        """There is no file."""

    def syncing_names(self, names: Iterable[str]) -> Callable[[], None]:
        return lambda: None

    def sweep(self, before: Iterable[str], after: Iterable[str]) -> None:
        for name in set(before).difference(after):
            self._frames.pop(name, None)

    def keep(self, prefix: str, frame: pl.DataFrame) -> str:
        name = f"{prefix}-{next(self._numbers)}"
        self._frames[name] = frame
        return name


class _MemoryWriter:
    def __init__(self, store: MemoryStore, label: str) -> None:
        self._store, self._label = store, label

    def write(self, frame: pl.DataFrame) -> str:
        return self._store.keep(self._label, frame)

    def write_packed(self, frame: pl.DataFrame) -> str:
        return self.write(frame)


class DirectoryStore:
    """Segments as Arrow and history as Parquet in a directory that all processes of the database see.

    A segment's name is `file@offset+length#checksum`, that of history `path#checksum`. History lies in directories by
    source and period; what its owner writes of it in small batches are segments until it is merged. The names of files
    have the fencing number of the owner who had them written, so that nobody takes those of a later one for leftovers.
    """

    def __init__(self, directory: Path, budget: int | None = None, fence: int = 0) -> None:
        self.directory = directory
        self.budget = budget
        self.fence = fence
        self.pool = pool_for(str(directory))
        self.pool.limit(budget)
        self.segments, self.history = directory / SEGMENTS, directory / HISTORY
        self._task = _TaskOfThread()
        self._tail: Tail | None = None  # of its owner
        self._lasting: set[Path] = set()  # directories whose own names are known to last
        self._unremoved: set[Path] = set()

    def prepare(self, fence: int = 0) -> None:
        """Have its directories, for files of an owner, who is to read them as they are now."""
        self.fence = fence
        self._tail = Tail(lambda: self.segments / f"{self._own(PREFIX)}.seg")
        self.pool.clear()
        self.segments.mkdir(parents=True, exist_ok=True)
        self.history.mkdir(parents=True, exist_ok=True)

    def __reduce__(self) -> tuple[object, ...]:
        return DirectoryStore, (self.directory, self.budget, self.fence)

    def sync(self, names: Iterable[str]) -> None:
        for path in {self._path(name) for name in names}:
            with disk_errors(path), path.open("rb") as file:
                os.fsync(file.fileno())

    @contextmanager
    def file(self, label: str, *, synced: bool = True) -> Iterator[Writer]:
        tail = self._tail
        if synced and tail is not None and self._task.writer is None and tail.take():
            try:
                with self._written(TailWriter(tail)) as appending:
                    yield appending
            finally:
                tail.give_back()
        else:
            # A retried task must not meet the file of its first attempt.
            with self._written(SegmentWriter(self.segments / f"{self._own(label)}.seg", synced)) as writer:
                yield writer

    @contextmanager
    def _written(self, writer: SegmentWriter) -> Iterator[Writer]:
        syncing: list[tuple[Path, Future[None]]] = []
        with self._task.joined(syncing, writer if isinstance(writer, TailWriter) else None):
            try:
                yield writer
                writer.close()
                for name, frame in writer.small.items():
                    self.pool.keep(name, self.size(name), frame)
                for path, written in syncing:
                    with disk_errors(path):
                        written.result()
            except BaseException:
                writer.discard()
                for _, written in syncing:
                    written.exception()  # the first error is the one to tell
                raise

    def in_other_threads(self) -> Callable[[], AbstractContextManager[None]]:
        return partial(self._task.joined, self._task.syncing, self._task.writer)

    def _own(self, label: str) -> str:
        return f"{label}-f{self.fence}-{uuid.uuid4().hex[:8]}"

    def syncing_names(self, names: Iterable[str]) -> Callable[[], None]:
        files, tail = self._files_of(names), self._tail
        known = None if tail is None or not tail.is_lasting else tail.path
        directories = {path.parent for path in files if path != known}
        for directory in list(directories):
            while directory not in self._lasting and directory != self.directory:
                self._lasting.add(directory)
                directory = directory.parent
                directories.add(directory)
        syncing = [(path, _begun(sync_directory, path)) for path in directories]

        def wait() -> None:
            try:
                self.sync_tail()
                reach("tail-synced")
                for path, synced in syncing:
                    with disk_errors(path):
                        synced.result()
            except BaseException:
                self._lasting.clear()
                raise
            if tail is not None and tail.path in files:
                tail.is_lasting = True

        return wait

    def close(self) -> None:
        if self._tail is not None:
            self._tail.close()

    def sync_tail(self) -> None:
        """Have what was appended on disk: for a commit, or for those who read it on other machines."""
        if self._tail is not None:
            with disk_errors(self.segments):
                self._tail.sync()

    def _sync(self, descriptor: int, path: Path) -> None:
        """Have a file on disk: now, or, within the block of a task's file, when that ends. The disk works meanwhile."""
        if self._task.syncing is None:
            os.fsync(descriptor)
        else:
            self._task.syncing.append((path, _begun(_sync_and_close, os.dup(descriptor))))

    def read(self, name: str) -> pl.DataFrame:
        _, _, length, _ = _parsed(name)
        return self.pool.segment(name, length, lambda: self._load(name))

    def read_once(self, name: str) -> pl.DataFrame:
        kept = self.pool.kept(name)
        return self._load(name) if kept is None else kept

    def _load(self, name: str) -> pl.DataFrame:
        return unpacked(_table(self._checked_segment(name)))

    def _checked_segment(self, name: str) -> pa.Buffer:
        segment = self._content(name)
        file, place, _, expected = _parsed(name)
        if checksum(memoryview(segment)) != expected:
            path = self.segments / file
            raise damaged(path, f"the checksum of the segment at byte {place} does not agree with what it holds")
        return segment

    def verify(self, name: str) -> None:
        """Raise where there is not what a name says."""
        if "@" in name:
            self._checked_segment(name)
        else:
            self._checked(name)

    def _content(self, name: str) -> pa.Buffer:
        file, place, length, _ = _parsed(name)
        path = self.segments / file
        try:
            content = _read(path, place, length) if length <= _SHORT else _mapped(path)[place : place + length]
        except FileNotFoundError:
            raise damaged(path, "it is missing") from None
        if len(content) < length:
            raise damaged(path, f"the segment at byte {place} is not all there")
        return content

    def size(self, name: str) -> int:
        return _parsed(name)[2]

    def height(self, name: str) -> int:
        try:
            return int(_table(self._content(name)).num_rows)
        except pa.ArrowException as error:
            raise damaged(self._path(name), str(error)) from None

    def write_history(self, source: str, period: int, label: str, frame: pl.DataFrame, *, apart: bool = False) -> str:
        if self._tail is not None and not apart and frame.estimated_size() <= SMALL:
            return self._append_history(label, frame)
        content = io.BytesIO()
        frame.write_parquet(content, compression="lz4", statistics=True, row_group_size=1 << 17)
        return self.adopt_history(source, period, label, content.getbuffer())

    def _append_history(self, label: str, frame: pl.DataFrame) -> str:
        """As a segment: a file of its own would take longer to make than the epoch that it is for."""
        if self._task.writer is not None:
            name = self._task.writer.write_packed(frame)
        else:
            with self.file(label) as writer:
                name = writer.write_packed(frame)
        reach("history-written")
        return name

    def adopt_history(self, source: str, period: int, label: str, content: bytes | memoryview) -> str:
        # Names that users give do not start with _, so that no column of theirs is called like the directories.
        directory = self.history / quote(source, safe="") / f"{PERIOD}={period}"
        path = directory / f"{self._own(label)}.parquet"
        with disk_errors(path):
            directory.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                try:
                    file.write(content)
                    file.flush()
                    self._sync(file.fileno(), path)
                except BaseException:
                    path.unlink(missing_ok=True)
                    raise
        reach("history-written")
        return f"{path.relative_to(self.directory)}#{checksum(content)}"

    def read_history(self, name: str, wanted: pl.Expr | None = None) -> pl.DataFrame:
        if "@" in name:
            rows = self.read(name)
            return rows if wanted is None else rows.filter(wanted)
        kept, path = self.pool.kept(name), self._path(name)
        try:
            if kept is None and (wanted is None or path.stat().st_size <= SMALL):
                kept = pl.read_parquet(io.BytesIO(self._checked(name)))
                if kept.estimated_size() <= SMALL:  # queries that come read again what came last
                    self.pool.keep(name, 0, kept)
            if kept is not None:
                return kept if wanted is None else kept.filter(wanted)
            assert wanted is not None
            # Slices come back to a file many times, and take a part of it: it is read as a whole only once.
            if name not in _checked:
                self._checked(name)
                if len(_checked) >= _REMEMBERED:
                    _checked.clear()
                _checked.add(name)
            return pl.scan_parquet(path, hive_partitioning=False).filter(wanted).collect()
        except FileNotFoundError:
            raise damaged(path, "it is missing") from None

    def bounds(self, name: str, columns: Iterable[str]) -> Mapping[str, tuple[Any, Any] | None]:
        if name not in _bounds:
            if len(_bounds) >= _REMEMBERED:
                _bounds.clear()
            _bounds[name] = bounds_of_frame(self.read(name)) if "@" in name else bounds_of_file(self._path(name))
        return {column: _bounds[name].get(column) for column in columns}

    def _checked(self, name: str) -> bytes:
        path, expected = self._path(name), name.rpartition("#")[2]
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise damaged(path, "it is missing") from None
        if checksum(content) != expected:
            raise damaged(path, "its checksum does not agree with what it holds")
        return content

    def limit(self, budget: int | None) -> None:
        self.budget = budget
        self.pool.limit(budget)

    def sweep(self, before: Iterable[str], after: Iterable[str]) -> None:
        gone = set(before).difference(after)
        if gone:
            self.pool.forget(gone)
            self._remove(self._files_of(gone) - self._files_of(after))

    def check(self, names: Iterable[str]) -> None:
        """Refuse a directory in which something is missing: that of half a copy, say."""
        needed: dict[Path, int] = {}
        for name in names:
            path = self._path(name)
            needed[path] = max(needed.get(path, 0), self.end(name))
        sizes: dict[Path, int] = {}
        for path in self._files():
            with suppress(FileNotFoundError):  # removed by an owner that does not know yet that it is none any more
                sizes[path] = path.stat().st_size
        lacking = sorted(path for path, size in needed.items() if sizes.get(path, -1) < size)
        if lacking:
            reason = "is missing" if lacking[0] not in sizes else "is not all there"
            more = f", and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            raise damaged(self.directory, f"{lacking[0].relative_to(self.directory)} {reason}{more}")

    def end(self, name: str) -> int:
        """How long the file of a name is at least."""
        _, place, length, _ = _parsed(name) if "@" in name else ("", 0, 0, "")
        return place + length

    def paths(self, names: Iterable[str]) -> Iterator[Path]:
        """The files that names lie in."""
        return map(self._path, names)

    def remove_orphans(self, used: Iterable[str], *, own: bool) -> int:
        """Remove the files that no name of the newest manifest needs: what failed attempts of this owner have left, or
        what those before it have; gives how many. Files with other names than ours are left alone."""
        known = {self._path(name) for name in used}
        orphans = {path for path in self._files() if path not in known and self._is_of(path, own)}
        self._remove(orphans)
        return len(orphans)

    def _is_of(self, path: Path, own: bool) -> bool:
        found = _FILE.fullmatch(path.name)
        if found is None:
            return False
        fence = int(found[1] or 0)
        return fence == self.fence if own else fence < self.fence

    def _files(self) -> Iterator[Path]:
        yield from self.segments.glob("*.seg")
        for directory, _, names in os.walk(self.history):  # which passes over what is gone by the time it comes there
            yield from (Path(directory) / name for name in names if name.endswith(".parquet"))

    def _remove(self, paths: set[Path]) -> None:
        """Files, and the periods that have none any more. Whoever calls holds the engine's lock: nobody writes, but to
        the tail, which stays until another one is begun."""
        paths, self._unremoved = paths | self._unremoved, set()
        if self._tail is not None:
            paths.discard(self._tail.path)
        for path in paths:
            try:
                path.unlink(missing_ok=True)
            except OSError:
                self._unremoved.add(path)
                continue
            if self._tail is not None:
                self._tail.forget(path)
        for period in {path.parent for path in paths if path.parent.name.startswith(f"{PERIOD}=")}:
            with suppress(OSError):  # it is not empty, or gone already
                period.rmdir()
                self._lasting.discard(period)

    def _files_of(self, names: Iterable[str]) -> set[Path]:
        """The files that names lie in, of which segments share one."""
        given = [*names]
        segments = {name.partition("@")[0] for name in given if "@" in name}
        return {self.segments / file for file in segments} | {self._path(name) for name in given if "@" not in name}

    def _path(self, name: str) -> Path:
        file = _parsed(name)[0] if "@" in name else name.rpartition("#")[0]
        return (self.segments if "@" in name else self.directory) / file


class _TaskOfThread(threading.local):
    """What the task that a thread runs has to wait for when the block of its file ends."""

    syncing: list[tuple[Path, Future[None]]] | None = None
    writer: TailWriter | None = None  # where what is small goes too

    @contextmanager
    def joined(self, syncing: list[tuple[Path, Future[None]]] | None, writer: TailWriter | None) -> Iterator[None]:
        """The thread works for a task that another one runs."""
        before = self.syncing, self.writer
        self.syncing, self.writer = syncing, writer
        try:
            yield
        finally:
            self.syncing, self.writer = before


@cache
def _syncers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4, thread_name_prefix="millstream-sync")


def _begun(work: Callable[[_Argument], None], argument: _Argument) -> Future[None]:
    """Work that is done meanwhile; when the interpreter ends there is nobody left to do it, and it is done at once."""
    try:
        return _syncers().submit(work, argument)
    except RuntimeError:
        work(argument)
        done: Future[None] = Future()
        done.set_result(None)
        return done


def _sync_and_close(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _parsed(name: str) -> tuple[str, int, int, str]:
    file, _, rest = name.partition("@")
    span, _, expected = rest.partition("#")
    place, _, length = span.partition("+")
    return file, int(place), int(length), expected


def _read(path: Path, place: int, length: int) -> pa.Buffer:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return pa.py_buffer(os.pread(descriptor, length, place))
    finally:
        os.close(descriptor)


def _mapped(path: Path) -> pa.Buffer:
    return pa.memory_map(str(path)).read_buffer() if path.stat().st_size else pa.py_buffer(b"")


def _table(segment: pa.Buffer) -> pa.Table:
    return pa.ipc.open_file(pa.BufferReader(segment)).read_all()
