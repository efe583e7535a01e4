"""Texts that are long, or say much in few words, at every place that takes texts: refused or answered, while rows go
on coming and memory stays within what the limits of steps say."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.attacks.victim import Victim, scaled
from tests.support.long_texts import LONG_TEXTS

pytestmark = pytest.mark.slow
_MOST_MEMORY = 10 << 30  # of the service itself: each step of a join may make half a gigabyte, and a plan has many


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) << 10


def test_long_texts(victim: Victim) -> None:
    def ask(what: tuple[str, int]) -> None:
        name, count = what
        text = LONG_TEXTS[name](count)
        for path, body in (
            ("/v1/check", {"cql": text}),
            ("/v1/explain", {"cql": text}),
            ("/v1/execute", {"text": text}),
            ("/v1/queries", {"cql": text, "name": f"long {name} {count}", "mode": "none"}),
            ("/v1/queries", {"cql": text, "name": f"eager {name} {count}"}),
        ):
            status, said = victim.ask("POST", path, json.dumps(body).encode())
            assert len(said) < 4 * len(text) + (1 << 20), (path, name)
            if path == "/v1/queries" and status in (200, 201):
                victim.ask("DELETE", f"/v1/queries/{json.loads(said)['name'].replace(' ', '%20')}")

    sizes = [count for count in (40, 200, 2_000, 20_000) if count <= scaled(20_000)]
    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(ask, (name, count)) for count in sizes for name in LONG_TEXTS]:
            done.result()
    peak = _peak(victim.service.process.pid)
    sys.stdout.write(f"at most {peak >> 20} MiB; ")
    assert peak < _MOST_MEMORY
