"""Queries as text, and what Spark SQL (ANSI mode, UTC) answers to them: the types of the columns, and the rows.

`python -m tests.language.spark_texts` asks Spark what it was not asked before, with `all` everything, and writes the
answers beside the queries: the test needs none.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from millstream.spark.session import embedded_session

_HERE = Path(__file__).parent
TEXTS, ANSWERS = _HERE / "spark_texts.txt", _HERE / "spark_answers.json"
TABLES = {
    "t": ("i INT, j INT, s STRING, x DOUBLE, d DECIMAL(10,2)", [
        "(1, 10, 'a', 1.5e0, 1.25)", "(2, 20, 'B', -2.5e0, 7.50)", "(2, 20, 'B', -2.5e0, 7.50)",
        "(NULL, 1, NULL, NULL, NULL)",
        "(3, NULL, '', 0e0, -0.01)",
    ]),
    "u": ("i INT, k INT", ["(1, 1)", "(2, 2)", "(2, 3)", "(4, 4)", "(NULL, 5)"]),
}  # fmt: skip
_SETTINGS = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "1"}
ERROR = "error"
IN_ZONE = re.compile(r"SET timezone = '([^']*)'; ")  # before a query that is asked in another zone than UTC
ANSWERED = "# From here on all are answered."


def queries() -> list[str]:
    lines = TEXTS.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def answered() -> set[str]:
    """The queries that must not be refused."""
    return set(TEXTS.read_text().partition(ANSWERED)[2].splitlines())


def shown(rows: Iterable[Sequence[Any]]) -> list[list[str]]:
    """The rows as texts that differ where values do, in some order: relations are bags."""
    return sorted([_shown(value) for value in row] for row in rows)


def _shown(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return (value.astimezone(dt.UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat(" ")
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    return f"{type(value).__name__} {value}" if isinstance(value, bool | str) else str(value)


def main() -> None:
    started = embedded_session("local[1]")
    spark = started.session.newSession()
    spark.sparkContext.setLogLevel("OFF")
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    for name, (columns, rows) in TABLES.items():
        declared = [column.split(" ") for column in columns.split(", ")]
        casts = ", ".join(f"CAST({column} AS {kind}) AS {column}" for column, kind in declared)
        text = f"SELECT {casts} FROM VALUES {', '.join(rows)} AS v({', '.join(column for column, _ in declared)})"
        spark.sql(text).createOrReplaceTempView(name)
    known = {} if sys.argv[1:] == ["all"] else json.loads(ANSWERS.read_text())
    answers: dict[str, str | dict[str, object]] = {}
    for query in queries():
        if query in known:
            answers[query] = known[query]
            continue
        try:
            zone = IN_ZONE.match(query)
            spark.conf.set("spark.sql.session.timeZone", zone[1] if zone else "UTC")
            found = spark.sql(IN_ZONE.sub("", query).rstrip(";"))
            types = [field.dataType.simpleString() for field in found.schema]
            answers[query] = {"types": types, "rows": shown(tuple(row.values()) for row in _rows(found))}
        except Exception:  # whatever Spark says, and whatever cannot be brought here
            answers[query] = ERROR
    started.stop()
    ANSWERS.write_text(json.dumps(answers, indent=0, ensure_ascii=False) + "\n")


def _rows(found: Any) -> list[dict[str, Any]]:
    table = found.toArrow()
    unique = [f"c{place}" for place in range(table.num_columns)]
    return list(table.rename_columns(unique).to_pylist())


if __name__ == "__main__":
    main()
