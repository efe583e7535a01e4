"""The tests themselves: what they share lies in modules of its own, and their folders are the layers of the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.support.operators import operators

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "millstream"
KERNEL = SOURCE / "kernel"
# Folders of tests that belong to no layer, and what they are about instead.
ACROSS_LAYERS = {
    "attacks": "a served database in a process of its own, and whoever wants it to end",
    "bench": "the benchmarks",
    "docs": "README and docs: their code blocks, the reference, the site",
    "cql": "behaviour as scripts, for whatever can run them",
    "examples": "the examples",
    "formats": "directories of earlier versions",
    "nexmark": "the queries of NEXMark",
    "oracle": "the semantics as plain code, and its own tests",
    "page": "the page, in a browser",
    "paper": "the queries of the papers",
    "properties": "random plans against the oracle",
    "support": "what tests share, no tests",
    "tpch": "the queries of TPC-H, as they are specified",
    "text_oracle": "random texts against an oracle of their own",
}
FILES = sorted(TESTS.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """The modules that a file names in its imports, and what it takes from them, which may be modules too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_no_test_is_imported() -> None:
    """A test file can be moved, split or removed without a look at the others."""
    modules = {".".join(("tests", *file.relative_to(TESTS).with_suffix("").parts)) for file in FILES}
    tests = {name for name in modules if name.rpartition(".")[2].startswith("test_")}
    assert {str(path): sorted(imported(path) & tests) for path in FILES if imported(path) & tests} == {}


def test_what_is_shared_imports_no_other_folder_of_tests() -> None:
    for path in (TESTS / "support").glob("*.py"):
        ours = {name for name in imported(path) if name.startswith("tests.")}
        assert all(name.startswith("tests.support") for name in ours), path


def test_the_kernels_tests_lie_as_the_kernel_does() -> None:
    folders = {path.name for path in (TESTS / "kernel").iterdir() if path.is_dir() and [*path.glob("test_*.py")]}
    assert folders <= {path.name for path in KERNEL.iterdir() if path.is_dir()}
    assert not [*(TESTS / "kernel").glob("test_*.py")]


@pytest.mark.parametrize("module", sorted({operator.__module__ for operator in operators()}))
def test_every_module_of_operators_has_a_test_of_its_name(module: str) -> None:
    """It imports the module, and so has something to say of it."""
    *folders, name = module.split(".")[2:]
    test = TESTS.joinpath("kernel", *folders, f"test_{name}.py")
    assert test.exists(), f"{module} has operators, and no {test.relative_to(TESTS)}"
    missing = {one.__name__ for one in operators() if one.__module__ == module and one.__name__ not in test.read_text()}
    assert not missing, f"{test.relative_to(TESTS)} says nothing of {sorted(missing)}"


def test_every_layer_has_a_folder_of_tests() -> None:
    layers = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    folders = {path.name for path in TESTS.iterdir() if [*path.rglob("*.py")]}
    assert layers <= {path.name for path in TESTS.iterdir() if [*path.rglob("test_*.py")]}
    assert folders - layers == {*ACROSS_LAYERS}
