"""Statements that ask for more than there is, by tokens that may read and write, without and with Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.attacks.victim import Victim, attacked

import millstream as ms

pytestmark = pytest.mark.slow
ROWS = 20_000
CROSS = "SELECT a.k AS x, b.k AS y FROM big [RANGE UNBOUNDED] AS a, big [RANGE UNBOUNDED] AS b"
HUGE = "SELECT repeat(v, 2000000000) AS r FROM big [RANGE UNBOUNDED]"


@pytest.fixture(scope="module", params=["inprocess", pytest.param("spark", marks=pytest.mark.spark)])
def large(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Victim]:
    directory: Path = tmp_path_factory.mktemp("large") / "db"
    with attacked(directory, *(["--in-process"] if request.param == "inprocess" else [])) as victim:
        with ms.connect(victim.address) as db:
            db.execute("CREATE STREAM big (k INT, v STRING) TIMESTAMP BY ts")
            rows = {"k": pa.array(range(ROWS), pa.int32()), "v": ["x" * 10] * ROWS, "ts": pa.array([1] * ROWS)}
            db.insert("big", pa.table(rows))
            db.advance("big", to=2)
        yield victim


def test_six_cross_joins_at_a_time(large: Victim) -> None:
    """They are refused or ended one by one, and the producer goes on meanwhile."""
    answers: list[int] = []
    sent, during = large.sent, list[int]()

    def join() -> None:
        status, _ = large.execute(CROSS)
        answers.append(status)
        during.append(large.sent)

    threads = [threading.Thread(target=join) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 6
    assert set(answers) <= {413, 422, 503}
    assert during[-1] > sent


def test_a_text_that_is_too_long(large: Victim) -> None:
    status, said = large.execute(HUGE)
    assert status in (413, 422), said
    for mode in ("EAGER", "LAZY", "NONE"):
        large.execute(f"REGISTER QUERY huge_{mode} MODE {mode} AS {HUGE}")
    large.ask("POST", "/v1/streams/big/rows", b"k,v,ts\n1,y,10\n", "text/csv")
    with ms.connect(large.address) as db:
        for mode in ("EAGER", "LAZY", "NONE"):
            with pytest.raises(ms.Error, match=r"max_value_bytes|max_column_bytes|there is no query called"):
                db.query(f"huge_{mode}").result()
        assert db.query("counts").final >= 0


def test_and_after_a_restart(tmp_path: Path) -> None:
    """What was registered is no poison for the next start."""
    with attacked(tmp_path / "db", "--in-process") as victim:
        victim.execute(f"REGISTER QUERY huge AS {HUGE.replace('big', 's')}")
        victim.execute(f"REGISTER QUERY joined AS {CROSS.replace('big', 's')}")
        victim.kill()
        status, said = victim.execute("SHOW QUERIES")
        assert status == 200, said
        victim.check_rows()
