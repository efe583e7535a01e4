"""What windows [RANGE v ON c] leave out is told on several shards, for a past in the background too."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import millstream as ms

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_what_is_left_out_on_shards(session: SparkSession, tmp_path: Path) -> None:
    chosen = random.Random(7)
    rows = [(chosen.randrange(5), chosen.randrange(50), t) for t in range(400)]
    texts = ["SELECT k FROM S [RANGE 2 ON c]", "SELECT k FROM S [PARTITION BY k RANGE 3 ON c]"]
    found = []
    for place in ("spark", "here"):
        with ms.connect(
            tmp_path / place, **({"spark": session} if place == "spark" else {"engine": "inprocess"})
        ) as db:
            db.execute("SET shards = 2; SET small_epochs = 'spark'" if place == "spark" else "SET sharing = 'off'")
            db.execute("CREATE STREAM S (k INT, c INT) TIMESTAMP BY t BIGINT")
            db.register(texts[0])
            db.insert("S", rows[:200])
            db.register(texts[1])
            db.insert("S", rows[200:])
            found.append(sorted(row[-2:] for row in db.execute("SELECT raw, reason FROM S._malformed").fetchall()))
    assert found[0] == found[1]
    assert len(found[0]) > 400
