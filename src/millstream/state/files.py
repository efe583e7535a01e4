"""Files that are there whole or not at all, with checksums."""

from __future__ import annotations

import errno
import os
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from millstream.errors import StateError
from millstream.state.faults import reach

_MAGIC = "millstream"


def checksum(content: bytes | memoryview) -> str:
    return checksum_text(zlib.crc32(content))


def checksum_text(crc: int) -> str:
    return f"{crc:08x}"


def sync_data(descriptor: int) -> None:
    """Have what was written to a file on disk, without the times that nobody asks for."""
    (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(descriptor)


def sync_directory(directory: Path) -> None:
    """Make names that were added to the directory last as long as what they name."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, kind: str, version: int, body: bytes) -> None:
    """Write a file so that its name appears only once all of it is on disk."""
    temporary = _written(path, kind, version, body)
    try:
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)
    reach(f"{kind}-renamed")


def write_new(path: Path, kind: str, version: int, body: bytes, names_synced: Callable[[], None]) -> None:
    """The same under a name that must be free: FileExistsError says that somebody else has it. `names_synced` is called
    when everything is on disk but the name."""
    temporary = _written(path, kind, version, body)
    try:
        names_synced()
        _link(temporary, path)
        reach(f"{kind}-linked")
        try:
            sync_directory(path.parent)
        except OSError:
            path.unlink(missing_ok=True)  # it may not last: the one before it counts
            raise
    finally:
        temporary.unlink(missing_ok=True)


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        # A network file system may say so of its own work, when its first answer was lost on the way.
        if not temporary.samefile(path):
            raise
    except FileNotFoundError:
        raise FileExistsError from None  # another owner has tidied it away
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise StateError(
                f"the file system of {path.parent} has no hard links",
                detail="commits take their numbers by them, so that no two processes have the same one",
                hint="put the database on a POSIX file system",
            ) from error
        raise


def _written(path: Path, kind: str, version: int, body: bytes) -> Path:
    """A file beside the one that it is to become; its name is nobody else's."""
    header = f"{_MAGIC} {kind} {version} {checksum(body)} {len(body)}\n".encode()
    temporary = path.with_name(f"{path.stem}-{uuid.uuid4().hex[:8]}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(header)
            file.write(body[: len(body) // 2])
            reach(f"{kind}-half-written")
            file.write(body[len(body) // 2 :])
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    reach(f"{kind}-written")
    return temporary


def read_whole(path: Path, kind: str, versions: Sequence[int]) -> bytes:
    """The body of a file; one that is damaged, or of another format, is refused."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise damaged(path, "it is missing") from None
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror}", detail="nothing was changed or removed") from error
    header, _, body = content.partition(b"\n")
    words = header.decode("ascii", "replace").split(" ")
    if len(words) != 5 or words[0] != _MAGIC or words[1] != kind:
        raise damaged(path, f"its first line is not that of a {kind}")
    if words[2] not in map(str, versions):
        raise StateError(
            f"{path} has format {words[2]}, and this version of Millstream reads {' and '.join(map(str, versions))}",
            detail="nothing was changed",
            hint="open the database with the version of Millstream that wrote it, or a newer one",
        )
    if words[4] != str(len(body)) or checksum(body) != words[3]:
        raise damaged(path, "its checksum does not agree with what it holds")
    return body


def format_of(path: Path, kind: str) -> int | None:
    """The format that a file says it has; None where it says none."""
    try:
        with path.open("rb") as file:
            words = file.readline(100).decode("ascii", "replace").split(" ")
    except OSError:
        return None
    is_one = len(words) == 5 and words[:2] == [_MAGIC, kind] and words[2].isdecimal()
    return int(words[2]) if is_one else None


def damaged(path: Path, reason: str) -> StateError:
    return StateError(
        f"{path} is damaged: {reason}",
        detail="nothing was changed or removed",
        hint="restore the file, or the whole database directory, from a backup",
    )


_FULL = "make room on the disk, then insert again or reopen the database"
_HINTS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EMFILE: "the process has as many files open as it may: close connections, or raise its limit (ulimit -n)",
    errno.ENFILE: "the machine has as many files open as it may: close some, or raise fs.file-max",
    errno.EROFS: "the file system is read-only: have it mounted for writing, then insert again or reopen the database",
    errno.EACCES: "let this user write there, then insert again or reopen the database",
}


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(
            f"{path} could not be written: {error.strerror or error}",
            detail="the last committed state is intact",
            hint=_HINTS.get(error.errno or 0, "see to the disk, then insert again or reopen the database"),
        ) from error
