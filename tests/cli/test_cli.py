"""The command line: answers, exit codes, and errors that point into the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import millstream as ms
from millstream.cli import app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "app.cql"


def test_run_shows_the_last_result_and_the_queries(file: Path) -> None:
    file.write_text(
        "CREATE STREAM S (a INT) TIMESTAMP BY ts; REGISTER QUERY big AS SELECT a FROM S WHERE a > 1;\n"
        "INSERT INTO S VALUES (1, 0), (2, 1); ADVANCE TO 5; SELECT a FROM S [RANGE 9];"
    )
    result = run("run", str(file), "--in-process")
    assert result.exit_code == 0, result.output
    assert "2 rows" in result.output
    assert "big (stream): 1 row\n" in result.output


def test_run_waits_for_the_past_of_late_queries(file: Path) -> None:
    rows = ", ".join(f"({n % 3}, {n})" for n in range(2_000))
    file.write_text(
        f"CREATE STREAM S (a INT) TIMESTAMP BY ts; INSERT INTO S VALUES {rows}; SET background_rows = 0;\n"
        "REGISTER QUERY late AS SELECT a, COUNT(*) AS n FROM S [RANGE 9] GROUP BY a; ADVANCE TO 2001;"
    )
    result = run("run", str(file), "--in-process")
    assert result.exit_code == 0, result.output
    assert "late (relation): 3 rows" in result.output


def test_an_unparsable_file_is_named_and_shown(file: Path) -> None:
    file.write_text("CREATE STREAM S (a INT) TIMESTAMP BY ts;\nSELECT a FORM S;\n")
    result = run("run", str(file), "--in-process")
    assert result.exit_code == 1
    assert "app.cql: unexpected" in " ".join(result.output.split())
    assert "line 2, column" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00bad"])
def test_an_unreadable_file(file: Path, content: bytes | None) -> None:
    if content is not None:
        file.write_bytes(content)
    result = run("run", str(file), "--in-process")
    assert result.exit_code == 1
    assert "cannot read" in result.output
    assert "Traceback" not in result.output


def test_explain(file: Path) -> None:
    file.write_text("CREATE STREAM S (a INT) TIMESTAMP BY ts;")
    result = run("explain", "SELECT a FROM S", "--schema", str(file))
    assert result.exit_code == 0
    assert "Stream S" in result.output
    assert "default: " in result.output
    drawn = run("explain", "SELECT a FROM S", "--schema", str(file), "--format", "svg")
    assert drawn.output.startswith("<svg ")
    assert run("explain", "SELECT 1", "--format", "gif").exit_code == 1
    wrong = run("explain", "SELECT a FROM Nowhere")
    assert wrong.exit_code == 1
    assert "Nowhere" in wrong.output


def test_the_version_and_the_module() -> None:
    told = CliRunner().invoke(app, ["--version"])
    assert told.output == f"millstream {ms.__version__}\n"
    done = subprocess.run([sys.executable, "-m", "millstream", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == told.output
