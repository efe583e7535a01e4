"""Notes between commits: a line counts once it is whole on disk, and a damaged one is never passed over."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, NoReturn

import pytest

import millstream as ms
from millstream.state import notes
from millstream.state.notes import OF_OLD, Notes


def values(noted: Notes) -> list[Any]:
    return [record["n"] for record in noted.read()]


def test_notes_are_read_by_whoever_comes_next(tmp_path: Path) -> None:
    noted = Notes(tmp_path, 3)
    assert noted.read() == []
    for number in range(3):
        noted.append({"n": number})
    assert values(Notes(tmp_path, 3)) == [0, 1, 2]
    assert values(Notes(tmp_path, 4)) == []


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_line_that_was_cut_short_was_never_noted(tmp_path: Path, cut: int) -> None:
    noted = Notes(tmp_path, 1)
    noted.append({"n": 0})
    whole = noted.path.stat().st_size
    noted.append({"n": 1})
    content = noted.path.read_bytes()
    noted.path.write_bytes(content[: max(whole, len(content) - cut)])
    assert values(Notes(tmp_path, 1)) == [0]


@pytest.mark.parametrize("place", [0, 10, 20])
def test_a_damaged_line_is_refused(tmp_path: Path, place: int) -> None:
    noted = Notes(tmp_path, 1)
    noted.append({"n": 0})
    noted.append({"n": 1})
    content = bytearray(noted.path.read_bytes())
    content[place] ^= 1
    noted.path.write_bytes(bytes(content))
    with pytest.raises(ms.StateError, match=r"notes-0000000001\.log is damaged"):
        noted.read()


def test_what_a_full_disk_leaves_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = Notes(tmp_path, 1)
    noted.append({"n": 0})

    def full_disk(_: int) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(notes, "sync_data", full_disk)
        with pytest.raises(OSError, match="No space left"):
            noted.append({"n": "lost, and longer than the next one"})
    assert values(Notes(tmp_path, 1)) == [0]
    noted.append({"n": 1})
    assert values(Notes(tmp_path, 1)) == [0, 1]


def test_notes_of_earlier_versions_say_which_commit_they_follow(tmp_path: Path) -> None:
    for version in (1, 2):
        Notes(tmp_path, version).append({"n": version})
    lines = b"".join(Notes(tmp_path, version).path.read_bytes() for version in (1, 2))
    for version in (1, 2):
        Notes(tmp_path, version).path.unlink()
    (tmp_path / OF_OLD).write_bytes(lines)
    assert values(Notes(tmp_path, 2)) == [2]
