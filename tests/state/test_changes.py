"""Commits that change little: lines of a log, which count with the manifest that they follow."""

from __future__ import annotations

import errno
import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

import millstream as ms
from millstream.state import notes
from millstream.state.changes import change, changed
from millstream.state.manifest import Layout, Manifests
from millstream.state.snapshot import HistoryFile, QueryTable, SinkCursor, Snapshot, SourceProgress, SparkBatch

LAYOUT = Layout(1, "splitmix64")


def some(dice: random.Random, before: Snapshot) -> Snapshot:
    """A snapshot that differs from another one here and there."""

    def names(least: int = 0) -> tuple[str, ...]:
        return tuple(f"e{dice.randrange(9)}.seg@{dice.randrange(99)}+1#0" for _ in range(dice.randint(least, 3)))

    def files() -> tuple[HistoryFile, ...]:
        return tuple(HistoryFile(f"h{dice.randrange(99)}", 1, 0, dice.randrange(9)) for _ in range(dice.randint(1, 3)))

    def edited(found: Any, value: Any) -> Any:
        kept = {key: old for key, old in found.items() if dice.random() < 0.8}
        return {**kept, f"k{dice.randrange(4)}": value} if dice.random() < 0.8 else kept

    after = before.with_next_epoch(dice.randrange(100)).with_history({f"k{dice.randrange(4)}": files()})
    after = after.with_results({f"k{dice.randrange(4)}": names(1)})
    return replace(
        after,
        sources=edited(after.sources, SourceProgress(dice.randrange(9), batch=dice.choice((None, SparkBatch("q", 1))))),
        history=edited(after.history, files()) if dice.random() < 0.5 else after.history,
        states=edited(after.states, {"0/x": names()}),
        results=edited(after.results, names()) if dice.random() < 0.5 else after.results,
        failures=edited(after.failures, {"primary": "no"}),
        sinks=edited(after.sinks, SinkCursor(3, spans=(("p", 0, 1, 2),))),
        queries=edited(after.queries, dice.randrange(9)),
        query_tables=edited(after.query_tables, QueryTable(names(), names(), equal=names())),
        backfills=names(),
    )


@pytest.mark.parametrize("seed", range(60))
def test_a_change_makes_the_snapshot_that_it_was_made_of(seed: int) -> None:
    dice, snapshot = random.Random(seed), Snapshot()
    for _ in range(8):
        after = some(dice, snapshot)
        assert changed(snapshot, json.loads(json.dumps(change(snapshot, after)))) == after
        snapshot = after


def test_a_change_says_nothing_of_what_stayed_and_of_tuples_what_was_added() -> None:
    before = Snapshot(results={"a": ("1", "2"), "b": ("3",)}, states={"s": {"0/x": ("1",)}})
    said = change(before, before.with_next_epoch(4).with_results({"a": ("5",)}))
    assert said == {"epoch": 1, "clock": 4, "backfills": (), "results+": {"a": ("5",)}}


def opened(directory: Path) -> tuple[Manifests, Snapshot]:
    owner = Manifests(directory, LAYOUT)
    return owner, owner.take_over(lambda snapshot: None)


def manifests_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("manifest-*.json"))


@pytest.mark.parametrize("seed", range(5))
def test_commits_are_read_again_whoever_opens_the_database_when(tmp_path: Path, seed: int) -> None:
    dice, expected = random.Random(seed), Snapshot()
    owner, _ = opened(tmp_path)
    for number in range(30):
        expected = some(dice, expected)
        if dice.random() < 0.2:
            expected = expected.with_catalog(({"number": number},))
        owner.commit(expected, lambda: None)
        if dice.random() < 0.3:
            owner.close()
            owner, found = opened(tmp_path)
            assert found == expected


def test_little_changes_are_no_manifests_until_they_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.state.manifest._CHANGES", 2000)
    owner, snapshot = opened(tmp_path)
    seen = []
    for _ in range(60):
        snapshot = snapshot.with_next_epoch().with_results({"edge": ("name",)})
        owner.commit(snapshot, lambda: None)
        seen.append(manifests_in(tmp_path)[0])
    assert 1 < len({*seen}) < 20
    assert len(manifests_in(tmp_path)) == 1
    assert len([*tmp_path.glob("changes-*.log")]) == 1
    assert opened(tmp_path)[1] == snapshot


def test_a_line_that_was_cut_short_does_not_count(tmp_path: Path) -> None:
    owner, snapshot = opened(tmp_path)
    for _ in range(2):
        snapshot = snapshot.with_next_epoch()
        owner.commit(snapshot, lambda: None)
    (log,) = tmp_path.glob("changes-*.log")
    log.write_bytes(log.read_bytes()[:-3])
    assert opened(tmp_path)[1].epoch == 1


def test_a_line_that_is_damaged_is_told(tmp_path: Path) -> None:
    owner, snapshot = opened(tmp_path)
    owner.commit(snapshot.with_next_epoch(), lambda: None)
    (log,) = tmp_path.glob("changes-*.log")
    content = bytearray(log.read_bytes())
    content[20] ^= 1
    log.write_bytes(content)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ms.StateError, match="checksum of line"):
        opened(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_owner_that_was_overtaken_commits_no_line(tmp_path: Path) -> None:
    before, snapshot = opened(tmp_path)
    before.commit(snapshot.with_next_epoch(1), lambda: None)
    after, found = opened(tmp_path)
    assert found.clock == 1
    with pytest.raises(ms.StateError, match="was taken over"):
        before.commit(snapshot.with_next_epoch(2), lambda: None)
    after.commit(found.with_next_epoch(3), lambda: None)
    assert opened(tmp_path)[1].clock == 3


def test_a_line_of_an_owner_that_is_just_overtaken_is_in_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the line and the look whether somebody has come, somebody comes, and begins with it."""
    before, snapshot = opened(tmp_path)
    append, after = notes.Notes.append, list[Snapshot]()

    def overtaken(log: notes.Notes, record: notes.Record) -> None:
        append(log, record)
        monkeypatch.setattr(notes.Notes, "append", append)
        after.append(opened(tmp_path)[1])

    monkeypatch.setattr(notes.Notes, "append", overtaken)
    with pytest.raises(ms.StateError, match="was taken over"):
        before.commit(snapshot.with_next_epoch(9), lambda: None)
    assert before.is_in_doubt  # so that nothing is removed
    assert [found.clock for found in after] == [9]
    assert opened(tmp_path)[1].clock == 9


def test_a_full_disk_leaves_the_last_line_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, snapshot = opened(tmp_path)
    owner.commit(snapshot.with_next_epoch(1), lambda: None)

    def full_disk(*_: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(notes, "sync_data", full_disk)
        with pytest.raises(ms.StateError, match="could not be written: No space left"):
            owner.commit(snapshot.with_next_epoch(2), lambda: None)
    assert not owner.is_in_doubt
    owner.commit(snapshot.with_next_epoch(3), lambda: None)
    assert opened(tmp_path)[1].clock == 3


def test_what_a_line_names_is_on_disk_before_it_counts(tmp_path: Path) -> None:
    owner, snapshot = opened(tmp_path)
    owner.commit(snapshot.with_next_epoch(1), lambda: None)

    def unsettled() -> None:
        raise ms.StateError("segments could not be written")

    with pytest.raises(ms.StateError, match="segments"):
        owner.commit(snapshot.with_next_epoch(2), unsettled)
    assert not owner.is_in_doubt
    assert opened(tmp_path)[1].clock == 1
