"""The file that an owner appends to: what is committed of it stays, whatever comes behind, fails, or is cut off."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

import polars as pl
import pytest

import millstream as ms
from millstream.state import tail
from millstream.state.store import DirectoryStore
from millstream.state.written import Written

FRAME = pl.DataFrame({"k": [1, 2, 3], "v": ["a", "b", None]})


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    made = DirectoryStore(tmp_path / "db")
    made.prepare(2)
    return made


def written(store: DirectoryStore, frame: pl.DataFrame = FRAME) -> str:
    with store.file("e1") as writer:
        return writer.write_packed(frame)


def file_of(name: str) -> str:
    return name.partition("@")[0]


def fresh(store: DirectoryStore) -> DirectoryStore:
    """As another process sees it."""
    other = DirectoryStore(store.directory)
    other.pool.clear()
    return other


def test_pieces_of_work_lie_in_one_file(store: DirectoryStore) -> None:
    names = [written(store, FRAME.head(rows)) for rows in (1, 2, 3)]
    past = store.write_history("s", 0, "e2", FRAME)
    assert len({*map(file_of, [*names, past])}) == 1
    assert [fresh(store).read(name).height for name in names] == [1, 2, 3]
    assert fresh(store).read_history(past).equals(FRAME)
    assert fresh(store).read_history(past, pl.col("k") > 1).height == 2
    assert store.bounds(past, ["k", "v"]) == {"k": (1, 3), "v": ("a", "b")}


def test_a_file_that_is_long_is_followed_by_another(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "_LONG", 2000)
    names = [written(store) for _ in range(20)]
    assert 1 < len({*map(file_of, names)}) < 20
    assert all(fresh(store).read(name).equals(FRAME) for name in names)


def test_large_batches_of_history_are_parquet_files(store: DirectoryStore) -> None:
    name = store.write_history("s", 0, "e1", pl.DataFrame({"k": range(20_000)}))
    assert name.partition("#")[0].endswith(".parquet")


def test_work_that_fails_takes_nothing_from_what_is_there(store: DirectoryStore) -> None:
    before = written(store)

    def failing() -> None:
        with store.file("e2") as writer:
            writer.write(FRAME)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        failing()
    assert store.segments.joinpath(file_of(before)).stat().st_size < 2 * store.size(before)
    after = written(store)
    for name in (before, after):
        assert fresh(store).read(name).equals(FRAME)
    store.check([before, after])


def test_whoever_comes_meanwhile_has_a_file_of_its_own(store: DirectoryStore) -> None:
    with store.file("e1") as writer:
        first = writer.write(FRAME)
        found: list[str] = []
        other = threading.Thread(target=lambda: found.append(written(store)))
        other.start()
        other.join()
        with store.file("queries") as inner:
            found.append(inner.write(FRAME))
    assert len({*map(file_of, [first, *found])}) == 3
    assert all(fresh(store).read(name).equals(FRAME) for name in [first, *found])


def test_it_is_on_disk_when_a_commit_asks_for_it_once(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(tail, "sync_data", synced.append)
    names = [written(store), store.write_history("s", 0, "e1", FRAME)]
    assert not synced
    store.syncing_names(names)()
    assert len(synced) == 1
    directories: list[Path] = []
    monkeypatch.setattr("millstream.state.store.sync_directory", directories.append)
    store.syncing_names([written(store)])()
    assert len(synced) == 2
    assert not directories  # its name lasts already
    store.syncing_names([])()
    assert len(synced) == 2


def test_what_could_not_be_synced_is_tried_again(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    name = written(store)

    def failing(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr(tail, "sync_data", failing)
        with pytest.raises(ms.StateError, match="No space left"):
            store.syncing_names([name])()
    synced: list[int] = []
    monkeypatch.setattr(tail, "sync_data", synced.append)
    store.syncing_names([])()
    assert len(synced) == 1


def test_it_is_not_removed_while_it_is_appended_to(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "_LONG", 2000)
    first = written(store)
    store.sweep([first], [])
    second = written(store)
    assert file_of(second) == file_of(first)
    assert fresh(store).read(second).equals(FRAME)
    while file_of(last := written(store)) == file_of(first):
        pass
    store.sweep([second], [last])
    assert not store.segments.joinpath(file_of(first)).exists()


def test_the_next_owner_begins_another_one(store: DirectoryStore) -> None:
    before = written(store)
    path = store.segments / file_of(before)
    path.write_bytes(path.read_bytes() + b"what was cut short")
    after = DirectoryStore(store.directory)
    after.prepare(3)
    assert file_of(written(after)) != file_of(before)
    assert after.read(before).equals(FRAME)
    after.check([before])
    assert after.remove_orphans([], own=False) == 1


def test_tasks_of_spark_append_to_nothing(store: DirectoryStore) -> None:
    task = pickle.loads(pickle.dumps(store))
    assert file_of(written(task)) != file_of(written(task))
    assert task.write_history("s", 0, "e1", FRAME).partition("#")[0].endswith(".parquet")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are told by /proc")
def test_a_store_that_is_closed_has_no_file_open(store: DirectoryStore) -> None:
    name = written(store)
    store.close()
    store.close()
    links = [file.resolve() for file in Path("/proc/self/fd").iterdir()]
    assert not [path for path in links if path.parent == store.segments.resolve()]
    assert store.read(name).equals(FRAME)


def test_what_was_of_use_only_for_a_while_takes_nothing_from_others(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "_LONG", 1)  # another file each time
    with Written(store) as work:
        with store.file("e1") as writer:
            work.add([writer.write(FRAME)])
            committed = writer.write(FRAME)
        after = written(store)
        assert file_of(after) != file_of(committed)
    store.syncing_names([committed, after])()
    assert fresh(store).read(committed).equals(FRAME)


def test_files_that_are_swept_need_not_be_synced(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "_LONG", 1)
    old, kept = written(store), written(store)
    store.sweep([old], [kept])
    store.syncing_names([kept])()
    assert fresh(store).read(kept).equals(FRAME)
