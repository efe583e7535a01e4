"""What commands log: lines for people, or of JSON for programs, and nothing to nobody."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.serving import LIMIT
from typer.testing import CliRunner

import millstream as ms
from millstream.cli import app
from millstream.service.logs import log_to

COMMAND = [sys.executable, "-c", "from millstream.cli import app; app()", "serve", "--in-process", "--port", "0"]


def logged(directory: Path, *options: str) -> list[str]:
    """What a service logs that is asked some things, and then told to stop."""
    with subprocess.Popen(
        [*COMMAND, str(directory), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+(?=,)", process.stdout.readline())
            assert found is not None
            with ms.connect(found[0]) as db:
                db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts")
                db.register("SELECT 1 / (k - 3) AS x FROM s", name="bad")
            connection = HTTPConnection(urlsplit(found[0]).netloc, timeout=LIMIT)
            headers = {"Content-Type": "application/json", "X-Request-ID": "the-insert"}
            connection.request("POST", "/v1/streams/s/rows", "[[3, 1], [3, 2]]", headers)
            assert connection.getresponse().read()
            connection.close()
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=LIMIT)
    return errors.splitlines()


def test_json_lines(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in logged(tmp_path / "db", "--log-format", "json", "--log-level", "debug")
    ]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    epoch = next(line for line in lines if line["logger"].endswith(".epochs") and line.get("rows") == 2)
    assert (epoch["level"], epoch["request_id"]) == ("debug", "the-insert")
    assert epoch["total_ms"] > 0
    failed = next(line for line in lines if line.get("query") == "bad")
    assert failed["level"] == "warning"
    assert "division by zero" in failed["error"]
    request = next(line for line in lines if line.get("path") == "/v1/streams/s/rows")
    assert (request["status"], request["caller"], request["request_id"]) == (200, "127.0.0.1", "the-insert")
    said = [line["message"] for line in lines]
    assert said[0].startswith("serving at")
    assert "stopped serving" in said


def test_text_lines_and_nothing_but_warnings_where_nobody_asked(tmp_path: Path) -> None:
    lines = logged(tmp_path / "db")
    assert lines
    for line in lines:
        assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z WARNING millstream\.", line), line
    assert sum("query bad has failed" in line and line.endswith("[the-insert]") for line in lines) == 1


def test_a_line_is_a_line_whatever_is_in_it() -> None:
    for form in ("text", "json"):
        out, root = io.StringIO(), logging.getLogger()
        level, handler = root.level, log_to(form, "info", out)
        try:
            said = {"stream": "\x1b[2J", "time": "never"}
            logging.getLogger("millstream.tests").info("a\nb \u2028 %s", "c\x1b[2J", extra={"data": said})
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
            logging.getLogger("millstream").setLevel(logging.NOTSET)
        (line,) = out.getvalue().split("\n")[:-1]
        assert "\x1b" not in line
        assert form == "text" or json.loads(line)["time"] != "never"


@pytest.mark.parametrize("option", [("--log-format", "xml"), ("--log-level", "loud")])
def test_what_is_no_format_or_level_is_refused(option: tuple[str, str]) -> None:
    done = CliRunner().invoke(app, ["serve", "--in-process", *option])
    assert done.exit_code == 1
    assert f"'{option[1]}'" in done.stderr
    assert "it is one of" in done.stderr
