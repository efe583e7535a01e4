"""The layers: each may import itself and those listed, and nothing else of Millstream."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "millstream"

BASE = {"bounds", "errors", "names", "settings", "types", "utf8"}
LAYERS: dict[str, set[str]] = {
    "bounds": set(),
    "names": set(),
    "errors": set(),
    "types": set(),
    "settings": {"bounds", "errors"},
    "utf8": set(),
    "state": BASE,
    "kernel": BASE,
    "plan": BASE | {"kernel"},
    "language": BASE | {"kernel", "plan"},
    "engine": BASE | {"state", "kernel", "plan"},
    "spark": BASE | {"state", "kernel", "plan", "engine"},
    "catalog": BASE | {"plan", "language"},
    "query": BASE | {"state", "kernel", "plan", "language", "engine"},
    "inputs": BASE | {"state", "kernel", "plan", "language", "engine", "catalog"},
    "declarations": BASE | {"plan"},
    "feeds": BASE | {"state", "kernel", "plan", "engine", "catalog", "inputs"},
    "definitions": BASE | {"plan", "language", "engine", "catalog", "inputs", "feeds"},
    "user_code": BASE | {"kernel", "language"},
    "modes": BASE | {"kernel", "plan", "engine", "declarations"},
    "parameters": BASE | {"engine", "kernel"},
    "notices": BASE | {"kernel", "plan", "language", "engine", "declarations"},
    "unkept": BASE | {"kernel", "plan", "language", "engine", "declarations", "modes", "notices", "query"},
    "unopened": BASE | {"state", "plan", "language", "engine", "declarations", "query"},
    "registry": BASE
    | {"state", "kernel", "plan", "language", "engine", "catalog", "declarations"}
    | {"modes", "parameters", "query", "notices", "unkept", "unopened"},
    "reopening": BASE | {"state", "declarations", "registry", "unopened"},
    "sinks": BASE | {"state", "engine", "query"},
    "pump": BASE | {"engine", "inputs", "feeds", "sinks"},
    "database": BASE
    | {"declarations", "kernel", "plan", "language", "engine", "catalog"}
    | {"inputs", "query", "feeds", "definitions", "user_code", "sinks", "pump", "registry", "reopening", "notices"},
    "wire": BASE,
    "remote": BASE | {"language", "engine", "inputs", "parameters", "wire"},
    "connect": BASE | {"kernel", "state", "engine", "spark", "database", "declarations", "remote"},
    "__init__": BASE | {"connect", "database", "inputs", "query"},
    "service": BASE | {"plan", "language", "query", "database", "wire"},
    "demo": {"__init__"},
    "shell": {"__init__", "wire"},
    "cli": {"__init__", "demo", "service", "shell"},
}
FILES = sorted(SOURCE.rglob("*.py"))


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_layers(path: Path) -> set[str]:
    found = set()
    for node in _runtime_imports(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "millstream":
                imports = (
                    [a.name for a in node.names] if isinstance(node, ast.ImportFrom) and len(parts) == 1 else parts[1:2]
                )
                found |= {
                    part if (SOURCE / part).exists() or (SOURCE / f"{part}.py").exists() else "__init__"
                    for part in imports or ["__init__"]
                }
    return found


def _runtime_imports(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """All imports but those for the type checker only."""
    found: list[ast.Import | ast.ImportFrom] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            found.extend(_runtime_imports(node))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    layer = layer_of(path)
    assert layer in LAYERS, f"{path} belongs to no layer"
    wrong = imported_layers(path) - LAYERS[layer] - {layer}
    assert not wrong, f"{layer} must not import {sorted(wrong)}"


def test_only_spark_imports_pyspark() -> None:
    for path in FILES:
        modules = {
            name.split(".")[0]
            for node in _runtime_imports(ast.parse(path.read_text()))
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        }
        assert layer_of(path) == "spark" or "pyspark" not in modules, path
