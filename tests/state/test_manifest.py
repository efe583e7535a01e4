"""Manifests on a disk that fails, and of processes that are killed: what was committed last counts, or nothing is."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

import millstream as ms
from millstream.state import files
from millstream.state.manifest import Layout, Manifests
from millstream.state.snapshot import AsItCame, HistoryFile, SinkCursor, Snapshot, SourceProgress, SparkBatch

LAYOUT = Layout(1, "splitmix64")
FULL = Snapshot(
    epoch=3,
    clock=7,
    sources={"s": SourceProgress(heartbeat=7, batch=SparkBatch("q", 4), drift={"extra x": 2}), "t": SourceProgress()},
    history={"s": (HistoryFile("h1", 2, 0, 5), HistoryFile("h2", 1, 6, 6, AsItCame(2, "ts", None), 80)), "t": ()},
    states={"join": {"0/left": ("a", "b"), "0/right": ()}},
    results={"join": ("r1",)},
    failures={"filter": {"primary": "no"}},
    sinks={"out": SinkCursor(until=5, deliveries=2)},
    backfills=("late",),
    catalog=({"kind": "stream", "name": "s"},),
)
# Takes the database over and commits twice; a fault that is set stops it on the way.
COMMITTER = """
import sys
from pathlib import Path
from millstream.state.manifest import Layout, Manifests
owner = Manifests(Path(sys.argv[1]), Layout(1, "splitmix64"))
found = owner.take_over(lambda snapshot: None)
for number in range(2):
    found = found.with_next_epoch().with_catalog(({"number": number},))
    owner.commit(found, lambda: None)
"""


def opened(directory: Path) -> tuple[Manifests, Snapshot]:
    owner = Manifests(directory, LAYOUT)
    return owner, owner.take_over(lambda snapshot: None)


def committed(directory: Path, snapshot: Snapshot = FULL) -> Manifests:
    owner, _ = opened(directory)
    owner.commit(snapshot, lambda: None)
    return owner


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit is a manifest, however little it changes."""
    monkeypatch.setattr(Manifests, "_may_be_a_change", lambda owner, snapshot: False)


def newest(directory: Path) -> Path:
    return max(directory.glob("manifest-*.json"))


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def full_disk(*_: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_is_committed_is_read_again(tmp_path: Path) -> None:
    committed(tmp_path / "manifest")
    assert opened(tmp_path / "manifest")[1] == FULL


def test_a_new_directory_has_an_empty_snapshot(tmp_path: Path) -> None:
    owner, snapshot = opened(tmp_path / "manifest")
    assert snapshot == Snapshot()
    assert owner.notes() == []


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a byte of the header": lambda content: b"M" + content[1:],
    "a byte in the middle": lambda content: content[:100] + bytes([content[100] ^ 1]) + content[101:],
    "the last byte": lambda content: content[:-1] + b" ",
    "half of it": lambda content: content[: len(content) // 2],
    "more behind it": lambda content: content + b"\0" * 4096,
    "nothing": lambda content: b"",
}


@pytest.mark.parametrize("what", DAMAGES)
@pytest.mark.parametrize("file", ["manifest", "catalog"])
def test_what_is_damaged_is_refused_and_left_as_it_is(tmp_path: Path, file: str, what: str) -> None:
    committed(tmp_path / "manifest")
    path = max((tmp_path / "manifest").glob(f"{file}-*.json"))
    content = path.read_bytes()
    path.write_bytes(DAMAGES[what](content + (b" " * 100 if len(content) < 101 else b"")))
    before = contents(path.parent)
    with pytest.raises(ms.StateError, match="is damaged") as raised:
        opened(path.parent)
    assert path.name in raised.value.primary
    assert contents(path.parent) == before


def test_the_one_before_does_not_count_where_the_newest_is_damaged(tmp_path: Path) -> None:
    directory = tmp_path / "manifest"
    owner = committed(directory)
    older = newest(directory)
    kept = older.read_bytes()
    owner.commit(FULL.with_next_epoch(), lambda: None)
    older.write_bytes(kept)
    newest(directory).write_bytes(b"")
    with pytest.raises(ms.StateError, match="is damaged"):
        opened(directory)


def test_a_manifest_under_the_name_of_another_is_refused(tmp_path: Path) -> None:
    committed(tmp_path / "manifest")
    path = newest(tmp_path / "manifest")
    path.rename(path.with_name("manifest-0000000099.json"))
    with pytest.raises(ms.StateError, match="by what it holds"):
        opened(tmp_path / "manifest")


def test_a_missing_catalog_is_named(tmp_path: Path) -> None:
    committed(tmp_path / "manifest")
    for path in (tmp_path / "manifest").glob("catalog-*.json"):
        path.unlink()
    with pytest.raises(ms.StateError, match=r"catalog-\w+-\w+\.json is damaged: it is missing"):
        opened(tmp_path / "manifest")


def test_another_hash_of_rows_is_refused(tmp_path: Path) -> None:
    committed(tmp_path / "manifest")
    with pytest.raises(ms.StateError, match="places rows by splitmix64"):
        Manifests(tmp_path / "manifest", Layout(1, "other")).take_over(lambda snapshot: None)


def test_a_check_that_refuses_changes_nothing(tmp_path: Path) -> None:
    committed(tmp_path / "manifest")
    before = contents(tmp_path / "manifest")

    def refuse(snapshot: Snapshot) -> None:
        raise ms.StateError(f"epoch {snapshot.epoch} lacks files")

    with pytest.raises(ms.StateError, match="epoch 3 lacks files"):
        Manifests(tmp_path / "manifest", LAYOUT).take_over(refuse)
    assert contents(tmp_path / "manifest") == before


def test_leftovers_go_and_files_of_others_stay(tmp_path: Path) -> None:
    directory = tmp_path / "manifest"
    committed(directory)
    for name in ("manifest-0000000003-abcd.tmp", "catalog-0000000001-00000000.json", "mine.json"):
        (directory / name).write_text("x")
    opened(directory)
    kinds = sorted(path.name.partition("-")[0] for path in directory.iterdir())
    assert kinds == ["catalog", "manifest", "mine.json"]


def test_an_owner_that_was_overtaken_commits_nothing(tmp_path: Path) -> None:
    before = committed(tmp_path / "manifest")
    after, _ = opened(tmp_path / "manifest")
    with pytest.raises(ms.StateError, match="was taken over") as raised:
        before.commit(FULL.with_next_epoch(), lambda: None)
    assert f"process {os.getpid()}" in str(raised.value.detail)
    with pytest.raises(ms.StateError, match="was taken over"):
        before.check_current()
    after.check_current()
    after.commit(FULL.with_next_epoch(9), lambda: None)
    assert opened(tmp_path / "manifest")[1].clock == 9


@pytest.mark.usefixtures("whole")
def test_a_commit_with_which_the_next_owner_began_is_in_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner is overtaken between two steps: its manifest has a name, and the next owner takes it over at once."""
    before, link = committed(tmp_path / "manifest"), os.link
    after: list[Manifests] = []

    def overtaken(*args: Any, **kwargs: Any) -> None:
        monkeypatch.setattr(os, "link", link)
        link(*args, **kwargs)
        after.append(opened(tmp_path / "manifest")[0])

    monkeypatch.setattr(os, "link", overtaken)
    with pytest.raises(ms.StateError, match="was taken over"):
        before.commit(FULL.with_next_epoch(9), lambda: None)
    assert before.is_in_doubt  # so that nothing is removed
    after[0].check_current()
    assert opened(tmp_path / "manifest")[1].clock == 9


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("function", ["fsync", "link"])
def test_a_full_disk_leaves_the_last_commit_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    owner = committed(tmp_path / "manifest")
    with monkeypatch.context() as patched:
        patched.setattr(os, function, full_disk)
        with pytest.raises(ms.StateError, match="could not be written: No space left"):
            owner.commit(FULL.with_next_epoch(), lambda: None)
    assert not owner.is_in_doubt
    assert not [*(tmp_path / "manifest").glob("*.tmp")]
    found = owner.read()
    assert found is not None
    assert found.snapshot == FULL
    owner.commit(FULL.with_next_epoch(), lambda: None)
    assert opened(tmp_path / "manifest")[1].epoch == FULL.epoch + 1


@pytest.mark.usefixtures("whole")
def test_a_name_that_may_not_last_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest was linked, and the disk fails when the directory is synced."""
    owner = committed(tmp_path / "manifest")
    with monkeypatch.context() as patched:
        patched.setattr(files, "sync_directory", full_disk)
        with pytest.raises(ms.StateError, match="could not be written"):
            owner.commit(FULL.with_next_epoch(), lambda: None)  # the same catalog: only the manifest is written
    assert not owner.is_in_doubt
    assert opened(tmp_path / "manifest")[1] == FULL


def test_what_the_manifest_names_is_on_disk_before_it_counts(tmp_path: Path) -> None:
    owner = committed(tmp_path / "manifest")

    def unsettled() -> None:
        assert len([*(tmp_path / "manifest").glob("manifest-*.json")]) == 1
        raise ms.StateError("segments could not be written")

    with pytest.raises(ms.StateError, match="segments"):
        owner.commit(FULL.with_next_epoch(), unsettled)
    assert opened(tmp_path / "manifest")[1] == FULL


def test_a_file_system_without_hard_links_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: Any) -> NoReturn:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(ms.StateError, match="has no hard links"):
        opened(tmp_path / "manifest")


@pytest.mark.parametrize(
    ("point", "epoch"),
    [
        ("catalog-half-written:3", 1),
        ("catalog-renamed:3", 1),
        ("manifest-half-written:3", 1),
        ("manifest-written:3", 1),
        ("manifest-linked:3", 2),
        ("manifest-counts:3", 2),
    ],
)
def test_a_killed_process_leaves_one_commit_or_the_other(tmp_path: Path, point: str, epoch: int) -> None:
    directory = tmp_path / "manifest"
    environment = {**os.environ, "MILLSTREAM_FAULT": point}
    done = subprocess.run([sys.executable, "-c", COMMITTER, str(directory)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    _, snapshot = opened(directory)
    assert snapshot.epoch == epoch
    assert snapshot.catalog == ({"number": epoch - 1},)
    assert len([*directory.iterdir()]) == 2  # a manifest and its catalog


def test_the_owner_is_told_in_the_manifest(tmp_path: Path) -> None:
    committed(tmp_path / "manifest")
    _, _, body = newest(tmp_path / "manifest").read_bytes().partition(b"\n")
    assert json.loads(body)["owner"].startswith(f"process {os.getpid()} on ")
