"""Files of sources: whatever they are called and whatever is in them, rows are malformed or the file is named."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

import millstream as ms

pytestmark = pytest.mark.spark

COLUMNS = "(k INT, v STRING) TIMESTAMP BY ts HEARTBEAT EXPLICIT"
LINES = "(value STRING) TIMESTAMP BY at TIMESTAMP HEARTBEAT CLOCK"
NAMES = [
    "a*",
    "ab",
    "ac",
    "a?",
    "a[bc]",
    "z",
    "col:on",
    "sp ace",
    "p%25c",
    "ha#sh",
    "ü",
    "cu{a,b}",
    "b\\s",
    "n\nl",
    "c,d",
]
BROKEN = pa.array([b"ok", b"caf\xe9", b"fine"]).view(pa.string())


@pytest.fixture(scope="module")
def db(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ms.Database]:
    with ms.connect(tmp_path_factory.mktemp("files") / "db", spark=session) as opened:
        yield opened


def table(*rows: tuple[Any, ...], kind: pa.DataType | None = None, **more: Any) -> pa.Table:
    k, v, ts = zip(*rows, strict=True)
    return pa.table({"k": pa.array(k, kind or pa.int32()), "v": pa.array(v, pa.string()), "ts": pa.array(ts), **more})


def source(db: ms.Database, place: Path, name: str, kind: str, files: dict[str, Any], **more: str) -> None:
    """A stream over files: bytes as they are, tables in the format."""
    (place / name).mkdir()
    for file, content in files.items():
        path = place / name / file
        path.parent.mkdir(exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            {"parquet": pq, "orc": orc}[kind].write_table(content, str(path))
    given = {"path": str(place / name), **{key: value for key, value in more.items() if key != "columns"}}
    options = ", ".join(f"{key} '{value}'" for key, value in given.items())
    db.execute(f"CREATE STREAM {name} {more.get('columns', COLUMNS)} USING {kind} OPTIONS ({options})")


def told(db: ms.Database, text: str) -> list[tuple[Any, ...]]:
    db.advance(to=100)
    rows = db.execute(text).table.to_pylist()  # type: ignore[union-attr]
    return sorted((tuple(row[name] for name in row if name != "_ts") for row in rows), key=str)


def drop(db: ms.Database, *names: str) -> None:
    for name in names:
        db.execute(f"DROP STREAM {name}")


def test_texts_that_are_not_utf8_are_malformed(db: ms.Database, tmp_path: Path) -> None:
    source(db, tmp_path, "lines", "text", {"1": b"ok\ncaf\xe9\nfine\n"}, columns=LINES)
    source(db, tmp_path, "csv", "csv", {"1": b"1,ok,1\n2,caf\xe9,2\n3,\xef\xbf\xbd,3\n4\xff,z,4\n"})
    source(db, tmp_path, "json", "json", {"1": b'{"k":1,"v":"ok","ts":1}\n{"k":2,"v":"\xff","ts":2}\n'})
    texts = pa.table({"k": pa.array([1, 2, 3], pa.int32()), "v": BROKEN, "ts": [1, 2, 3]})
    source(db, tmp_path, "parquet", "parquet", {"1.parquet": texts, "2.parquet": table((4, "x", 9))})
    binary = texts.set_column(1, "v", pa.array([b"ok", b"caf\xe9", b"fine"]))
    source(db, tmp_path, "binary", "parquet", {"1.parquet": binary})
    db.run()
    db.advance(to=50)
    reason = 'column "v" is not UTF-8: caf\\xe9'
    assert told(db, "SELECT value FROM lines") == [("fine",), ("ok",)]
    assert told(db, "SELECT reason FROM lines._malformed") == [('column "value" is not UTF-8: caf\\xe9',)]
    assert told(db, "SELECT k, v FROM csv") == [(1, "ok"), (3, "\ufffd")]
    assert told(db, "SELECT reason FROM csv._malformed") == [(reason,), ("the line is not UTF-8: 4\\xff,z,4",)]
    assert told(db, "SELECT k FROM json") == [(1,)]
    assert told(db, "SELECT raw FROM json._malformed") == [('{"k":2,"v":"\\xff","ts":2}',)]
    for name, rows in (("parquet", [(1, "ok"), (3, "fine"), (4, "x")]), ("binary", [(1, "ok"), (3, "fine")])):
        assert told(db, f"SELECT k, v FROM {name}") == rows
        assert told(db, f"SELECT reason FROM {name}._malformed") == [(reason,)]
    drop(db, "lines", "csv", "json", "parquet", "binary")


HALF = '"\\ud800"'
LINES_OF_JSON = [
    '{"k": 1, "v": "what?", "ts": 1}',
    '{"k": 2, "v": "a\\ud800b", "ts": 2}',
    '{"k": 3, "v": "\\ud83d\\ude00?", "ts": 3}',
    f'{{"k": 4, "v": "fine", "w": {HALF}, "ts": 4}}',
    '{"k": 5, "v": "\\\\ud800", "ts": 5}',
    '{"k": 6, "v": "\\ude00\\ud83d", "ts": 6}',
    '{"k": "x", "v": "\\ud800", "ts": 7}',
    "",
    '[{"k": 8, "v": "one", "ts": 8}, {"k": 9, "v": "two", "ts": 9}]',
    '{"k": 10, "v": "last", "ts": 10}',
]


def test_halves_of_characters_are_malformed(db: ms.Database, tmp_path: Path) -> None:
    """Spark reads them as question marks."""
    content = "\n".join(LINES_OF_JSON).encode()
    files = {"a.json": content, "b.json": b'{"k": 20, "v": "really?", "ts": 20}', "c.json.gz": gzip.compress(content)}
    source(db, tmp_path, "json", "json", {**files, "day=3/d.json": b'{"k": 30, "v": "\\udc00", "ts": 30}'})
    db.run()
    good = [(1, "what?"), (10, "last"), (3, "\U0001f600?"), (4, "fine"), (5, "\\ud800"), (8, "one"), (9, "two")]
    assert told(db, "SELECT k, v FROM json") == sorted([*good, *good, (20, "really?")], key=str)
    found = told(db, "SELECT raw, reason FROM json._malformed")
    reason = 'column "v" is not Unicode: half of a surrogate pair'
    expected = [(LINES_OF_JSON[place], reason) for place in (1, 5, 6)]
    assert found == sorted([*expected, *expected, ('{"k": 30, "v": "\\udc00", "ts": 30}', reason)], key=str)
    assert db.stats()["streams"]["json"]["arrived"] == 15
    drop(db, "json")


def test_names_of_files_are_no_patterns(db: ms.Database, tmp_path: Path) -> None:
    source(db, tmp_path, "csv", "csv", {name: f"{n},v,{n}\n".encode() for n, name in enumerate(NAMES)})
    rows = [json.dumps({"k": n, "v": "v", "ts": n}).encode() for n in range(len(NAMES))]
    source(db, tmp_path, "json", "json", dict(zip(NAMES, rows, strict=True)))
    source(db, tmp_path, "lines", "text", {name: str(n).encode() for n, name in enumerate(NAMES)}, columns=LINES)
    # A NULL among the timestamps, so that footers do not suffice.
    tables = {name: table((n, "v", n), (n, "v", None)) for n, name in enumerate(NAMES)}
    source(db, tmp_path, "parquet", "parquet", tables)
    db.run()
    for name in ("csv", "json", "parquet"):
        assert told(db, f"SELECT k FROM {name}") == sorted([(n,) for n in range(len(NAMES))], key=str), name
    assert len(told(db, "SELECT value FROM lines")) == len(NAMES)
    drop(db, "csv", "json", "lines", "parquet")


PACKED = gzip.compress(b"1,x,1\n2,y,2\n" * 3000)
BAD_FILES = {
    "csv": ({"a.csv.gz": PACKED[: len(PACKED) // 2], "b.csv": b"3,z,3\n"}, "Unexpected end of input stream"),
    "json": ({"a.json.gz": b"nonsense", "b.json": b'{"k":3,"v":"z","ts":3}\n'}, "Not a gzipped file"),
    "parquet": ({"a.parquet": b"", "b.parquet": table((3, "z", 3))}, "size is 0 bytes"),
    "orc": (
        {"a.orc": pa.table({"k": ["x"], "v": ["y"], "ts": [1]}), "b.orc": table((3, "z", 3))},
        'column "k" is declared INT, and the file has STRING',
    ),
}


def test_a_bad_file_is_named_or_passed_over(db: ms.Database, tmp_path: Path) -> None:
    for kind, (files, _) in BAD_FILES.items():
        source(db, tmp_path, kind, kind, files, on_bad_file="skip")
    db.run()
    for kind, (files, reason) in BAD_FILES.items():
        ((file, why),) = told(db, f"SELECT file, reason FROM {kind}._files")
        assert (file, reason in why) == (str(tmp_path / kind / next(iter(files))), True), why
        assert told(db, f"SELECT k, v FROM {kind}") == [(3, "z")]
        assert db.stats()["streams"][kind]["skipped_files"] == 1
    drop(db, *BAD_FILES)
    source(db, tmp_path, "stopped", "csv", BAD_FILES["csv"][0])
    with pytest.raises(ms.InputError, match=r"stopped/a\.csv\.gz cannot be read\ndetail: Unexpected end") as failed:
        db.run()
    assert "\tat " not in str(failed.value)
    (tmp_path / "stopped" / "a.csv.gz").write_bytes(PACKED)
    db.run()
    assert db.stats()["streams"]["stopped"]["arrived"] == 6001
    drop(db, "stopped")


def test_columns_are_found_by_name(db: ms.Database, tmp_path: Path) -> None:
    texts = {
        "a": b"k,v,ts\n1,x,1\n",
        "b": b"ts,w,k\n2,q,2\n3,q\n",
        "c": b"\xef\xbb\xbfK,V,TS\r\n3,\xc3\xa9,3\r\n",
        "d": b"k,v,ts\n",
        "e": b"",
    }
    source(db, tmp_path, "csv", "csv", texts, header="true")
    b, c = table((2, "-", 2), w=["q"]).select(["ts", "w", "k"]), table((3, "é", 3), kind=pa.int16())
    for kind in ("parquet", "orc"):
        source(db, tmp_path, kind, kind, {"a": table((1, "x", 1)), "b": b, "c": c})
    objects = b'{"k":1,"v":"x","ts":1}', b'{"ts":2,"w":"q","k":2}', '{"K":3,"V":"é","TS":3}'.encode()
    source(db, tmp_path, "json", "json", dict(zip("abc", objects, strict=True)))
    db.run()
    for kind in ("csv", "parquet", "orc", "json"):
        assert told(db, f"SELECT k, v FROM {kind}") == [(1, "x"), (2, None), (3, "é")], kind
        assert db.stats()["streams"][kind]["drift"] == {"missing v": 1, "extra w": 1}, kind
    assert told(db, "SELECT raw, reason FROM csv._malformed") == [("3,q", "2 values, not 3")]
    drop(db, "csv", "parquet", "orc", "json")


def test_values_over_several_lines_and_long_ones(db: ms.Database, tmp_path: Path) -> None:
    lines = {"1": b'1,"a\nb",1\n2,y,2\nx,"c\nd",3\n'}
    source(db, tmp_path, "several", "csv", lines, multiLine="true")
    source(db, tmp_path, "single", "csv", lines)
    long = b'{"k":1,"v":"%s","ts":1}\n{"k":2,"v":"x","ts":2}\n' % (b"a" * 21_000_000)
    source(db, tmp_path, "long", "json", {"1": long})
    db.run()
    assert told(db, "SELECT k, v FROM several") == [(1, "a\nb"), (2, "y")]
    assert told(db, "SELECT raw, reason FROM several._malformed") == [('x,"c\nd",3', "column \"k\": 'x' is not INT")]
    assert told(db, "SELECT k FROM single") == [(2,)]
    assert "2 values, not 3; a quoted value over several lines needs OPTIONS (multiLine 'true')" in {
        reason for (reason,) in told(db, "SELECT reason FROM single._malformed")
    }
    assert told(db, "SELECT k FROM long") == [(2,)]
    ((reason,),) = told(db, "SELECT reason FROM long._malformed")
    assert reason.startswith('column "v": 21000000 bytes are more than')
    drop(db, "several", "single", "long")


def test_options_of_bad_files_are_checked(db: ms.Database, tmp_path: Path) -> None:
    for option, message in (
        ("on_bad_file 'never'", "'stop' or 'skip', not 'never'"),
        ("ignoreCorruptFiles true", "ignoreCorruptFiles cannot be chosen"),
    ):
        with pytest.raises(ms.BindError, match=message):
            db.execute(f"CREATE STREAM s {COLUMNS} USING json OPTIONS (path '{tmp_path}', {option})")
    with pytest.raises(ms.BindError, match="on_bad_file is for files"):
        db.execute(
            "CREATE STREAM s (value BIGINT) TIMESTAMP BY timestamp TIMESTAMP USING rate OPTIONS (on_bad_file 'skip')"
        )
