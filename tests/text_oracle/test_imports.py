"""The evaluator is independent: nothing of Millstream is imported but its public interface, and that in the driver."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
MAY_LOOK_INSIDE = {"test_completeness.py"}
FILES = sorted(path for path in FOLDER.glob("*.py") if path.name not in MAY_LOOK_INSIDE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_only_the_public_interface(path: Path) -> None:
    imported = set(_imported(path))
    ours = {name for name in imported if name.split(".")[0] == "millstream"}
    assert ours <= ({"millstream"} if path.name == "driver.py" else set())
    tests = {name for name in imported if name.startswith("tests.") and not name.startswith("tests.text_oracle")}
    assert tests <= {"tests.properties.dice"}


def _imported(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found
