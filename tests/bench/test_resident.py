"""What a process and those below it have in memory."""

from __future__ import annotations

import subprocess
import sys

from bench.harness.resident import peak_of, processes_of, resident

MIB = 1 << 20
# A process that starts another one, which fills memory when it is told to, and then lets it go.
BELOW = "input(); held = bytes(range(256)) * (200 << 12); del held; print('done', flush=True); input()"
START = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BELOW!r}])"


def test_the_peak_is_that_of_all_processes_together() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as top:
        assert top.stdin is not None
        assert top.stdout is not None
        before = resident(top.pid)
        with peak_of(top.pid, seconds=0.001) as peak:
            top.stdin.write("\n")
            top.stdin.flush()
            assert top.stdout.readline() == "done\n"
        assert len(processes_of(top.pid)) == 2
        after = resident(top.pid)
        top.stdin.write("\n")
        top.stdin.flush()
    assert peak.bytes - before > 150 * MIB
    assert peak.bytes - after > 150 * MIB
