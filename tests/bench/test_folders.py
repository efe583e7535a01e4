"""The folders of the benchmarks: experiments know the harness, the harness knows workloads, and nothing points back."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from bench.harness.runner import BY_PAPER, SCRIPTS

BENCH = Path(__file__).parents[2] / "bench"
MAY_IMPORT = {"workloads": {"workloads"}, "harness": {"harness", "workloads"}, "experiments": {"harness", "workloads"}}
FILES = sorted(BENCH.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(BENCH)))
def test_imports_point_down(path: Path) -> None:
    imports = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom))
    parts = (str(node.module).split(".") for node in imports)
    folders = {names[1] for names in parts if names[0] == "bench" and len(names) > 1}
    assert folders <= MAY_IMPORT[path.relative_to(BENCH).parts[0]]


def test_every_experiment_stands_below_its_paper() -> None:
    found: dict[str, set[str]] = {}
    for path in BENCH.glob("experiments/*/*.py"):
        if path.stem not in {"__init__", *SCRIPTS}:
            found.setdefault(path.parent.name, set()).add(path.stem)
    assert found == {paper: set(names) for paper, names in BY_PAPER.items()}
