"""The README's example prints what the README says."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_example_prints_what_it_says() -> None:
    _, code, rest = README.read_text().split("```", 2)
    expected = rest.split("```")[1].strip()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.removeprefix("python").replace("ms.connect()", 'ms.connect(engine="inprocess")'), {})
    assert printed.getvalue().strip() == expected
