"""How things end that are cut off: a token that is being made, a directory that cannot be written, a follower and its
service that are killed again and again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from tests.support.serving import until
from tests.support.supervised import supervised

import millstream as ms
from millstream.service.tokens import Tokens

_KILLED = """
import os, pathlib, signal, sys
from millstream.service.tokens import Tokens
place, file = sys.argv[1], pathlib.Path(sys.argv[2])
end = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
if place == "locked":
    os.fdopen = end
elif place == "written":
    os.fsync = end
elif place == "synced":
    pathlib.Path.rename = end
else:
    right = pathlib.Path.rename
    pathlib.Path.rename = lambda *given: (right(*given), end())
Tokens(file).add("new", "read")
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["locked", "written", "synced", "renamed"])
def test_a_token_that_is_being_made_is_there_or_not(tmp_path: Path, place: str) -> None:
    """The others stay, and the next one can be made."""
    tokens = Tokens(tmp_path / "tokens.json")
    secret = tokens.add("old", "write")
    done = subprocess.run([sys.executable, "-c", _KILLED, place, str(tokens.file)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert tokens.find(secret) is not None
    assert [token.name for token in tokens.all()] == ["old", *(["new"] if place == "renamed" else [])]
    tokens.add("next", "read")
    assert {token.name for token in tokens.all()} >= {"old", "next"}


def test_a_directory_that_cannot_be_written(disk: Path) -> None:
    with ms.connect(disk / "db", engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts")
        db.insert("s", [(1, 1)])
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    with pytest.raises(ms.StateError, match="Read-only file system") as error:
        ms.connect(disk / "db", engine="inprocess")
    assert "must be one that can be written" in str(error.value)
    with pytest.raises(ms.StateError, match="Read-only file system"):
        Tokens(disk / "db" / "tokens.json").add("new", "read")


_FOLLOWER = """
import json, sys, time
import millstream as ms
address, file, since = sys.argv[1], open(sys.argv[2], "a"), sys.argv[3]
while True:
    try:
        with ms.connect(address) as db:
            for changes in db.query("sums").follow(since=int(since) if since else None):
                rows = changes.to_pylist()
                if rows:
                    since = str(max(row["_ts"] for row in rows))
                    file.write(json.dumps(rows) + "\\n")
                    file.flush()
    except ms.Error:
        time.sleep(0.2)
"""


def _taken(file: Path) -> list[dict[str, int]]:
    """What followers have taken down; a line that one was killed at is not there."""
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [row for line in lines for row in json.loads(line)]


def _has_more(file: Path, before: int, is_over: threading.Event) -> bool:
    return len(_taken(file)) > before or is_over.is_set()


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--in-process"], pytest.param([], marks=pytest.mark.spark)])
def test_a_follower_that_is_killed_goes_on(tmp_path: Path, options: list[str]) -> None:
    """By the last instant that it took down: through kills of its own and of the service, and gaps, it misses nothing
    and takes nothing twice, since an instant comes as a whole."""
    taken = tmp_path / "taken.jsonl"
    with supervised(tmp_path / "db", *options) as service:
        with ms.connect(service.address) as db:
            db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts RETAIN 100000")
            db.register("SELECT k, sum(v) AS total FROM s [RANGE 7] GROUP BY k", "sums")
        is_over = threading.Event()

        def feed() -> None:
            with ms.connect(service.address) as db:
                for instant in range(300):
                    db.insert("s", [(instant % 3, instant, instant), (7, 1, instant)])
                    is_over.wait(0.02)
            is_over.set()

        feeder = threading.Thread(target=feed)
        feeder.start()
        for round_ in range(4):
            before = len(_taken(taken))
            since = str(max((row["_ts"] for row in _taken(taken)), default=""))
            follower = subprocess.Popen([sys.executable, "-c", _FOLLOWER, service.address, str(taken), since])
            try:
                until(partial(_has_more, taken, before, is_over))
                if round_ == 1:
                    service.kill()
            finally:
                follower.kill()
                follower.wait()
        feeder.join()
        with ms.connect(service.address) as db:
            db.advance("s", to=299)
            query = db.query("sums")
            last = max(row["_ts"] for row in _taken(taken))
            rest = query.changes(since=last).to_pylist()
            assert [*_taken(taken), *rest] == query.changes().to_pylist()


def test_a_follower_that_was_away_too_long_is_told(tmp_path: Path) -> None:
    """What RETAIN has forgotten is not passed over in silence."""
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts RETAIN 10")
        query = db.register("SELECT k FROM s [RANGE 2]", "q")
        for instant in range(0, 200, 5):
            db.insert("s", [(instant, instant)])
    with ms.connect(tmp_path, engine="inprocess") as db:
        query = db.query("q")
        with pytest.raises(ms.TimeError, match="kept"):
            next(iter(query.follow(since=20)))
        with pytest.raises(ms.TimeError, match="kept"):
            query.changes(since=20)
        assert next(iter(query.follow(since=query.final - 3))).num_rows
