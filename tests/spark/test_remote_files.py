"""Files of other file systems than this machine's, and packed ones: columns are found by name there, too."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import millstream as ms

pytestmark = pytest.mark.spark

COLUMNS = "(k INT, v STRING) TIMESTAMP BY ts HEARTBEAT EXPLICIT"
CSV = {
    "a.csv": b"k,v,ts\n1,x,1\n",
    "b.csv": b"\n\nts,w,k\n2,q,2\n3,q\n",
    "c.csv.gz": zlib.compress("v,ts,K\né,3,3\n".encode(), wbits=31),
    "d.csv.zst": pa.compress(b"v,ts,k\ny,4,4\n", "zstd", asbytes=True),
    "e.csv.deflate": zlib.compress(b"v,ts,k\nz,5,5\n"),
}
ROWS = [(1, "x"), (2, None), (3, "é"), (4, "y"), (5, "z")]
BROKEN = {"f.csv": b"something,else\n1,2\n", "g.csv.gz": b"nonsense", "h.csv": b"k,v,ts\n6,caf\xe9,6\n7,ok,7\n"}


def parquet(**columns: list[object]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({n: pa.array(v, pa.int32() if n == "k" else None) for n, v in columns.items()}), file)
    return file.getvalue()


PARQUET = {
    "a.parquet": parquet(k=[1], v=["x"], ts=[1]),
    "b.parquet": parquet(ts=[2], w=["q"], k=[2]),
    "c.parquet": parquet(ts=["late"], k=[2], v=["x"]),
    "d.parquet": b"nonsense that is no Parquet",
}


@pytest.fixture(scope="module")
def place(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that Spark also knows as viewfs://ours/."""
    made = tmp_path_factory.mktemp("remote")
    configuration = session.sparkContext._jsc.hadoopConfiguration()
    configuration.set("fs.viewfs.mounttable.ours.link./in", (made / "in").as_uri())
    (made / "in").mkdir()
    return made / "in"


@pytest.fixture
def db(session: SparkSession, tmp_path: Path) -> Iterator[ms.Database]:
    with ms.connect(tmp_path / "db", spark=session) as opened:
        yield opened


def told(db: ms.Database, text: str) -> list[tuple[object, ...]]:
    rows = db.execute(text).table.to_pylist()  # type: ignore[union-attr]
    return sorted((tuple(row[name] for name in row if name != "_ts") for row in rows), key=str)


def passed_over(db: ms.Database) -> dict[str, str]:
    return {str(file).rpartition("/")[2]: str(why) for file, why in told(db, "SELECT file, reason FROM s._files")}


@pytest.mark.parametrize("start", ["viewfs://ours/in", "file"])
def test_columns_are_found_by_name_wherever_files_lie(db: ms.Database, place: Path, start: str) -> None:
    (place / start[:4]).mkdir()
    for name, content in (CSV | BROKEN).items():
        (place / start[:4] / name).write_bytes(content)
    path = place / "file" if start == "file" else f"{start}/{start[:4]}"
    db.execute(f"CREATE STREAM s {COLUMNS} USING csv OPTIONS (path '{path}', header true, on_bad_file 'skip')")
    db.run()
    db.advance(to=100)
    assert told(db, "SELECT k, v FROM s") == [*ROWS, (7, "ok")]
    assert db.stats()["streams"]["s"]["drift"] == {"missing v": 1, "extra w": 1}
    assert told(db, "SELECT reason FROM s._malformed") == [("2 values, not 3",), ('column "v" is not UTF-8: caf\\xe9',)]
    files = passed_over(db)
    assert files["f.csv"] == "there is none of the declared columns: it has something, else"
    assert sorted(files) == ["f.csv", "g.csv.gz"]


def test_parquet_files_of_other_file_systems(db: ms.Database, place: Path) -> None:
    (place / "parquet").mkdir()
    for name, content in PARQUET.items():
        (place / "parquet" / name).write_bytes(content)
    db.execute(f"CREATE STREAM s {COLUMNS} USING parquet OPTIONS (path 'viewfs://ours/in/parquet', on_bad_file 'skip')")
    db.run()
    db.advance(to=100)
    assert told(db, "SELECT k, v FROM s") == [(1, "x"), (2, None)]
    assert db.stats()["streams"]["s"]["drift"] == {"missing v": 1, "extra w": 1}
    files = passed_over(db)
    assert files == {
        "c.parquet": 'column "ts" is declared BIGINT, and the file has STRING',
        "d.parquet": "it is not a Parquet file",
    }


def test_a_table_of_another_file_system(db: ms.Database, place: Path) -> None:
    (place / "names.csv").write_bytes(b"name,id\none,1\n" + b"x" * 2000 + b",2\nlonger,3\n")
    db.execute("SET max_value_bytes = 1024")
    path = "viewfs://ours/in/names.csv"
    db.execute(f"CREATE TABLE t (id INT, name VARCHAR(5)) USING csv OPTIONS (path '{path}', header true)")
    assert told(db, "SELECT id, name FROM t") == [(1, "one")]
    assert told(db, "SELECT reason FROM t._malformed") == [
        ('column "name": 2000 bytes are more than the 1,024 that a value may have',),
        ('column "name": 6 characters are more than the 5 of VARCHAR(5)',),
    ]


def test_large_values_of_parquet_files_are_malformed(db: ms.Database, place: Path) -> None:
    """Their footers would do, and do not tell."""
    (place / "large").mkdir()
    (place / "large" / "a.parquet").write_bytes(parquet(k=[1, 2], v=["x" * 1024, "x" * 1025], ts=[1, 2]))
    (place / "large" / "b.parquet").write_bytes(parquet(k=[3], v=["x"], ts=[3]))
    db.execute("SET max_value_bytes = 1024")
    db.execute(f"CREATE STREAM s {COLUMNS} USING parquet OPTIONS (path '{place}/large')")
    short = COLUMNS.replace("STRING", "VARCHAR(1024)")
    db.run()
    db.execute(f"SET max_value_bytes = '1 MB'; CREATE STREAM v {short} USING parquet OPTIONS (path '{place}/large')")
    db.run()
    db.advance(to=100)
    assert told(db, "SELECT k FROM s") == told(db, "SELECT k FROM v") == [(1,), (3,)]
    assert told(db, "SELECT reason FROM v._malformed") == [
        ('column "v": 1025 characters are more than the 1,024 of VARCHAR(1024)',)
    ]
    assert told(db, "SELECT reason FROM s._malformed") == [
        ('column "v": 1025 bytes are more than the 1,024 that a value may have',)
    ]
