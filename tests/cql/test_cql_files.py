"""Every `.cql` file of this folder, against the oracle and against the engine.

What DuckDB lacks, or reads otherwise, stands in `by_hand`: the answers of these files were worked out by hand, and only
the engine is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.cql.runner import load, run
from tests.cql.subjects import EngineSubject, OracleSubject

FILES = sorted(Path(__file__).parent.rglob("*.cql"))
SUBJECTS: dict[str, Callable[[], OracleSubject | EngineSubject]] = {
    "oracle": OracleSubject,
    "upa": EngineSubject,
    "negative": partial(EngineSubject, "negative"),
    "shared": partial(EngineSubject, sharing="on"),
    "stems": partial(EngineSubject, join_plan="eddy"),
    "just in time": partial(EngineSubject, join_plan="tree", jit="on"),
    "lazy": partial(EngineSubject, mode="lazy"),
    "none": partial(EngineSubject, mode="none"),
}


def _cases() -> list[tuple[Path, str]]:
    return [(path, name) for path in FILES for name in SUBJECTS if name != "oracle" or path.parent.name != "by_hand"]


@pytest.mark.parametrize(("path", "subject"), _cases(), ids=lambda part: part if isinstance(part, str) else part.stem)
def test_cql_file(path: Path, subject: str) -> None:
    file = load(path)
    assert file.steps
    with SUBJECTS[subject]() as opened:
        run(file, opened)
