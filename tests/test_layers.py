"""The layers: each may import itself and those listed, and nothing else of Millstream."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "millstream"

BASE = {"bounds", "errors", "names", "settings", "types"}
LAYERS: dict[str, set[str]] = {
    "bounds": set(),
    "names": set(),
    "errors": set(),
    "types": set(),
    "settings": {"bounds", "errors"},
    "answers": BASE,
    "state": BASE,
    "drawing": BASE,
    "kernel": BASE,
    "plan": BASE | {"kernel"},
    "language": BASE | {"kernel", "plan"},
    "catalog": BASE | {"kernel", "plan", "language"},
    "engine": BASE | {"state", "kernel", "plan"},
    "ingest": BASE | {"state", "kernel", "plan", "language", "catalog", "engine"},
    "spark": BASE | {"state", "kernel", "plan", "engine", "ingest"},
    "query": BASE | {"drawing", "answers", "state", "kernel", "plan", "language", "engine"},
    "queries": BASE | {"drawing", "state", "kernel", "plan", "language", "catalog", "engine", "ingest", "query"},
    "connectors": BASE | {"state", "kernel", "plan", "catalog", "engine", "ingest", "query"},
    "system": BASE | {"state", "kernel", "plan", "catalog", "engine", "query", "connectors"},
    "statements": BASE
    | {"answers", "drawing", "kernel", "plan", "language", "catalog", "engine"}
    | {"ingest", "query", "queries", "connectors"}
    | {"inspection"},
    "database": BASE
    | {"kernel", "language", "catalog", "engine", "ingest", "query", "queries", "connectors", "statements", "system"}
    | {"drawing", "inspection"},
    "inspection": BASE
    | {"state", "kernel", "plan", "language", "catalog", "engine", "query", "queries", "connectors", "system"},
    "wire": BASE,
    "client": BASE | {"drawing", "answers", "language", "ingest", "queries", "wire"},
    "opening": BASE | {"kernel", "state", "catalog", "engine", "ingest", "spark", "database", "client"},
    "upkeep": BASE | {"state", "kernel", "catalog", "engine", "query", "database", "opening"},
    "__init__": BASE | {"opening", "upkeep", "database", "ingest", "query", "statements", "inspection"},
    "service": BASE | {"drawing", "plan", "language", "query", "inspection", "statements", "database", "wire"},
    "demo": {"__init__"},
    "shell": {"__init__", "answers", "errors", "drawing", "wire"},
    "__main__": {"cli"},
    "dbapi": {"__init__", "answers", "language", "client"},
    "cli": {"__init__", "answers", "demo", "service", "shell", "state"},
}

# Within the large layers: folders and single modules from the bottom up. Each may import those in the rows below it.
WITHIN: dict[str, tuple[set[str], ...]] = {
    "kernel": (
        {"columns", "hashing", "lists", "step_limits"},
        {"keys"},
        {"batch"},
        {"scalar"},
        {"distribution"},
        {"operator"},
        {"storage", "eddy", "stepping", "pending_errors"},
        {"windows", "aggregation"},
        {"sharing"},
        {"relational"},
        {"joins", "lazy", "ordering"},
        {"just_in_time"},
        {"multiway"},
        {"pipeline"},
        {"first_counted", "examples"},
    ),
    "plan": (
        {"nodes"},
        {"physical"},
        {
            "definitions",
            "tags",
            "analysis",
            "parameters",
            "own_columns",
            "own_windows",
            "parted",
            "structures",
            "cases",
        },
        {"fingerprint", "algebra", "cases", "cells", "explain", "verify", "explain_groups"},
        {"shapes"},
        {"cost", "grouping"},
        {"kept_columns", "just_in_time", "lifting"},
        {"comparison"},
        {"rules"},
        {"rewrite", "lowering"},
        {"graph", "replanned_core"},
        {"drawing"},
    ),
    "engine": (
        {"invocations", "limits", "life", "lock", "works"},
        {"answers", "extents", "needs", "past", "query_tables", "results"},
        {"background", "notifier", "epochs"},
        {"commits", "measures", "sharers"},
        {"sources"},
        {"plans", "shared_plan"},
        {"reports", "tasks"},
        {"groups"},
        {"history", "enforcement"},
        {"admitter"},
        {"reader", "moves"},
        {"materialization"},
        {"bookmarks", "answers_of_many"},
        {"retention"},
        {"background_merges"},
        {"merges", "live_plan"},
        {"engine"},
        {"backups"},
        {"facade"},
    ),
}

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FILES = sorted(SOURCE.rglob("*.py"))


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def unit_of(path: Path) -> str:
    """The layer, and within a large one the folder or module."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:2]) if parts[0] in WITHIN and parts[1:] != ("__init__",) else parts[0]


def imported_units(path: Path) -> set[str]:
    """What a file imports, for the type checker too: who is named there is known."""
    return {_unit_named(name) for name in _imported(path) if name.split(".")[0] == "millstream"}


def _modules(path: Path) -> set[str]:
    return {name.split(".")[0] for name in _imported(path)}


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _unit_named(name: str) -> str:
    """The unit of a module, or of the module that has this in it."""
    parts = name.split(".")[1:]
    while parts:
        path = SOURCE.joinpath(*parts)
        if path.with_suffix(".py").exists():
            return unit_of(path.with_suffix(".py"))
        if path.is_dir():
            return unit_of(path / "__init__.py")
        parts.pop()
    return "__init__"


def _may_import(unit: str, other: str) -> bool:
    layer, imported = unit.split(".")[0], other.split(".")[0]
    if layer != imported:
        return imported in LAYERS[layer]
    if unit == other or layer not in WITHIN:
        return True
    height = {name: row for row, names in enumerate(WITHIN[layer]) for name in names}
    return height[other.split(".")[1]] < height[unit.split(".")[1]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    assert layer_of(path) in LAYERS, f"{path} belongs to no layer"
    unit = unit_of(path)
    upward = {other for other in imported_units(path) if not _may_import(unit, other)}
    assert not upward, f"{unit} must not import {sorted(upward)}"


def test_only_spark_imports_pyspark() -> None:
    allowed = {"spark", "opening"}  # the latter names the type of a session, for the type checker
    for path in FILES:
        assert layer_of(path) in allowed or "pyspark" not in _modules(path), path


OUTSIDE = {"time", "os", "io", "pathlib", "socket", "subprocess", "tempfile", "shutil", "logging", "asyncio", "sys"}


def test_the_kernel_has_no_clock_and_no_files() -> None:
    for path in FILES:
        if layer_of(path) == "kernel":
            name = str(path.relative_to(SOURCE))
            assert not _modules(path) & OUTSIDE, f"{name} must not import {sorted(_modules(path) & OUTSIDE)}"


def test_nothing_grows_out_of_hand() -> None:
    """A file is read in one sitting, a class owns one thing, and the root shows the layers."""
    for path in FILES:
        text = path.read_text()
        assert text.count("\n") <= 600, f"{path} wants to be split by idea"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                public = [part.name for part in node.body if isinstance(part, FUNCTIONS) and part.name[0] != "_"]
                assert len(public) <= 30, f"{node.name} in {path} owns too much"
    for facade in ("engine/engine.py", "database.py"):
        assert (SOURCE / facade).read_text().count("\n") <= 300, facade
    assert len([path for path in SOURCE.glob("*.py") if path.name != "__init__.py"]) <= 8
