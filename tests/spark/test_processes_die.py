"""kill -9 of Spark's processes in the middle of an epoch: the answers are those of an undisturbed run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from tests.engine import feeder

import millstream as ms
from millstream.spark.java import find_java, launcher_home

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
        "segment-written",  # the task is tried again after all of it was written
        pytest.param("segment-half-written", marks=pytest.mark.slow),
    ],
)
def test_a_python_worker_dies(tmp_path: Path, undisturbed: dict[str, pa.Table], point: str) -> None:
    mark = tmp_path / "mark"
    environment = {**os.environ, "MILLSTREAM_FAULT": f"{point}:4", "MILLSTREAM_FAULT_MARK": str(mark)}
    subprocess.run(command(tmp_path / "db", "spark"), check=True, env=environment, stdout=subprocess.DEVNULL)
    assert mark.exists(), "nobody died"
    assert answers(tmp_path / "db") == undisturbed


class Cluster:
    """A standalone master and two workers on this machine's loopback."""

    def __init__(self, directory: Path) -> None:
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        self._directory = directory
        home = Path(pyspark.__file__).parent
        self._launcher = str(home / "bin" / "spark-class")
        self._environment = {
            **os.environ,
            "JAVA_HOME": str(launcher_home(find_java())),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_NO_DAEMONIZE": "1",
        }
        of_master = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        self._processes = [self._start("org.apache.spark.deploy.master.Master", *of_master)]
        self.workers = [self._start_worker(number) for number in range(2)]

    def _start_worker(self, number: int) -> subprocess.Popen[bytes]:
        limits = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
        place = ["--work-dir", str(self._directory / f"worker-{number}")]
        process = self._start("org.apache.spark.deploy.worker.Worker", *limits, *place, self.master)
        self._processes.append(process)
        return process

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._directory / f"{len(list(self._directory.glob('*.log')))}.log").open("wb") as log:
            return subprocess.Popen(
                [self._launcher, *arguments], env=self._environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """The process and its executors, without warning."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                self.kill(process)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(tmp_path)
    yield started
    started.stop()


@pytest.mark.slow
def test_a_worker_of_a_cluster_dies(tmp_path: Path, cluster: Cluster, undisturbed: dict[str, pa.Table]) -> None:
    # The executors need a Python that has millstream.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    feed = command(tmp_path / "db", cluster.master)
    with subprocess.Popen(feed, stdout=subprocess.PIPE, text=True, env=environment) as feeding:
        for line in feeding.stdout or ():
            if line.strip() == "3":
                cluster.kill(cluster.workers[0])
    assert feeding.returncode == 0
    assert answers(tmp_path / "db") == undisturbed
