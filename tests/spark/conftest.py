"""One Spark session for each module of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from millstream.spark.session import embedded_session


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    opened = embedded_session("local[2]")
    yield opened.session
    opened.stop()
