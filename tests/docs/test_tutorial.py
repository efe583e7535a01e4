"""The tutorial's chapters are the examples: what they run is what the examples run."""

from __future__ import annotations

import re

import pytest
from tests.docs.blocks import ROOT, blocks

CHAPTERS = {
    "tutorial": "sensors.py",
    "tutorial_payments": "payments.py",
    "tutorial_flows": "flows.py",
    "tutorial_linear_road": "linear_road.py",
}


def _lines(text: str) -> str:
    """The lines without what indents them, and blank ones left out."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_is_its_example(chapter: str) -> None:
    page = (ROOT / "docs" / f"{chapter}.md").read_text()
    page = page.partition("## 5.")[2].partition("## 10.")[0] or page  # of the first one: it begins smaller
    example = _lines((ROOT / "examples" / CHAPTERS[chapter]).read_text())
    told = [block for block in blocks(page) if block.language == "python"]
    same = [block for block in told if _lines(block.text) in example]
    # What connects and imports is written out in a page, bit by bit.
    assert all(re.search(r"^(import|from) |ms\.connect\(\)", block.text, re.M) for block in told if block not in same)
    left_out = {line for line in example.partition("def main(")[2].splitlines()[1:] if line not in _lines(page)}
    assert not [
        line for line in left_out if not re.match(r"#|with ms\.connect|main\(|if __name__|db\.execute\(\(Path", line)
    ]


def test_the_text_of_linear_road_is_the_example() -> None:
    page = (ROOT / "docs" / "tutorial_linear_road.md").read_text()
    shown = next(block for block in blocks(page) if block.title == "linear_road.cql")
    assert shown.text == (ROOT / "examples" / "linear_road.cql").read_text()
