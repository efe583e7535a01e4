"""kill -9 of Spark's processes in the middle of an epoch: the answers are those of an undisturbed run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.cluster import Cluster
from tests.support import feeder

import millstream as ms

pytestmark = pytest.mark.spark


def answers(path: Path) -> dict[str, pa.Table]:
    with ms.connect(path, engine="inprocess") as db:
        return {query.name: query.changes() for query in db.queries()}


def command(path: Path, place: str) -> list[str]:
    return [sys.executable, str(Path(feeder.__file__)), str(path), place]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    path = tmp_path_factory.mktemp("undisturbed") / "db"
    subprocess.run(command(path, "inprocess"), check=True, stdout=subprocess.DEVNULL)
    return answers(path)


@pytest.mark.parametrize(
    "point",
    [
        # The task is tried again after all of it was written.
        pytest.param("segment-written", marks=pytest.mark.slow),
        pytest.param("segment-half-written", marks=pytest.mark.slow),
    ],
)
def test_a_python_worker_dies(tmp_path: Path, undisturbed: dict[str, pa.Table], point: str) -> None:
    mark = tmp_path / "mark"
    environment = {**os.environ, "MILLSTREAM_FAULT": f"{point}:4", "MILLSTREAM_FAULT_MARK": str(mark)}
    subprocess.run(command(tmp_path / "db", "spark"), check=True, env=environment, stdout=subprocess.DEVNULL)
    assert mark.exists(), "nobody died"
    assert answers(tmp_path / "db") == undisturbed


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(tmp_path)
    yield started
    started.stop()


@pytest.mark.slow
def test_a_worker_of_a_cluster_dies(tmp_path: Path, cluster: Cluster, undisturbed: dict[str, pa.Table]) -> None:
    feed = command(tmp_path / "db", cluster.master)
    with subprocess.Popen(feed, stdout=subprocess.PIPE, text=True, env=cluster.environment) as feeding:
        for line in feeding.stdout or ():
            if line.strip() == "3":
                cluster.kill(cluster.workers[0])
    assert feeding.returncode == 0
    assert answers(tmp_path / "db") == undisturbed
