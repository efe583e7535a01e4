"""Files belong to the work that has written them until a commit names them: what is left over is removed."""

from __future__ import annotations

import polars as pl
import pytest

from millstream.engine.commits import Commits
from millstream.engine.life import Life
from millstream.engine.notifier import Notifier
from millstream.kernel.distribution import HASH
from millstream.state.manifest import Layout, NoJournal
from millstream.state.snapshot import Snapshot
from millstream.state.store import MemoryStore
from millstream.state.written import Written


def commits_of(store: MemoryStore) -> Commits:
    life = Life()
    return Commits(NoJournal(Layout(1, HASH)), store, life, Notifier(life), Snapshot())


def written_to(store: MemoryStore) -> str:
    with store.file("test") as writer:
        return writer.write(pl.DataFrame({"c0": [1]}))


def names(store: MemoryStore) -> set[str]:
    return set(store._frames)


def test_work_that_commits_keeps_what_the_snapshot_names() -> None:
    store = MemoryStore()
    commits = commits_of(store)
    with commits.writing() as written:
        kept, left = written_to(store), written_to(store)
        written.add([kept, left])
        commits.commit(commits.snapshot.with_results({"q": (kept,)}))
    assert names(store) == {kept}


def test_work_that_fails_leaves_nothing() -> None:
    store = MemoryStore()
    commits = commits_of(store)

    def work() -> None:
        with commits.writing() as written:
            written.add([written_to(store)])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert not names(store)


def test_a_commit_removes_what_only_the_one_before_it_named() -> None:
    store = MemoryStore()
    commits, first, second = commits_of(store), written_to(store), written_to(store)
    commits.commit(Snapshot().with_results({"q": (first,)}))
    commits.commit(Snapshot().with_results({"q": (second,)}))
    assert names(store) == {second}


def test_what_is_pinned_outlives_commits() -> None:
    store = MemoryStore()
    commits, name, reader = commits_of(store), written_to(store), object()
    commits.commit(Snapshot().with_results({"q": (name,)}))
    commits.pin(reader, [name])
    commits.commit(Snapshot())
    assert names(store) == {name}
    commits.unpin(reader)
    assert not names(store)


def test_files_of_use_only_while_work_lasts_go_with_it() -> None:
    store = MemoryStore()
    with Written(store) as written:
        first, second = written_to(store), written_to(store)
        written.add([first, second])
        written.keep_only([second])
        assert names(store) == {second}
    assert not names(store)


def test_whoever_listens_is_told_of_commits_until_they_end_it() -> None:
    commits, told = commits_of(MemoryStore()), list[int]()
    end = commits.notifier.listen(lambda: told.append(commits.snapshot.epoch))
    commits.commit(Snapshot(epoch=1))
    commits.note(Snapshot(epoch=2))
    end()
    commits.commit(Snapshot(epoch=3))
    assert told == [1, 2]
