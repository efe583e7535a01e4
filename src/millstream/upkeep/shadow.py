"""Which queries a damaged file concerns.

A snapshot names steps and edges, and only their plans know whose these are. So a shadow of the directory is opened: its
manifest is a copy, its other files are links, and what is missing is zeros of the right length. What is written there,
or removed, is gone with it; nothing of the directory itself is touched.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from millstream.database import Database
from millstream.errors import Error
from millstream.opening import connect
from millstream.state.layout import MANIFESTS
from millstream.state.snapshot import Snapshot
from millstream.state.store import DirectoryStore
from millstream.state.verification import Verified


@dataclass(frozen=True)
class Concerned:
    """The queries by the steps and edges below them, and by the sources that they read; or why that is not known."""

    by_step: dict[str, tuple[str, ...]] = field(default_factory=dict)
    by_source: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: str = ""

    def queries_of(self, steps: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for step in sorted(steps) for name in self.by_step.get(step, ())))

    def readers_of(self, sources: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for source in sources for name in self.by_source.get(source, ())))


def concerned(found: Verified) -> Concerned:
    """Look at the plans of all queries."""
    with tempfile.TemporaryDirectory(prefix="millstream-check-", ignore_cleanup_errors=True) as scratch:
        shadow = Path(scratch) / "db"
        try:
            _lay(found, shadow)
            with connect(shadow, engine="inprocess") as database:
                return _looked_up(database)
        except (Error, OSError) as error:
            said = error.primary if isinstance(error, Error) else str(error)
            return _by_texts(found.snapshot, f"queries that cannot be named, since it cannot be opened: {said}")


def _lay(found: Verified, shadow: Path) -> None:
    assert found.snapshot is not None
    shutil.copytree(found.directory / MANIFESTS, shadow / MANIFESTS)
    store, needed = DirectoryStore(found.directory), dict[Path, int]()
    for name in found.snapshot.names():
        path = next(iter(store.paths([name])))
        needed[path] = max(needed.get(path, 0), store.end(name))
    for path, length in needed.items():
        link = shadow / path.relative_to(found.directory)
        link.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size >= length:
            link.symlink_to(path.absolute())
        else:
            with link.open("wb") as file:
                os.truncate(file.fileno(), length)


def _by_texts(snapshot: Snapshot | None, unknown: str) -> Concerned:
    """What can be known without plans: the edges that queries show, and the names that are in texts. Of queries that
    have their parameters apart, the text that they have in common stands for them."""
    entries = () if snapshot is None else snapshot.catalog
    texts = {entry["name"]: entry.get("text", "") for entry in entries if entry["kind"] in ("stream", "table", "view")}
    below = {name: {name} for name in texts}
    for name, text in texts.items():  # in the order in which they were declared: a view reads those before it
        below[name] |= {source for other in below if other != name and _says(text, other) for source in below[other]}
    by_step: dict[str, dict[str, None]] = {}
    by_source: dict[str, dict[str, None]] = {}
    for entry in entries:
        if entry["kind"] not in ("query", "template"):
            continue
        name = entry.get("shown", entry["name"]) if entry["kind"] == "query" else f"({entry['text']})"
        for step in {entry.get("edge"), entry.get("selection"), *entry.get("edges", ())} - {None}:
            by_step.setdefault(step, {})[name] = None
        for read in (other for other in below if _says(entry.get("text", ""), other)):
            for source in below[read]:
                by_source.setdefault(source, {})[name] = None
    return Concerned(_tuples(by_step), _tuples(by_source), unknown)


def _says(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def _tuples(found: dict[str, dict[str, None]]) -> dict[str, tuple[str, ...]]:
    return {key: tuple(names) for key, names in found.items()}


def _looked_up(database: Database) -> Concerned:
    by_step: dict[str, dict[str, None]] = {}
    by_source: dict[str, dict[str, None]] = {}
    pipeline, groups = database.engine.pipeline, database.engine.groups
    below: dict[tuple[str, ...], frozenset[str]] = {}
    for query in database.queries():
        edges = query.materialization.edges
        if edges not in below:
            steps = {*edges}
            with suppress(Error, KeyError):  # of one that waits to be admitted nothing runs yet
                steps |= pipeline.edges_below(*edges)
            steps |= {step.name for edge in edges if edge in groups for step in groups[edge].pipeline.steps}
            below[edges] = frozenset(steps)
        for step in below[edges]:
            by_step.setdefault(step, {})[query.name] = None
        with suppress(Error):  # it reads what has been dropped meanwhile
            for source in query.materialization.inputs:
                by_source.setdefault(source, {})[query.name] = None
    return Concerned(_tuples(by_step), _tuples(by_source))
