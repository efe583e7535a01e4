"""Queries in Spark's SQL are answered as Spark answers them (spark_answers.json), or refused; never otherwise."""

from __future__ import annotations

import json

import pyarrow as pa
from tests.language.spark_texts import ANSWERS, ERROR, TABLES, answered, queries, shown

import millstream as ms

# Decided: / on integers truncates.
DEPARTURES = {
    # Any rows: ours go by their columns.
    "SELECT i FROM t LIMIT 1",
    "SELECT i FROM t OFFSET 1",
    "SELECT 7 / 2 AS a",
    "SELECT -7 / 2 AS a",
    "SELECT 2 + 3 * 4 AS a, (2 + 3) * 4 AS b, 2 - 3 - 4 AS c, 24 / 4 / 2 AS d",
}

_NAMES = {
    "bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "float": "float",
    "double": "double", "string": "string", "large_string": "string", "binary": "binary", "large_binary": "binary",
    "date32[day]": "date", "timestamp[us, tz=UTC]": "timestamp", "timestamp[us]": "timestamp_ntz",
    "duration[us]": "interval", "null": "void",
}  # fmt: skip


def _type(kind: pa.DataType) -> str:
    """As Spark calls it."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{_type(kind.value_type)}>"
    return _NAMES[str(kind)]


def _without_units(kind: str) -> str:
    """Ours run from DAY TO SECOND, all of them."""
    return "interval" if kind.startswith("interval ") else kind


def test_answers_are_those_of_spark() -> None:
    answers, wrong = json.loads(ANSWERS.read_text()), []
    assert sorted(answers) == sorted(queries())
    with ms.connect(engine="inprocess") as db:
        for name, (columns, values) in TABLES.items():
            db.execute(f"CREATE TABLE {name} ({columns}); INSERT INTO {name} VALUES {', '.join(values)}")
        for query in queries():
            if query in DEPARTURES or answers[query] == ERROR:
                continue
            db.execute("SET timezone = 'UTC'")
            try:
                table = db.execute(query).table
            except ms.Error:
                assert query not in answered()
                continue
            assert table is not None
            names = [name for name in table.column_names if name != "_ts"]
            unique = [f"c{place}" for place in range(len(names))]
            found = table.select(names).rename_columns(unique)
            rows, types = shown(tuple(row.values()) for row in found.to_pylist()), [_type(f.type) for f in found.schema]
            if rows != answers[query]["rows"] or types != [_without_units(kind) for kind in answers[query]["types"]]:
                wrong.append((query, rows, types, answers[query]))
    assert wrong == []
