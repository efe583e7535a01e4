"""Writers of segments: one after the other in a file, which is new, or the one that its owner appends to."""

from __future__ import annotations

import io
import os
import threading
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import polars as pl
import pyarrow as pa

from millstream.state.faults import reach
from millstream.state.files import checksum_text, disk_errors
from millstream.state.packing import packed
from millstream.state.tail import Tail

SMALL = 1 << 16  # bytes of a segment or file up to which to read it back costs more than to have it twice
_ALIGNMENT = 64


class Writer(Protocol):
    """Takes the segments of one task."""

    def write(self, frame: pl.DataFrame) -> str:
        """Keep a frame; gives its name, which is good once the file is closed."""
        ...

    def write_packed(self, frame: pl.DataFrame) -> str:
        """The same in fewer bytes: for what is read rarely, since it is not mapped as it is."""
        ...


class SegmentWriter:
    """Segments one after the other in one file, made when the first one comes. Threads of a task share it."""

    def __init__(self, path: Path, synced: bool) -> None:
        self._path, self._synced = path, synced
        self._file: BinaryIO | None = None
        self._place = 0
        self._writing = threading.Lock()
        self.small: dict[str, pl.DataFrame] = {}  # by name: the next epoch reads most of them

    def write(self, frame: pl.DataFrame) -> str:
        return self._write(frame, frame.to_arrow())

    def write_packed(self, frame: pl.DataFrame) -> str:
        return self._write(frame, packed(frame))

    def _open(self) -> BinaryIO:
        return self._path.open("wb")

    def _write(self, frame: pl.DataFrame, table: pa.Table) -> str:
        with self._writing, disk_errors(self._path):
            if self._file is None:
                self._file = self._open()
            content = _Content(self._file)
            is_small = table.nbytes <= SMALL
            if is_small:
                # Arrow writes many short pieces, which are put together first.
                buffer = pa.BufferOutputStream()
                _serialize(table, buffer)
                pieces = memoryview(buffer.getvalue())
                content.write(pieces[: len(pieces) // 2])
                content.write(pieces[len(pieces) // 2 :])
            else:
                _serialize(table, content)
            name = f"{self._path.name}@{self._place}+{content.length}#{content.checksum}"
            padding = -content.length % _ALIGNMENT
            self._file.write(bytes(padding))
            self._place += content.length + padding
        if is_small:
            self.small[name] = frame
        return name

    def close(self) -> None:
        if self._file is not None:
            with disk_errors(self._path):
                self._file.flush()
                if self._synced:
                    os.fsync(self._file.fileno())
                self._file.close()
            reach("segment-written")

    def discard(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # what could not be written cannot be written now either
                self._file.close()
            self._path.unlink(missing_ok=True)


class TailWriter(SegmentWriter):
    """Segments behind those that are there; a commit has them on disk."""

    def __init__(self, tail: Tail) -> None:
        super().__init__(Path(), synced=False)
        self._tail = tail

    def _open(self) -> BinaryIO:
        file, self._path, self._place = self._tail.open()
        return file

    def close(self) -> None:
        if self._file is not None:
            with disk_errors(self._path):
                self._tail.appended(self._place)
            reach("segment-written")

    def discard(self) -> None:
        if self._file is not None:
            self._tail.undo()


def _serialize(table: pa.Table, stream: Any) -> None:
    with pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table)


class _Content(io.RawIOBase):
    """What goes into a file, measured and summed up on the way: Arrow's buffers are not copied once more."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.length = self._sum = 0

    @property
    def checksum(self) -> str:
        return checksum_text(self._sum)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.length

    def write(self, content: Any) -> int:
        if self.length:
            reach("segment-half-written")
        self._file.write(content)
        self._sum = zlib.crc32(content, self._sum)
        self.length += len(content)
        return len(content)
