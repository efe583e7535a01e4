"""Queries in Spark's SQL are answered as Spark answers them (spark_answers.json), or refused; never otherwise."""

from __future__ import annotations

import json

from tests.language.spark_texts import ANSWERS, ERROR, TABLES, queries, shown

import millstream as ms

# Decided: / on integers truncates, and intervals are shown from DAY TO SECOND. The others Spark refuses.
DEPARTURES = {
    "SELECT 7 / 2 AS a",
    "SELECT -7 / 2 AS a",
    "SELECT 2 + 3 * 4 AS a, (2 + 3) * 4 AS b, 2 - 3 - 4 AS c, 24 / 4 / 2 AS d",
    "SELECT CAST(INTERVAL '1' DAY AS STRING) AS a",
}


def test_answers_are_those_of_spark() -> None:
    answers, wrong = json.loads(ANSWERS.read_text()), []
    assert sorted(answers) == sorted(queries())
    with ms.connect(engine="inprocess") as db:
        for name, (columns, rows) in TABLES.items():
            db.execute(f"CREATE TABLE {name} ({columns}); INSERT INTO {name} VALUES {', '.join(rows)}")
        for query in queries():
            if query in DEPARTURES or answers[query] == ERROR:
                continue
            try:
                table = db.execute(query).table
            except ms.Error:
                continue
            assert table is not None
            names = [name for name in table.column_names if name != "_ts"]
            unique = [f"c{place}" for place in range(len(names))]
            found = shown(tuple(row.values()) for row in table.select(names).rename_columns(unique).to_pylist())
            if found != answers[query]:
                wrong.append((query, found, answers[query]))
    assert wrong == []
