"""Hypothesis for all tests: no deadlines on a busy machine; failing examples are printed and kept in .hypothesis.

And Spark for those that need it: in this process, or where MILLSTREAM_TEST_MASTER says (`tests/spark/test_cluster.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile(
    "default",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
settings.load_profile("default")
# Read by every Spark that tests start, also in processes of their own: a busy machine is no failure.
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark" / "conf"))


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """One Spark session for each module."""
    from millstream.spark.session import embedded_session  # slow to import, and most tests do without

    opened = embedded_session(os.environ.get("MILLSTREAM_TEST_MASTER", "local[2]"))
    yield opened.session
    opened.stop()
