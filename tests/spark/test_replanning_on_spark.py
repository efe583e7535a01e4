"""Queries move to other plans beside epochs that are Spark jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.queries.replanning import FEW_KEYS, JOIN, MANY_KEYS, STREAMS, feed, move

import millstream as ms

pytestmark = pytest.mark.spark


def test_plans_change_between_jobs_and_after_a_restart(session: SparkSession, tmp_path: Path) -> None:
    with ms.connect(engine="inprocess") as still:
        still.execute(STREAMS)
        expected = still.register(JOIN, name="q")
        with ms.connect(tmp_path / "db", spark=session) as db:
            db.execute(STREAMS)
            query = db.register(JOIN, name="q")
            for number, statistics in enumerate((FEW_KEYS, MANY_KEYS)):
                for each in (db, still):
                    feed(each, range(number * 15, number * 15 + 15))
                edge = query.edge
                move(db, "q", statistics)
                assert query.edge != edge
                assert query.changes() == expected.changes()
        with ms.connect(tmp_path / "db", spark=session) as db:
            for each in (db, still):
                feed(each, range(30, 40))
            assert db.query("q").changes() == expected.changes()
