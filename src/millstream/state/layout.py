"""What a database directory is made of, and which directories may become one.

Nothing is removed from a directory unless a manifest is there that does not name it. So one with history or segments
and without a manifest is left as it is, and so are directories that hold anything of somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from millstream.errors import StateError
from millstream.state.running import RUNNING, SUSPECTS

LOCK, MANIFESTS, SEGMENTS, HISTORY, CHECKPOINTS = "LOCK", "manifest", "segments", "history", "checkpoints"
_OF_OURS = (MANIFESTS, SEGMENTS, HISTORY, CHECKPOINTS)
# What may be there before there is a database: tokens of a service, and what a file system has at its root.
_ALLOWED = {LOCK, "audit.jsonl", RUNNING, SUSPECTS, "tokens.json", "tokens.lock", "tokens.new", "lost+found"}
# What a process leaves that was stopped while it made the first manifest.
_BEGUN = re.compile(r".*\.tmp|catalog-0000000001(-\w+)?\.json")


def check_can_be_new(directory: Path) -> None:
    """Refuse a directory without a manifest unless it is empty, or was only just begun."""
    found = {path.name for path in directory.iterdir()}
    if strangers := sorted(found - _ALLOWED - {*_OF_OURS}):
        shown = ", ".join(strangers[:3]) + (f" and {len(strangers) - 3} more" if len(strangers) > 3 else "")
        raise StateError(
            f"{directory} is not empty, and no database",
            detail=f"it has {shown}; nothing was changed or removed",
            hint="choose a new or an empty directory",
        )
    for name in _OF_OURS:
        kept = next(_kept_in(directory / name), None) if name in found else None
        if kept is not None:
            raise StateError(
                f"{directory} has no manifest, which would say what of it counts",
                detail=f"{kept} is there; nothing was changed or removed",
                hint=f"restore {directory / MANIFESTS}, or the whole directory, from a backup; or choose another one",
            )


def _kept_in(directory: Path) -> Iterator[Path]:
    if not directory.is_dir():
        yield directory
        return
    for path in directory.rglob("*"):
        if not path.is_dir() and not (directory.name == MANIFESTS and _BEGUN.fullmatch(path.name)):
            yield path


def has_manifest(directory: Path) -> bool:
    return any((directory / MANIFESTS).glob("manifest-*.json"))
