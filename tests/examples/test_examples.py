"""Every example runs in process, and prints what its first lines promise."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NOTEBOOK = EXAMPLES / "notebook.ipynb"
PRINTED = {
    "payments": r"3,000 rules, one plan.*\+ customer 471: more than 6 payments.*above their customer's own limit",
    "sensors": r"room 0\.7.*400 questions, \d+ alarms.*'room': 7.*200 questions.*1 late.*the kitchen",
    "flows": r"only_link1 \(relation\): \d+ rows.*http +\d+ flows.*Join anti.* STR",
    "linear_road": r"7:00 \d+ slow segments, the slowest: 37 .*with a toll; the highest:\n  \d:\d\d car \d+ pays",
}


def test_every_example_is_run_and_named() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PRINTED.keys()
    named = (EXAMPLES / "README.md").read_text()
    assert all(path.name in named for path in EXAMPLES.iterdir() if path.is_file() and path.name != "README.md")


@pytest.mark.parametrize("name", PRINTED)
def test_it_prints_what_it_is_about(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]("inprocess")
    assert re.search(PRINTED[name], capsys.readouterr().out, re.DOTALL)


def test_the_notebook_runs_cell_by_cell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert not any(cell.get("outputs") for cell in cells), "outputs are not kept in the repository"
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert "falls below 95" in capsys.readouterr().out
