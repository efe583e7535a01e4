"""Segments and history on a disk that fails: damage is named, half a file is never left, and nothing of others goes."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import polars as pl
import pytest

import millstream as ms
from millstream.state.store import DirectoryStore, MemoryStore, Store

FRAME = pl.DataFrame({"k": [1, 2, None], "v": ["a", None, "ccc"]})


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    """As tasks have it: they append to no file of the owner's."""
    made = DirectoryStore(tmp_path)
    made.prepare(fence=2)
    task: DirectoryStore = pickle.loads(pickle.dumps(made))
    return task


def written(store: Store, *frames: pl.DataFrame) -> list[str]:
    with store.file("e1") as writer:
        return [writer.write(frame) for frame in frames]


def files(store: DirectoryStore) -> list[Path]:
    return sorted(path for path in store.directory.rglob("*") if path.is_file())


def fresh(store: DirectoryStore) -> DirectoryStore:
    """As another process sees it: nothing is mapped yet."""
    store.pool.limit(1)
    return store


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_frames_come_back_as_they_were(tmp_path: Path, kind: str) -> None:
    store: Any = MemoryStore() if kind == "memory" else DirectoryStore(tmp_path)
    if kind == "directory":
        store.prepare()
    empty, many = FRAME.clear(), pl.DataFrame({"n": range(5_000)})
    for frame, name in zip((FRAME, empty, many), written(store, FRAME, empty, many), strict=True):
        assert store.read(name).equals(frame)
        assert store.read_once(name).equals(frame)
        assert store.height(name) == frame.height
        assert store.size(name) >= 0
    with store.file("e2") as writer:
        packed = writer.write_packed(many)
    assert store.read(packed).equals(many)
    past = store.write_history("s", 7, "e1", FRAME)
    assert store.read_history(past).equals(FRAME)
    assert store.read_history(past, pl.col("k") > 1)["k"].to_list() == [2]
    assert store.bounds(past, ["k"]) == {"k": (1, 2)}
    lists = store.write_history("s", 8, "e2", pl.DataFrame({"k": [1], "xs": [[1, 2]]}))
    assert store.bounds(lists, ["k", "xs"]) == {"k": (1, 1), "xs": None}


def test_a_store_goes_to_other_processes(store: DirectoryStore) -> None:
    (name,) = written(store, FRAME)
    assert pickle.loads(pickle.dumps(store)).read(name).equals(FRAME)


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a bit": (lambda content: content[:80] + bytes([content[80] ^ 1]) + content[81:], "checksum"),
    "half of it": (lambda content: content[: len(content) // 2], "not all there|checksum"),
    "nothing": (lambda content: b"", "not all there|checksum"),
}


@pytest.mark.parametrize("what", DAMAGES)
@pytest.mark.parametrize("kind", ["segment", "history"])
def test_damage_is_named_when_it_is_read(store: DirectoryStore, kind: str, what: str) -> None:
    name = written(store, FRAME)[0] if kind == "segment" else store.write_history("s", 0, "e1", FRAME)
    damage, said = DAMAGES[what]
    (path,) = files(store)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ms.StateError, match=said) as raised:
        fresh(store).read(name) if kind == "segment" else fresh(store).read_history(name)
    assert path.name in raised.value.primary
    assert path.exists()


@pytest.mark.parametrize("kind", ["segment", "history"])
def test_a_missing_file_is_named(store: DirectoryStore, kind: str) -> None:
    name = written(store, FRAME)[0] if kind == "segment" else store.write_history("s", 0, "e1", FRAME)
    (path,) = files(store)
    path.unlink()
    with pytest.raises(ms.StateError, match="it is missing"):
        fresh(store).read(name) if kind == "segment" else fresh(store).read_history(name, pl.lit(True))


def test_half_a_directory_is_refused_as_a_whole(store: DirectoryStore) -> None:
    names = [*written(store, FRAME, FRAME), store.write_history("s", 0, "e1", FRAME)]
    store.check(names)
    (past,) = store.history.rglob("*.parquet")
    past.unlink()
    with pytest.raises(ms.StateError, match=r"e1-f2-\w+\.parquet is missing"):
        store.check(names)
    (segments,) = store.segments.iterdir()
    segments.write_bytes(segments.read_bytes()[:-100])
    with pytest.raises(ms.StateError, match="and 1 more"):
        store.check(names)


def test_work_that_fails_leaves_no_file(store: DirectoryStore) -> None:
    def fail() -> NoReturn:
        with store.file("e1") as writer:
            writer.write(FRAME)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert files(store) == []


@pytest.mark.parametrize("kind", ["segment", "history", "history of a task"])
def test_a_full_disk_is_told_and_leaves_no_file_of_a_task(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def full_disk(_: int) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    def work() -> None:
        if kind == "segment":
            written(store, FRAME)
        elif kind == "history":
            store.write_history("s", 0, "e1", FRAME)
        else:
            with store.file("e1"):
                store.write_history("s", 0, "e1", FRAME)

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(ms.StateError, match="could not be written: No space left"):
        work()
    monkeypatch.undo()
    # What a thread could not sync is nobody's: it goes when the owner looks for what failed attempts have left.
    store.remove_orphans((), own=True)
    assert files(store) == []
    work()
    assert len(files(store)) == 1


def test_a_file_goes_when_nobody_needs_any_of_its_segments(store: DirectoryStore) -> None:
    one, other = written(store, FRAME, FRAME)
    store.sweep([one, other], [other])
    assert store.read(other).equals(FRAME)
    store.sweep([other], [])
    assert files(store) == []


def test_periods_go_with_their_last_file(store: DirectoryStore) -> None:
    first, second = (store.write_history("s", 3, "e1", FRAME) for _ in range(2))
    store.sweep([first], [])
    assert [path.name for path in (store.history / "s").iterdir()] == ["_period=3"]
    store.sweep([second], [])
    assert [*(store.history / "s").iterdir()] == []


def test_what_cannot_be_removed_is_tried_again(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = written(store, FRAME)[0], written(store, FRAME)[0]

    def busy(*_: Any, **__: Any) -> NoReturn:
        raise OSError(errno.EBUSY, "Device or resource busy")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", busy)
        store.sweep([one], [])
    assert len(files(store)) == 2
    store.sweep([other], [])
    assert files(store) == []


def test_orphans_are_those_of_an_owner_and_never_of_a_later_one(store: DirectoryStore) -> None:
    used = written(store, FRAME)
    written(store, FRAME)  # by this owner, and never committed
    for fence in (1, 3):
        other = DirectoryStore(store.directory)
        other.prepare(fence)
        written(other, FRAME)
    store.prepare(fence=2)
    (store.segments / "mine.seg").write_text("of a user")
    assert store.remove_orphans(used, own=False) == 1
    assert store.remove_orphans(used, own=True) == 1
    names = [path.name for path in files(store)]
    assert [name.split("-")[1] for name in names if name != "mine.seg"] == ["f2", "f3"]
    assert "mine.seg" in names
    assert store.read(used[0]).equals(FRAME)


def test_sources_of_any_name_have_directories(store: DirectoryStore) -> None:
    for source in ("a/b", "%2F", "ä b"):
        name = store.write_history(source, 0, "e1", FRAME)
        assert store.read_history(name).equals(FRAME)
    assert all(store.history in path.parents for path in files(store))
