"""A real cluster for tests: Spark's standalone master and two workers, as processes of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyspark

from millstream.spark.java import find_java, launcher_home


class Cluster:
    """A standalone master and two workers on this machine's loopback."""

    def __init__(self, directory: Path, *paths: Path) -> None:
        """`paths` are where the Python workers of the executors look for modules, too."""
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        self._directory = directory
        home = Path(pyspark.__file__).parent
        self._launcher = str(home / "bin" / "spark-class")
        # For whoever uses it as well: the executors' Python is this one, and nobody else's network is concerned.
        self.environment = {
            **os.environ,
            "JAVA_HOME": str(launcher_home(find_java())),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")]),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        self._daemons = {**self.environment, "SPARK_HOME": str(home), "SPARK_NO_DAEMONIZE": "1"}
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
                [self._launcher, *arguments], env=self._daemons, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """The process and its executors, without warning."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                self.kill(process)
