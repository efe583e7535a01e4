"""Backups of a database that runs: one snapshot's files are held until all of them were copied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from millstream.engine.engine import Engine
from millstream.errors import NotSupportedError
from millstream.state.backup import Backup as Backup
from millstream.state.backup import Copy, OnProgress
from millstream.state.manifest import Manifests
from millstream.state.snapshot import Snapshot
from millstream.state.store import DirectoryStore

PAUSED = "paused"  # in a sink's entry: why it waits for somebody to resume it
_RESTORED = (
    "restored from a backup: what was delivered since then would be delivered again; resume_sink goes on with it"
)


def backup(engine: Engine, target: Path, *, copy: bool, on_progress: OnProgress) -> Backup:
    """Epochs go on meanwhile, but for the moment in which Spark's checkpoints are copied."""
    journal, store = engine.journal, engine.store
    if not isinstance(journal, Manifests) or not isinstance(store, DirectoryStore):
        raise NotSupportedError(
            "a database that ends when it is closed cannot be backed up",
            hint="connect to a directory: ms.connect(path)",
        )
    made = Copy(store.directory, target, copy=copy)
    reader = object()
    try:
        with engine.lock:
            engine.commits.commit_pending()
            journal.check_current()
            snapshot = engine.snapshot
            engine.commits.pin(reader, snapshot.names())
            made.checkpoints()
        manifest = journal.current(_with_sinks_paused(snapshot))
        return made.finish(manifest, on_progress)
    except BaseException:
        made.discard()
        raise
    finally:
        engine.commits.unpin(reader)


def _with_sinks_paused(snapshot: Snapshot) -> Snapshot:
    """Sinks that write somewhere would overwrite what the database itself has delivered since."""
    entries = (_paused(entry) if entry["kind"] == "sink" and "format" in entry else entry for entry in snapshot.catalog)
    return snapshot.with_catalog(tuple(entries))


def _paused(entry: Any) -> dict[str, Any]:
    return {**entry, PAUSED: _RESTORED}
