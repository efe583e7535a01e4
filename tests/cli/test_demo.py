"""`millstream demo`: it ends by itself without a terminal, and serves the page where it is asked to."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.support.serving import LIMIT

SMALL = ["--in-process", "--seconds", "60", "--cars", "200"]


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "millstream", "demo", *SMALL, *arguments]


def test_without_a_terminal_it_ends_by_itself(tmp_path: Path) -> None:
    done = subprocess.run(_command(), cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert "reports/s" in done.stdout
    assert "http://" not in done.stdout


def test_the_page_is_there_while_the_traffic_runs(tmp_path: Path) -> None:
    command = _command("--page", "--port", "0")
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        assert demo.stdout is not None
        try:
            said = next(found for line in demo.stdout if (found := re.search(r"http://[\d.]+:\d+/", line)))
            with urllib.request.urlopen(said[0]) as page:
                assert b"<title>Millstream</title>" in page.read()
            stays = next(line for line in demo.stdout if "the page stays" in line)
            assert said[0] in stays
            with urllib.request.urlopen(f"{said[0]}v1/queries") as answer:
                names = {query["name"] for query in json.load(answer)["queries"]}
            assert {"active_cars", "tolls"} <= names
            demo.send_signal(signal.SIGINT)
            assert "ended" in demo.stdout.read()
            assert demo.wait(LIMIT) == 0
        finally:
            demo.kill()
