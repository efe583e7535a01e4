"""The same comparison with every epoch a Spark job: fixed cases of both profiles in one session."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.properties.cases import in_large_batches
from tests.properties.driver import check_case
from tests.properties.generate import seeded_case
from tests.properties.queries import LINEAR, RELATIONAL, Profile

import millstream as ms

pytestmark = pytest.mark.spark

CASES = [*((seed, LINEAR) for seed in range(10)), *((seed, RELATIONAL) for seed in range(24))]


@pytest.mark.parametrize(("seed", "profile"), CASES, ids=[f"{profile.name}-{seed}" for seed, profile in CASES])
def test_the_engine_on_spark_answers_as_the_oracle(session: SparkSession, seed: int, profile: Profile) -> None:
    # Few epochs: each takes a third of a second.
    case = in_large_batches(seeded_case(seed, profile))
    check_case(case, lambda: ms.connect(spark=session))
