"""What the site generates is complete: functions, settings, the Python and the HTTP API."""

from __future__ import annotations

import inspect
import re

import pytest
from website.command_line import command_page, commands
from website.functions import functions_page
from website.http_api import document, http_page
from website.intervals import DRAWINGS, FOLDER
from website.python_api import PUBLIC, python_page
from website.settings import settings_page

import millstream as ms
from millstream.kernel.aggregation.aggregate_calls import ALIASES
from millstream.kernel.scalar.functions import canonical_names
from millstream.language import function_reference as reference
from millstream.language.aggregates import AGGREGATES
from millstream.language.over import WINDOW_FUNCTIONS
from millstream.settings import Settings, described


def test_every_function_is_described_once() -> None:
    described = [name for subject in reference.SCALARS.values() for name in subject]
    assert sorted(described) == sorted({*canonical_names().values()})
    assert {*reference.AGGREGATES} == AGGREGATES - {*ALIASES}
    assert {*reference.WITH_OVER} == WINDOW_FUNCTIONS


def test_descriptions_are_short_lines() -> None:
    subjects = [*reference.SCALARS.values(), reference.AGGREGATES, reference.WITH_OVER]
    for about, example in (entry for subject in subjects for entry in subject.values()):
        assert about
        assert not about.endswith(".")
        assert "\n" not in about + example


def test_the_page_of_functions_has_every_name() -> None:
    page = functions_page()
    named = set(re.findall(r"<code>([a-z_0-9]+)", page))
    assert {name for name in canonical_names() if name.isidentifier()} <= named
    assert named >= AGGREGATES | WINDOW_FUNCTIONS
    assert "| <code>7 div 2</code> | <code>3</code> |" in page


def test_the_page_of_settings_has_every_setting() -> None:
    page = settings_page()
    for setting in described(Settings()):
        assert f"| `{setting['name']}` | {setting['description']} |" in page
        assert setting["description"]


def test_the_page_of_the_python_api_has_what_is_public() -> None:
    page = python_page()
    for owner, names in PUBLIC.items():
        assert inspect.getdoc(owner)
        for name in names:
            assert f"### {owner.__name__}.{name}\n" in page
            assert inspect.getdoc(inspect.getattr_static(owner, name)), f"{owner.__name__}.{name} wants a docstring"
    assert {name for name in ms.__all__ if name.endswith("Error")} <= {*re.findall(r"`ms\.(\w+)`", page)}


def test_methods_of_a_database_are_public_or_known_not_to_be() -> None:
    members = {name: getattr(ms.Database, name) for name in dir(ms.Database) if not name.startswith("_")}
    methods = {name for name, member in members.items() if callable(member)}
    assert methods - {*PUBLIC[ms.Database]} == {
        "check_open",
        "compute_apart",
        "drop_query",
    }  # of others: the last is q.drop()


def test_the_page_of_the_command_line_has_every_command() -> None:
    page = command_page()
    assert {"run", "serve", "shell", "demo", "explain", "backup", "bench"} <= {words[0] for words in commands()}
    for words in commands():
        assert f"## millstream {' '.join(words)}\n\n```output\nUsage: millstream {' '.join(words)}" in page


def test_the_page_of_the_http_api_has_every_path() -> None:
    page = http_page()
    for path, methods in document()["paths"].items():
        for verb in methods:
            assert f"### {verb.upper()} {path}\n" in page


@pytest.mark.parametrize("name", DRAWINGS)
def test_pictures_of_intervals_are_as_queries_answer(name: str) -> None:
    """`make drawings` was run after the last change."""
    assert (FOLDER / name).read_text() == DRAWINGS[name]()
