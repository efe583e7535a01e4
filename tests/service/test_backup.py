"""Backups of a database that is served."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.serving import served

import millstream as ms


def test_a_service_backs_its_database_up(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as local:
        local.execute("CREATE STREAM s (a INT) TIMESTAMP BY t")
        with served(local) as url, ms.connect(url) as remote:
            remote.insert("s", [(1, 1), (2, 2)])
            told: list[tuple[int, int]] = []
            made = remote.backup(tmp_path / "copy", progress=lambda done, of: told.append((done, of)))
            assert told[-1] == (made.bytes, made.bytes)
            with pytest.raises(ms.StateError, match="is not empty"):
                remote.backup(tmp_path / "copy")
            remote.insert("s", [(3, 3)])
    with ms.connect(tmp_path / "copy", engine="inprocess") as copy:
        assert copy.engine.sources.history("s").height == 2
