"""Sources end to end: what they answer is what the same rows give when they are inserted."""

from __future__ import annotations

import json
import shutil
import socketserver
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

import millstream as ms

pytestmark = pytest.mark.spark

# In the order of (file, row): the second file starts before the first one ends, so that some are late.
FILES: dict[str, list[tuple[Any, ...]]] = {
    "a": [(1, "x", 0), (2, "y", 4), (3, None, 2), (1, "z", 9)],
    "b": [(4, "x", 7), (5, "y", 9), (1, "x", 8), (2, "w", 12)],
    "c": [(1, "v", 12), (2, "v", 11), (3, "v", 15)],
}
ROWS = [row for name in sorted(FILES) for row in FILES[name]]
COLUMNS = "(k INT, v STRING) TIMESTAMP BY ts"
QUERIES = (
    "SELECT k, count(*) AS n, max(v) AS top FROM {} [RANGE 4] GROUP BY k",
    "SELECT * FROM {}",
    "SELECT k, v, _ts AS t FROM {}._late",
)


def answers(db: ms.Database, stream: str, to: object = 40) -> list[Any]:
    """The changes of the queries, with late rows in any order: their instant depends on the other streams' clocks."""
    db.advance(to=to)
    found = [db.register(text.format(stream)) for text in QUERIES]
    changes = [query.changes().to_pylist() for query in found]
    late = sorted(((row["k"], row["v"], row["t"]) for row in changes[2]), key=str)
    for query in found:
        query.drop()
    return [changes[0], changes[1], late]


def inserted(rows: Sequence[tuple[Any, ...]], declared: str = COLUMNS, to: object = 40) -> list[Any]:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"CREATE STREAM s {declared}")
        db.insert("s", rows)
        return answers(db, "s", to)


@pytest.fixture
def db(session: SparkSession, tmp_path: Path) -> Iterator[ms.Database]:
    with ms.connect(tmp_path / "db", spark=session) as opened:
        yield opened


def table_of(rows: Sequence[tuple[Any, ...]], stamp: pa.DataType | None = None) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    types = pa.int32(), pa.string(), stamp or pa.int64()
    return pa.table({n: pa.array(c, t) for n, c, t in zip(("k", "v", "ts"), columns, types, strict=True)})


def write(directory: Path, kind: str, files: dict[str, list[tuple[Any, ...]]] = FILES) -> Path:
    directory.mkdir(exist_ok=True)
    for name, rows in files.items():
        path = directory / f"{name}.{kind}"
        if kind == "parquet":
            pq.write_table(table_of(rows), path)
        elif kind == "csv":
            path.write_text("".join(f"{k},{v or ''},{t}\n" for k, v, t in rows))
        else:
            path.write_text("".join(json.dumps({"k": k, "v": v, "ts": t}) + "\n" for k, v, t in rows))
    return directory


class Counting(DataSource):
    """A source written in Python: all rows in one go."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def schema(self) -> str:
        return "v STRING, ts BIGINT, k INT"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's name
        rows = [(v, t, k) for k, v, t in ROWS]

        class Reader(SimpleDataSourceStreamReader):
            def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
                return {"at": 0}

            def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
                return iter(rows[start["at"] :]), {"at": len(rows)}

            def readBetweenOffsets(  # noqa: N802 - Spark's name
                self, start: dict[str, int], end: dict[str, int]
            ) -> Iterator[tuple[Any, ...]]:
                return iter(rows[start["at"] : end["at"]])

        return Reader()


def test_every_format_answers_as_inserts_do(session: SparkSession, db: ms.Database, tmp_path: Path) -> None:
    session.dataSource.register(Counting)
    session.conf.set("spark.sql.files.maxPartitionBytes", "48")  # so that files are cut in the middle, too
    session.conf.set("spark.sql.files.openCostInBytes", "1")
    for kind in ("parquet", "csv", "json"):
        path = write(tmp_path / kind, kind)
        db.execute(f"CREATE STREAM {kind} {COLUMNS} USING {kind} OPTIONS (path '{path}')")
    (tmp_path / "spark_written").mkdir()
    for name, rows in FILES.items():  # as Spark writes them: their timestamps have no statistics
        stamped = [(k, v, datetime.fromtimestamp(t, UTC)) for k, v, t in rows]
        stamps = table_of(stamped, pa.timestamp("us", "UTC"))
        pq.write_table(stamps, tmp_path / "spark_written" / f"{name}.parquet", use_deprecated_int96_timestamps=True)
    timed = "(k INT, v STRING) TIMESTAMP BY ts TIMESTAMP TICK INTERVAL '1' SECOND"
    db.execute(f"CREATE STREAM timed {timed} USING parquet OPTIONS (path '{tmp_path}/spark_written')")
    db.execute(f"CREATE STREAM python {COLUMNS} USING counting")
    assert db.stats()["streams"]["csv"]["arrived"] == 0, "nothing is read before run"
    try:
        db.run()
    finally:
        session.conf.unset("spark.sql.files.maxPartitionBytes")
        session.conf.unset("spark.sql.files.openCostInBytes")
    expected = inserted(ROWS)
    assert len(expected[2]) == 4
    for stream in ("parquet", "csv", "json", "python"):
        assert answers(db, stream) == expected, stream
    # Late rows are told at the clock of the database, so that a stream of today comes after those of long ago.
    clock = "TIMESTAMP BY at TIMESTAMP HEARTBEAT CLOCK"
    db.execute(f"CREATE STREAM lines (value STRING) {clock} USING text OPTIONS (path '{tmp_path}/csv')")
    db.run()
    lines = [line for name in sorted(FILES) for line in (tmp_path / "csv" / f"{name}.csv").read_text().splitlines()]
    assert [row["value"] for row in db.execute("SELECT value FROM lines").table.to_pylist()] == sorted(lines)  # type: ignore[union-attr]
    stamps_of = [(k, v, datetime.fromtimestamp(t, UTC)) for k, v, t in ROWS]
    assert answers(db, "timed") == inserted(stamps_of, timed)
    assert not list((tmp_path / "db" / "segments").glob("landing*"))


def test_a_restart_goes_on_and_a_replayed_batch_is_skipped(session: SparkSession, tmp_path: Path) -> None:
    path, database = write(tmp_path / "in", "json", {"a": FILES["a"]}), tmp_path / "db"
    with ms.connect(database, spark=session) as db:
        db.execute(f"CREATE STREAM s {COLUMNS} USING json OPTIONS (path '{path}')")
        db.run()
        db.insert("s", FILES["b"])
    (path / "a.json").unlink()  # what was read is not needed again
    for name in ("0", ".0.crc"):  # as if Spark had died before it knew
        (database / "checkpoints" / "s" / "commits" / name).unlink()
    with ms.connect(database, spark=session) as db:
        db.run()
        write(path, "json", {"c": FILES["c"]})
        db.run()
        assert db.stats()["streams"]["s"]["arrived"] == len(ROWS)
        assert answers(db, "s") == inserted(ROWS)
    shutil.rmtree(database / "checkpoints" / "s")
    with ms.connect(database, spark=session) as db:
        with pytest.raises(ms.Error, match=r"checkpoint of stream s was removed[^$]*create it again"):
            db.run()
        assert db.stats()["streams"]["s"]["arrived"] == len(ROWS)
        db.execute(f"DROP STREAM s; CREATE STREAM s {COLUMNS} USING json OPTIONS (path '{path}')")
        db.run()
        assert db.stats()["streams"]["s"]["arrived"] == len(FILES["c"])


def test_what_cannot_be_read_is_kept_with_the_reason(db: ms.Database, tmp_path: Path) -> None:
    for kind in ("csv", "json", "parquet"):
        (tmp_path / kind).mkdir()
    (tmp_path / "csv" / "1.csv").write_text('1,x,3\n2,y\nthree,z,4\n4,"a,b",-1\n5,w,\n6,w,7\n')
    (tmp_path / "json" / "1.json").write_text(
        '{"k":1,"ts":3}\nnonsense\n{"k":"two","ts":4}\n[3]\n{"k":4}\n{"k":5,"ts":-2}\n{"k":6,"ts":7}\n'
    )
    pq.write_table(table_of([(1, "x", 3), (2, "y", None), (6, "w", 7)]), tmp_path / "parquet" / "1.parquet")
    for kind in ("csv", "json", "parquet"):
        db.execute(f"CREATE STREAM {kind} {COLUMNS} USING {kind} OPTIONS (path '{tmp_path}/{kind}')")
    db.run()
    db.advance(to=20)
    found: dict[str, set[tuple[str, str]]] = {}
    for kind in ("csv", "json", "parquet"):
        rows = db.execute(f"SELECT raw, reason FROM {kind}._malformed").table.to_pylist()  # type: ignore[union-attr]
        found[kind] = {(row["raw"], row["reason"]) for row in rows}
        assert db.stats()["streams"][kind]["malformed"] == len(rows)
        assert db.stats()["streams"][kind]["arrived"] == 2
    assert found["csv"] == {
        ("2,y", "2 values, not 3"),
        ("three,z,4", "column \"k\": 'three' is not INT"),
        ('{"k": 4, "v": "a,b", "ts": -1}', 'negative timestamp "ts": -1 ticks'),
        ('{"k": 5, "v": "w", "ts": null}', 'timestamp "ts" is NULL'),
    }
    assert found["json"] == {
        ("nonsense", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"k":"two","ts":4}', "column \"k\": 'two' is not INT"),
        ("[3]", "not a JSON object"),
        ('{"k": 4, "v": null, "ts": null}', 'timestamp "ts" is NULL'),
        ('{"k": 5, "v": null, "ts": -2}', 'negative timestamp "ts": -2 ticks'),
    }
    assert found["parquet"] == {('{"k": 2, "v": "y", "ts": null}', 'timestamp "ts" is NULL')}


def test_tables_from_files(session: SparkSession, db: ms.Database, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("1,one\n2,two\nthree,three\n2,two\n")
    db.execute(f"CREATE TABLE names (id INT, name STRING) USING csv OPTIONS (path '{tmp_path}/names.csv')")
    (tmp_path / "prices").mkdir()
    changes = [(1, 10, "+", 1), (1, 20, "UPDATE", 4), (2, 5, "insert", 5), (3, 9, "?", 6), (2, 5, "-", 8)]
    (tmp_path / "prices" / "1.json").write_text(
        "".join(json.dumps(dict(zip(("id", "price", "op", "ts"), row, strict=True))) + "\n" for row in changes)
    )
    db.execute(
        f"""CREATE TABLE prices (id INT, price INT) KEY (id) CHANGES BY op TIMESTAMP BY ts
        USING json OPTIONS (path '{tmp_path}/prices')"""
    )
    names = db.register("SELECT id, count(*) AS n FROM names GROUP BY id")
    prices = db.register("SELECT id, price FROM prices")
    db.run()
    db.advance(to=20)
    assert names.result(at=0).to_pylist() == [{"id": 1, "n": 1}, {"id": 2, "n": 2}]
    assert prices.result(at=5).to_pylist() == [{"id": 1, "price": 20}, {"id": 2, "price": 5}]
    assert prices.result().to_pylist() == [{"id": 1, "price": 20}]
    (bad,) = db.execute("SELECT reason FROM names._malformed").table.to_pylist()  # type: ignore[union-attr]
    assert bad["reason"] == "column \"id\": 'three' is not INT"
    (bad,) = db.execute("SELECT reason FROM prices._unreadable").table.to_pylist()  # type: ignore[union-attr]
    assert bad["reason"] == '"op" says ?'
    db.execute("INSERT INTO names VALUES (7, 'seven')")
    db.close()
    with ms.connect(tmp_path / "db", spark=session) as again:
        assert again.execute("SELECT count(*) AS n FROM names").table.to_pylist() == [{"n": 4}]  # type: ignore[union-attr]


REFUSALS = [
    (f"{COLUMNS} USING parquet OPTIONS (path '/no/such/place')", r"Path does not exist: \S*/no/such/place"),
    (f"{COLUMNS} USING csv", r"'path' is not specified[^$]*OPTIONS \(path"),
    (f"{COLUMNS} USING cvs OPTIONS (path '{{0}}')", 'did you mean "csv"'),
    (f"{COLUMNS} USING csv OPTIONS (pth '{{0}}')", 'did you mean "path"'),
    (f"{COLUMNS} USING nonsense", r'knows no format "nonsense"[^$]*dataSource.register'),
    (f"{COLUMNS} USING kafka OPTIONS (subscribe 't')", r"no connector for kafka\n[^$]*spark-sql-kafka-0-10_2.13:4"),
    ("(value BIGINT) TIMESTAMP BY ts USING rate", r'rate has no column "ts"[^$]*timestamp timestamp, value bigint'),
    ("(value INT) TIMESTAMP BY timestamp TIMESTAMP USING rate", '"value" is declared INT, and rate has BIGINT'),
    ("(value BIGINT) TIMESTAMP BY timestamp TIMESTAMP USING rate OPTIONS (rowsPerSecond 0)", "must be positive"),
    (f"{COLUMNS} USING json OPTIONS (path '{{0}}', mode 'FAILFAST')", "the option mode cannot be chosen"),
    (
        f"{COLUMNS} USING json OPTIONS (path '{{0}}', multiLine true, maxFilesPerTrigger 'abc')",
        "option maxFilesPerTrigger of json cannot be 'abc'[^$]*must be a positive integer",
    ),
    (
        f"{COLUMNS} USING parquet OPTIONS (path '{{0}}', cleanSource 'delete', maxFileAge 'zzz')",
        "option maxFileAge of parquet cannot be 'zzz'[^$]*Time must be",
    ),
    (
        f"{COLUMNS} USING parquet OPTIONS (path '{{0}}', cleanSource 'archive')",
        "option cleanSource of parquet cannot be 'archive'[^$]*sourceArchiveDir",
    ),
    (
        "(value STRING) TIMESTAMP BY at TIMESTAMP HEARTBEAT CLOCK USING text OPTIONS (path '{0}', latestFirst 'maybe')",
        "option latestFirst of text cannot be 'maybe'[^$]*must be 'true' or 'false'",
    ),
    (
        f"{COLUMNS} USING csv OPTIONS (path '{{1}}', header 'maybe')",
        "option header of csv cannot be 'maybe'[^$]*can be true or false",
    ),
    (
        f"{COLUMNS} USING csv OPTIONS (path '{{1}}', quote 'long', maxFilesPerTrigger 0)",
        "option quote of csv cannot be 'long'[^$]*more than one character",
    ),
    ("(k INT, w STRING) TIMESTAMP BY ts USING parquet OPTIONS (path '{0}')", r'has no column "w"[^$]*k int, v string'),
    (
        "(k INT, v INT) TIMESTAMP BY ts USING parquet OPTIONS (path '{0}')",
        '"v" is declared INT, and parquet has STRING',
    ),
    ("(v STRING, w INT) TIMESTAMP BY ts USING csv OPTIONS (path '{1}', header true)", 'csv has no column "w"'),
]


@pytest.mark.parametrize(("declared", "message"), REFUSALS, ids=[message[:30] for _, message in REFUSALS])
def test_a_source_that_does_not_fit_is_refused(
    shared: ms.Database, places: tuple[Path, Path], declared: str, message: str
) -> None:
    before = shared.engine.snapshot
    with pytest.raises(ms.Error, match=message) as refused:
        shared.execute(f"CREATE STREAM s {declared.format(*places)}")
    assert refused.value.place is not None
    assert "\tat " not in str(refused.value)
    assert shared.engine.snapshot is before
    assert "s" not in shared.catalog


@pytest.fixture(scope="module")
def shared(session: SparkSession) -> Iterator[ms.Database]:
    with ms.connect(spark=session) as opened:
        yield opened


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("places")
    (root / "csv").mkdir()
    (root / "csv" / "1.csv").write_text("k,v,ts\n1,x,2\n")
    return write(root / "parquet", "parquet"), root / "csv"


def test_values_of_options_are_checked_for_tables_too(shared: ms.Database, places: tuple[Path, Path]) -> None:
    with pytest.raises(ms.BindError, match="option encoding of csv cannot be 'nonsense'"):
        shared.execute(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{places[1]}', encoding 'nonsense')")
    good = "maxFilesPerTrigger 1, maxFileAge '2d', latestFirst true, cleanSource 'off', header true, multiLine false"
    shared.execute(f"CREATE STREAM good {COLUMNS} USING csv OPTIONS (path '{places[1]}', {good})")


def test_directories_give_columns(db: ms.Database, tmp_path: Path) -> None:
    for number, (name, rows) in enumerate(sorted(FILES.items())):
        (tmp_path / "in" / f"part={number}").mkdir(parents=True)
        pq.write_table(table_of(rows), tmp_path / "in" / f"part={number}" / f"{name}.parquet")
    db.execute(
        f"""CREATE STREAM s (k INT, part INT) TIMESTAMP BY ts USING parquet OPTIONS (path '{tmp_path}/in');
        REGISTER QUERY q AS SELECT part, k FROM s"""
    )
    db.run()
    db.advance(to=40)
    found = {(row["part"], row["k"]) for row in db.query("q").result().to_pylist()}
    assert found == {(0, 1), (0, 2), (1, 5), (1, 2), (2, 1), (2, 3)}


def test_a_failing_source_is_named_and_loses_nothing(db: ms.Database, tmp_path: Path) -> None:
    good, bad = write(tmp_path / "good", "json"), write(tmp_path / "bad", "parquet")
    db.execute(f"CREATE STREAM good {COLUMNS} USING json OPTIONS (path '{good}')")
    db.execute(f"CREATE STREAM bad {COLUMNS} USING parquet OPTIONS (path '{bad}')")
    whole = (bad / "b.parquet").read_bytes()
    (bad / "b.parquet").write_bytes(whole[:-9])
    with pytest.raises(ms.Error, match=r"stream bad: .*b\.parquet cannot be read") as failed:
        db.run()
    assert "Traceback" not in str(failed.value)
    assert db.stats()["streams"]["bad"]["arrived"] == 0
    (bad / "b.parquet").write_bytes(whole)
    db.run()
    assert answers(db, "bad") == answers(db, "good") == inserted(ROWS)


class Greeter(socketserver.ThreadingTCPServer):
    daemon_threads = True


class Greeting(socketserver.BaseRequestHandler):
    """Says three lines to whoever connects, and waits until they hang up."""

    def handle(self) -> None:
        self.request.sendall(b"one\ntwo\nthree\n")
        self.request.recv(1)


def test_sources_that_never_end(db: ms.Database) -> None:
    server = Greeter(("127.0.0.1", 0), Greeting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    db.execute(
        f"""CREATE STREAM lines (value STRING) TIMESTAMP BY at TIMESTAMP HEARTBEAT CLOCK
            USING socket OPTIONS (host '127.0.0.1', port {port});
        CREATE STREAM ticks (value BIGINT) TIMESTAMP BY timestamp TIMESTAMP
            USING rate OPTIONS (rowsPerSecond 20)"""
    )
    lines, ticks = db.register("SELECT value FROM lines"), db.register("SELECT value FROM ticks")
    for _ in range(10):
        db.run(2.0)
        if lines.result().num_rows and ticks.result().num_rows > 20:
            break
    server.shutdown()
    server.server_close()
    assert {row["value"] for row in lines.result().to_pylist()} == {"one", "two", "three"}
    values = [row["value"] for row in ticks.result().to_pylist()]
    assert values == list(range(len(values)))
    assert len(values) > 20
