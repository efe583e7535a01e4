"""What is in deploy/: checked by linters, and what it starts is started."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.serving import LIMIT

import millstream as ms

ROOT = Path(__file__).parent.parent
UNIT, DOCKERFILE = ROOT / "deploy" / "millstream.service", ROOT / "deploy" / "Dockerfile"


def linter(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"*** deploy/ IS NOT CHECKED BY {name}: it is not there ***")
    return found


def test_the_dockerfile_by_hadolint() -> None:
    done = subprocess.run([linter("hadolint"), str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_the_unit_by_systemd(tmp_path: Path) -> None:
    """With a user and a program that are there, which systemd wants to see."""
    text = UNIT.read_text().replace("/opt/millstream/bin/millstream", shutil.which("true") or "/bin/true")
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"^(User|Group)=.*$", r"\1=root", text, flags=re.MULTILINE))
    systemd = linter("systemd-analyze")
    done = subprocess.run([systemd, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    safe = [systemd, "security", "--offline=true", "--threshold=30", str(UNIT)]
    done = subprocess.run(safe, capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("*** the unit's hardening IS NOT CHECKED: systemd-analyze is too old ***")
    assert done.returncode == 0, done.stdout


def served_by_unit() -> list[str]:
    """What ExecStart runs, behind the program, with its options."""
    text = UNIT.read_text()
    (command,) = re.findall(r"^ExecStart=\S+ (.*)$", text, re.MULTILINE)
    (options,) = re.findall(r'^Environment=MILLSTREAM_OPTIONS="(.*)"$', text, re.MULTILINE)
    return shlex.split(command.replace("$MILLSTREAM_OPTIONS", options))


def served_by_container() -> list[str]:
    (command,) = re.findall(r"^CMD (\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)
    return list(json.loads(command))


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [served_by_unit(), served_by_container()], ids=["systemd", "container"])
def test_what_they_start_serves(arguments: list[str], tmp_path: Path) -> None:
    directory = tmp_path / "db"
    directory.mkdir()
    program = [sys.executable, "-m", "millstream"]
    add = [*program, "token", "add", str(directory), "--role", "admin"]  # as the Dockerfile says: before there is one
    secret = subprocess.run(add, capture_output=True, text=True, check=True).stdout.strip()
    given = {"/var/lib/millstream/db": str(directory), "/data/db": str(directory), "8787": "0"}
    command = [*program, *(given.get(word, word) for word in arguments), "--in-process"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+:(\d+)(?=,)", process.stdout.readline())
            assert found is not None, process.communicate(timeout=LIMIT)
            address = f"http://127.0.0.1:{found[1]}"
            with ms.connect(address, token=secret) as db:
                db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts")
            (check,) = re.findall(r'CMD \["python", "-c", "(.*)"\]', DOCKERFILE.read_text())
            subprocess.run([sys.executable, "-c", check.replace("8787", found[1])], check=True)
        finally:
            process.terminate()
            _, logged = process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    assert json.loads(logged.splitlines()[0])["level"] == "info"
    assert ms.check(directory).is_well
