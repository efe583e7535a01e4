"""Hypothesis for all tests: no deadlines on a busy machine. The quick tests take the same examples each time, so that a
failure is due to what was changed; the slow ones take new ones, which are printed and kept in .hypothesis if they fail.

And Spark for those that need it: in this process, or where MILLSTREAM_TEST_MASTER says (`tests/spark/test_cluster.py`).
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile(
    "searching",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
settings.register_profile("repeating", settings.get_profile("searching"), derandomize=True)
settings.load_profile("repeating")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("markexpr") == "slow":
        settings.load_profile("searching")


# Read by every Spark that tests start, also in processes of their own: a busy machine is no failure.
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark" / "conf"))


@pytest.fixture(autouse=True)
def _nothing_is_logged_for_long() -> Iterator[None]:
    """What a command that a test runs in this process says of logs is for that test."""
    root, ours = logging.getLogger(), logging.getLogger("millstream")
    levels = root.level, ours.level
    yield
    for handler in [each for each in root.handlers if type(each).__module__.startswith("millstream.")]:
        root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB, where such may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("file systems cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """One Spark session for each module."""
    from millstream.spark.session import embedded_session  # slow to import, and most tests do without

    opened = embedded_session(os.environ.get("MILLSTREAM_TEST_MASTER", "local[2]"))
    yield opened.session
    opened.stop()
