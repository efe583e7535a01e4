"""Files that are there whole or not at all, with checksums."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from millstream.errors import StateError
from millstream.state.faults import reach

_MAGIC = "millstream"


def checksum(content: bytes | memoryview) -> str:
    return checksum_text(zlib.crc32(content))


def checksum_text(crc: int) -> str:
    return f"{crc:08x}"


def sync_directory(directory: Path) -> None:
    """Make names that were added to the directory last as long as what they name."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, kind: str, version: int, body: bytes) -> None:
    """Write a file so that its name appears only once all of it is on disk."""
    header = f"{_MAGIC} {kind} {version} {checksum(body)} {len(body)}\n".encode()
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(header)
        file.write(body[: len(body) // 2])
        reach(f"{kind}-half-written")
        file.write(body[len(body) // 2 :])
        file.flush()
        os.fsync(file.fileno())
    reach(f"{kind}-written")
    temporary.replace(path)
    sync_directory(path.parent)
    reach(f"{kind}-renamed")


def read_whole(path: Path, kind: str, version: int) -> bytes:
    """The body of a file; one that is damaged, or of another format, is refused."""
    content = path.read_bytes()
    header, _, body = content.partition(b"\n")
    words = header.decode("ascii", "replace").split(" ")
    if len(words) != 5 or words[0] != _MAGIC or words[1] != kind:
        raise damaged(path, f"its first line is not that of a {kind}")
    if words[2] != str(version):
        raise StateError(
            f"{path} has format {words[2]}, and this version of Millstream reads format {version}",
            detail="nothing was changed",
            hint="open the database with the version of Millstream that wrote it, or a newer one",
        )
    if len(body) != int(words[4]) or checksum(body) != words[3]:
        raise damaged(path, "its checksum does not agree with what it holds")
    return body


def damaged(path: Path, reason: str) -> StateError:
    return StateError(
        f"{path} is damaged: {reason}",
        detail="nothing was changed or removed",
        hint="restore the file, or the whole database directory, from a backup",
    )
