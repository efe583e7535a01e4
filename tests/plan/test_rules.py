"""Each rule by examples, in `rules/<rule>.txt`: a text, the plan that comes to the rule, and what the rule makes of it.

    the declarations of the file
    === what is shown
    --? statistics S rate 10 distinct 5000, 100
    SET join_plan = 'eddy';
    SELECT ...
    --- before
    the plan that all rules before this one have made
    --- after
    the plan by this rule, or the word: unchanged

Statistics, shards (`--? shards 2`) and settings are optional. `UPDATE_GOLDEN=1 pytest ...` writes the plans anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import millstream as ms
from millstream.language.statement_parser import parse_query
from millstream.plan import nodes as lo
from millstream.plan.cost import SourceStatistics
from millstream.plan.explain import explain
from millstream.plan.rewrite import RULES
from millstream.plan.rules.context import Context, JoinChoice, Rule

FOLDER = Path(__file__).parent / "rules"
BY_NAME = {rule.__name__: rule for rule in RULES}
STATISTICS = re.compile(r"--\? statistics (\w+)(?: rate ([\d.]+))?(?: size ([\d.]+))?(?: distinct ([\d., ]+))?")


@dataclass(frozen=True)
class Example:
    title: str
    text: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"=== {self.title}\n{self.text}\n--- before\n{self.before}\n--- after\n{self.after}\n"

    @property
    def statistics(self) -> dict[str, SourceStatistics]:
        found = {}
        for name, rate, size, distinct in STATISTICS.findall(self.text):
            values = tuple(float(value) for value in distinct.split(",") if value.strip())
            found[name.lower()] = SourceStatistics(float(rate or 1), float(size or 1000), values)
        return found

    @property
    def shards(self) -> int:
        found = re.search(r"--\? shards (\d+)", self.text)
        return int(found[1]) if found else 1


def read(path: Path) -> tuple[str, list[Example]]:
    """The declarations of a file, and its examples."""
    declarations, *parts = re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)
    return declarations, list(_examples(parts))


def _examples(parts: list[str]) -> Iterator[Example]:
    for part in parts:
        title, rest = part.split("\n", 1)
        text, before, after = (each.strip("\n") for each in re.split(r"^--- (?:before|after)$", rest, flags=re.M))
        yield Example(title, text, before, after)


def plans(rule: Rule, declarations: str, example: Example) -> tuple[lo.Node, lo.Node]:
    """The plan of an example as it comes to a rule, and as it leaves it."""
    *settings, query = example.text.split(";\n")
    with ms.connect(engine="inprocess") as db:
        db.execute(declarations)
        for setting in settings:
            db.execute(setting)
        plan = db.planner.bind(query, parse_query(query)).plan
        chosen = db.settings
    choice = JoinChoice(chosen.join_plan, chosen.jit, chosen.jit_detection)
    context = Context(example.statistics, choice, example.shards, chosen.stem_window)
    for earlier in RULES[: RULES.index(rule)]:
        plan = earlier(plan, context)
    return plan, rule(plan, context)


@pytest.mark.parametrize("name", BY_NAME)
def test_rule(name: str) -> None:
    path = FOLDER / f"{name}.txt"
    declarations, examples = read(path)
    found = []
    for example in examples:
        before, after = plans(BY_NAME[name], declarations, example)
        shown = explain(after) if explain(after) != explain(before) else "unchanged"
        found.append(Example(example.title, example.text, explain(before), shown))
    written = "\n".join([declarations.rstrip("\n") + "\n", *map(str, found)])
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(written)
    assert path.read_text() == written
    assert any(example.after != "unchanged" for example in found), "no example of what the rule does"


def test_every_example_is_of_a_rule() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(BY_NAME)
