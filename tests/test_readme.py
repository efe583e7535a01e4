"""The README's examples print what the README says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
IN_PROCESS = re.compile(r'ms\.connect\((?:(".*?"))?\)')
# An example, and what it prints.
EXAMPLES = re.findall(r"```python\n(.*?)```\n\nprints\n\n```\n(.*?)```", README.read_text(), re.DOTALL)


def _in_process(call: re.Match[str]) -> str:
    return f'ms.connect({call[1] or "None"}, engine="inprocess")'


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize(("code", "expected"), EXAMPLES)
def test_the_example_prints_what_it_says(
    code: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "path" / "to").mkdir(parents=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("import millstream as ms\n" + IN_PROCESS.sub(_in_process, code), {})
    assert printed.getvalue().strip() == expected.strip()
