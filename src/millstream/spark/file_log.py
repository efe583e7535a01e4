"""The files of a batch, as Spark's file source has noted them in its checkpoint before it hands the batch over.

Asking the batch itself would be a job, as long as a small epoch. Whatever looks unfamiliar here is no answer, and then
the batch is asked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_FORMAT = "v1"


def files_of_batch(checkpoint: Path, batch: int) -> list[str] | None:
    """The paths of a batch's files; None where the checkpoint does not say them as expected."""
    try:
        first = 0 if batch == 0 else _log_offset(checkpoint, batch - 1) + 1
        numbers = range(first, _log_offset(checkpoint, batch) + 1)
        entries = [entry for number in numbers for entry in _entries(checkpoint / "sources" / "0", number)]
        return [unquote(entry["path"]) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _log_offset(checkpoint: Path, batch: int) -> int:
    """How far into its log the source had come with a batch."""
    return int(json.loads(_lines(checkpoint / "offsets" / str(batch))[-1])["logOffset"])


def _entries(log: Path, number: int) -> list[dict[str, Any]]:
    """The entries of one addition to the log; now and then all so far are written together."""
    own_file = log / str(number)
    lines = _lines(own_file if own_file.exists() else log / f"{number}.compact")
    return [entry for entry in map(json.loads, lines) if entry["batchId"] == number]


def _lines(path: Path) -> list[str]:
    version, *lines = path.read_text(encoding="utf-8").splitlines()
    if version != _FORMAT:
        raise ValueError(f"{path} has format {version}")
    return lines
