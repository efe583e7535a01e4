"""Lists come from files and go to files as Spark has them, and are joined over several shards."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import millstream as ms

pytestmark = pytest.mark.spark


def test_lists_from_files_to_files(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "columns").mkdir()
    (tmp_path / "lines").mkdir()
    rows = [{"k": 1, "xs": [1, None], "t": 1}, {"k": 2, "xs": None, "t": 2}, {"k": 3, "xs": [], "t": 3}]
    schema = pa.schema([("k", pa.int32()), ("xs", pa.list_(pa.int32())), ("t", pa.int64())])
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "columns" / "a.parquet")
    lines = [*map(json.dumps, rows), '{"k": 4, "xs": ["z"], "t": 4}', '{"k": 5, "xs": 7, "t": 5}']
    (tmp_path / "lines" / "a.json").write_text("\n".join(lines) + "\n")
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute("SET shards = 2")
        for name, kind, folder in (("P", "parquet", "columns"), ("J", "json", "lines")):
            db.execute(
                f"CREATE STREAM {name} (k INT, xs ARRAY<INT>) TIMESTAMP BY t BIGINT "
                f"USING {kind} OPTIONS (path '{tmp_path}/{folder}')"
            )
        db.execute(
            "REGISTER QUERY q AS SELECT P.k, P.xs, J.k AS other FROM P [RANGE 9] JOIN J [RANGE 9] ON P.xs = J.xs"
        )
        for kind in ("parquet", "json", "csv"):
            db.execute(f"CREATE SINK {kind} FOR q USING {kind} OPTIONS (path '{tmp_path}/out/{kind}')")
        db.run()
        db.execute("ADVANCE TO 9")
        assert db.query("q").result().to_pylist() == [
            {"k": 1, "xs": [1, None], "other": 1},
            {"k": 3, "xs": [], "other": 3},
        ]
        reasons = [row[-1] for row in db.execute("SELECT raw, reason FROM J._malformed").fetchall()]
        assert sorted(reasons) == ['column "xs": 7 is not ARRAY<INT>', 'column "xs": ["z"] is not ARRAY<INT>']
        with pytest.raises(ms.TypeError, match="csv has no lists"):
            db.execute(f"CREATE STREAM C (xs ARRAY<INT>) TIMESTAMP BY t BIGINT USING csv OPTIONS (path '{tmp_path}')")
    out = tmp_path / "out"
    found = [row for path in sorted(out.glob("parquet/*/*.parquet")) for row in pq.read_table(path).to_pylist()]
    assert [row["xs"] for row in found if row["_weight"] > 0] == [[1, None], []]
    written = [json.loads(line) for path in out.glob("json/*/part-*") for line in path.read_text().splitlines()]
    assert sorted(row["xs"] for row in written if row["_weight"] > 0) == [[], [1, None]]
    assert any('"[1,null]"' in path.read_text() for path in out.glob("csv/*/part-*"))
