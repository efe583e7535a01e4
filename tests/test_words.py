"""One word means one thing: what docs/glossary.md says of names holds in the code."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "millstream"
FILES = sorted(SOURCE.rglob("*.py"))

# Words of no paper and no database, or of several meanings, and what they have become.
GIVEN_UP = {
    "told": "error_fields, on_progress, notices",
    "tell": "notify",
    "keeping": "materialization, kept_input",
    "unkept": "none_mode",
    "beside": "background, sibling, partition_columns",
    "alone": "own_plan, single",
    "another": "fork",
    "let_in": "admit",
    "let_go": "unpin, release",
    "letting_in": "admitting",
    "asking": "check",
    "asker": "consumer_input",
    "askers": "consumer_inputs",
    "foreseen": "look_ahead",
    "turns": "resuspension",
    "united": "merged_states",
    "uniting": "merging_with",
    "settle": "admit_waiting, combine_outcomes",
    "settled": "normalized, final_edges",
    "settling": "syncing_names",
    "pump": "source_loop",
}
# Names on disk and in statistics, and those of Python's files.
STAY = {
    ("beside", "state/pool.py"),
    ("tell", "state/writers.py"),
    ("tell", "spark/half_characters.py"),
}


NAMED_BY_OTHERS = ("service/documents.py", "service/inspection_documents.py", "dbapi/__init__.py")


def identifiers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name=name, asname=other):
                yield from (name.rpartition(".")[2], *([other] if other else []))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_words_that_were_given_up_do_not_come_back(path: Path) -> None:
    found = {name.lstrip("_").lower() for name in identifiers(ast.parse(path.read_text()))} & GIVEN_UP.keys()
    found -= {word for word, file in STAY if path == SOURCE / file}
    assert not {word: GIVEN_UP[word] for word in found}


def test_a_class_name_means_one_thing() -> None:
    """But that a node is lowered to the operator of its name, that HTTP has documents about what we have, and that
    PEP 249 names its own errors."""
    layers: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        own = str(path.relative_to(SOURCE))
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and own not in NAMED_BY_OTHERS:
                layers[node.name].append(own.split("/")[0])
    twice = {name: found for name, found in layers.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if sorted(found) != ["kernel", "plan"]} == {}
