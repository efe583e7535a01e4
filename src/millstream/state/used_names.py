"""The names that the committed snapshot needs, and what a commit changes of them.

A commit changes little of a large snapshot: what it did not touch is the same object as before, and not looked into.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from millstream.state.snapshot import QueryTable, RunProgress, Snapshot


@dataclass(frozen=True)
class NameChange:
    """From one snapshot to the next: how often each name is needed more or less often, and which names are new or not
    needed any more."""

    snapshot: Snapshot
    counts: Mapping[str, int]
    added: set[str]
    removed: set[str]


class UsedNames:
    """How often each name is needed, and which names lie in one file."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = Snapshot()
        self._counts: Counter[str] = Counter()
        self._in_file: dict[str, set[str]] = {}
        self.apply(self.change_to(snapshot))

    def __contains__(self, name: str) -> bool:
        return name in self._counts

    def __len__(self) -> int:
        return len(self._counts)

    def change_to(self, snapshot: Snapshot) -> NameChange:
        counts: Counter[str] = Counter()
        for before, after in zip(_parts(self._snapshot), _parts(snapshot), strict=True):
            if before is not after:
                _compare(before, after, counts)
        counts = Counter({name: count for name, count in counts.items() if count})
        added = {name for name, count in counts.items() if count > 0 and name not in self._counts}
        removed = {name for name, count in counts.items() if count < 0 and self._counts[name] + count == 0}
        return NameChange(snapshot, counts, added, removed)

    def apply(self, change: NameChange) -> None:
        self._snapshot = change.snapshot
        self._counts.update(change.counts)
        for name in change.added:
            self._in_file.setdefault(_file(name), set()).add(name)
        for name in change.removed:
            del self._counts[name]
            others = self._in_file[_file(name)]
            others.discard(name)
            if not others:
                del self._in_file[_file(name)]

    def in_files_of(self, names: Iterable[str]) -> set[str]:
        """What is needed of the files that names lie in."""
        return set().union(*(self._in_file.get(file, ()) for file in {_file(name) for name in names}))


def _parts(snapshot: Snapshot) -> tuple[Mapping[str, Any], ...]:
    return snapshot.history, snapshot.states, snapshot.results, snapshot.query_tables, snapshot.runs


def _compare(before: Mapping[str, Any], after: Mapping[str, Any], counts: Counter[str]) -> None:
    for key, value in after.items():
        old = before.get(key)
        if old is not value:
            counts.update(_names(value))
            counts.subtract(_names(old))
    for key in before.keys() - after.keys():
        counts.subtract(_names(before[key]))


def _names(found: Any) -> Iterator[str]:
    """Names as they are, of files of history, of query tables and runs, and by synopsis."""
    if isinstance(found, Mapping):
        for names in found.values():
            yield from names
    elif isinstance(found, QueryTable | RunProgress):
        yield from found.names()
    else:
        yield from (part if isinstance(part, str) else part.name for part in found or ())


def _file(name: str) -> str:
    """Segments lie in files together."""
    return name.partition("@")[0]
