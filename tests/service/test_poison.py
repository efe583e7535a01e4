"""A query that ends the process that runs it, in a served database: the service comes back without it, and nothing
else is lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from tests.support.serving import until
from tests.support.supervised import Supervised, supervised

import millstream as ms

pytestmark = pytest.mark.slow
ENDS = "ends the process that runs it"


def _made(directory: Path) -> None:
    """A database with a function that ends its process at 13, which only its owner can make."""
    with ms.connect(directory, engine="inprocess") as db:
        db.execute("CREATE STREAM s (a INT) TIMESTAMP BY ts; CREATE STREAM t (a INT) TIMESTAMP BY ts")

        def deadly(values: pl.Series) -> pl.Series:
            if 13 in values.to_list():
                os.abort()
            return values

        db.create_function("deadly", deadly, returns="INT")


@pytest.fixture(params=["inprocess", pytest.param("driver", marks=pytest.mark.spark)])
def service(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Supervised]:
    """Without Spark, and with epochs that Spark's driver runs itself."""
    _made(tmp_path / "db")
    in_process = request.param == "inprocess"
    with supervised(tmp_path / "db", *(["--in-process"] if in_process else [])) as service:
        if not in_process:
            with ms.connect(service.address) as db:
                db.execute("SET small_epochs = 'driver'")
        yield service


def _until_taken(service: Supervised, insert: Callable[[ms.RemoteDatabase], int]) -> int:
    """As a producer does it: again, as long as the service goes; gives how often it went."""
    before = service.starts
    while True:
        went = service.starts
        try:
            with ms.connect(service.address) as db:
                insert(db)
        except (ms.ServiceError, OSError):
            service.await_start(went)
            assert service.starts - before < 10, service.said()
        else:
            return service.starts - before


def test_epochs(service: Supervised) -> None:
    """A row that comes kills it once; the row that comes again stops the queries, in each mode, and no others."""
    with ms.connect(service.address) as db:
        db.register("SELECT a FROM s [RANGE 10]", "good")
        db.register("SELECT deadly(a) AS a FROM s [RANGE 10]", "eager")
        db.register("SELECT deadly(a) + 1 AS a FROM s [RANGE 10]", "lazy", "lazy")
        db.register("SELECT deadly(a) + 2 AS a FROM s [RANGE 10]", "none", "none")
        db.register_many(
            "SELECT deadly(a) * 2 AS a FROM s [RANGE 10] WHERE a > ?", [(1,), (2,), (50,)], ["x", "y", "z"]
        )
        db.insert("s", [(1, 1), (2, 2)])
        db.advance("s", to=2)
    _until_taken(service, lambda db: db.insert("s", [(13, 3), (4, 4)]).accepted)
    with ms.connect(service.address) as db:
        db.insert("s", [(5, 5)])
        db.advance("s", to=6)
        assert sorted(db.query("good").result(at=6)["a"].to_pylist()) == [1, 2, 4, 5, 13]
        for name in ("eager", "lazy", "none", "x", "y"):
            with pytest.raises(ms.EvaluationError, match=ENDS):
                db.query(name).result()
    starts = service.starts
    service.kill()
    with ms.connect(service.address) as db:
        assert sorted(db.query("good").result(at=6)["a"].to_pylist()) == [1, 2, 4, 5, 13]
    assert service.starts == starts + 1
    assert 'the query "eager" was put aside' in service.said()


def test_backfills(service: Supervised) -> None:
    """The past of a query kills it in the background: after a start or two the query has failed, and others go on."""
    with ms.connect(service.address) as db:
        values = [*range(100, 250_100)]
        values[200_000] = 13
        db.insert("t", pa.table({"a": pa.array(values, pa.int32()), "ts": list(range(250_000))}))
        db.register("SELECT deadly(a) AS a FROM t [RANGE 10]", "late")

    def has_failed() -> bool:
        try:
            with ms.connect(service.address) as db:
                states = {query.name: query for query in db.queries()}
                db.query("late").result()
        except ms.EvaluationError as error:
            return ENDS in str(error)
        except (ms.ServiceError, OSError):
            return False
        raise AssertionError(states)

    until(has_failed)
    assert service.starts <= 5, service.said()
    with ms.connect(service.address) as db:
        counted = db.execute("SELECT count(*) AS n FROM t [RANGE UNBOUNDED]").table
        assert counted is not None
        assert counted.to_pylist() == [{"n": 249_999}]  # the last instant is not final
    assert 'the query "late" was put aside' in service.said()
