"""To import Millstream, or to ask its command for help, loads none of the large libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest

import millstream as ms

LARGE = ("pyspark", "polars", "pyarrow", "sqlglot", "fastapi", "rich", "numpy", "pandas", "httpx", "starlette")
TELL = f"print([name for name in {LARGE!r} if name in sys.modules])"


def loaded(code: str) -> str:
    program = f"import sys\n{code}\n{TELL}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "code",
    [
        "import millstream",
        "import millstream as ms; ms.Error; ms.__version__; dir(ms)",
        "from millstream.cli import app",
        "from millstream.cli import app\ntry:\n    app(['--version'])\nexcept SystemExit: pass",
        "from millstream.cli import app\ntry:\n    app(['--help'])\nexcept SystemExit: pass",
        "from millstream.cli import app\ntry:\n    app(['run', '--help'])\nexcept SystemExit: pass",
    ],
)
def test_nothing_large_is_loaded(code: str) -> None:
    assert loaded(code) == "[]"


def test_all_names_are_there_when_asked_for() -> None:
    assert all(getattr(ms, name) is not None for name in ms.__all__)
    assert {*ms.__all__} <= {*dir(ms)}
    with pytest.raises(AttributeError, match="has no attribute 'conect'"):
        ms.conect  # noqa: B018
