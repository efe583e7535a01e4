"""The same tests on a cluster: a standalone master and two workers, one of which is killed on the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "packages").mkdir()
    started = Cluster(tmp_path, tmp_path / "packages", ROOT)
    yield started
    started.stop()


@pytest.mark.parametrize(
    "module",
    [
        "test_cql_files",
        "test_shuffled_epochs",
        "test_sources",
        "test_live_sources",
        "test_python_sources",
        "test_sinks",
        "test_source_crashes",
    ],
)
def test_the_same_on_a_cluster(cluster: Cluster, tmp_path: Path, module: str) -> None:
    """With half of the tests behind it, the cluster loses a worker, its executor and all that this one held."""
    environment = {
        **cluster.environment,
        "MILLSTREAM_TEST_MASTER": cluster.master,
        "MILLSTREAM_TEST_PACKAGES": str(tmp_path / "packages"),
    }
    tests = [str(HERE / f"{module}.py"), "-m", "slow or not slow", "-k", "not local", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), *tests]
    collected = subprocess.run(
        [*command, "--collect-only", "-q"], env=environment, cwd=ROOT, check=True, capture_output=True, text=True
    )
    total = sum("::" in line for line in collected.stdout.splitlines())
    assert total > 0
    passed, said = 0, []
    with subprocess.Popen([*command, "-v"], env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout or ():
            said.append(line)
            passed += " PASSED" in line
            if passed == (total + 1) // 2 and cluster.workers[0].poll() is None:
                cluster.kill(cluster.workers[0])
    assert running.returncode == 0, "".join(said)
    assert passed == total
    assert cluster.workers[0].returncode is not None
    for worker in ("worker-0", "worker-1"):
        assert list((tmp_path / worker).glob("app-*")), f"{worker} had nothing to do"
