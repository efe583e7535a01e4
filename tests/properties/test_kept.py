"""What random cases once found, cut down to the smallest example and with its right answer.

A file that starts with `-- open: ...` shows a fault of the engine that is not mended yet; see FOUND.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cql.runner import load, run
from tests.cql.subjects import EngineSubject, OracleSubject

FILES = sorted((Path(__file__).parent / "kept").glob("*.cql"))
_OPEN = "-- open:"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_kept_answer_is_the_definition(path: Path) -> None:
    with OracleSubject() as opened:
        run(load(path), opened)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_engine_gives_the_kept_answer(path: Path, request: pytest.FixtureRequest) -> None:
    first = path.read_text().splitlines()[0]
    if first.startswith(_OPEN):
        request.applymarker(pytest.mark.xfail(strict=True, reason=first.removeprefix(_OPEN).strip()))
    with EngineSubject() as opened:
        run(load(path), opened)
