"""Joins with consumers above them, and what EXPLAIN ANALYZE says of what they made."""

from __future__ import annotations

import re

from millstream.database import Database

SCHEMA = """
CREATE STREAM A (k INT, x INT) TIMESTAMP BY ts;
CREATE STREAM B (k INT, y INT) TIMESTAMP BY ts;
CREATE STREAM C (y INT, z INT) TIMESTAMP BY ts;
CREATE STREAM S (x INT, z INT) TIMESTAMP BY ts;
CREATE STREAM R (x INT, y INT) TIMESTAMP BY ts;
CREATE TABLE T (x INT, t INT);
CREATE TABLE N (x INT, n INT) NON RETROACTIVE;
"""
TWO = "A [RANGE 60] JOIN B [RANGE 60] ON A.k = B.k"
THREE = f"{TWO} JOIN C [RANGE 60] ON B.y = C.y"


def counts(db: Database, query: str) -> dict[str, int]:
    """How many rows a query's joins have made, suspended and resumed, by the words of EXPLAIN ANALYZE."""
    text = str(db.execute(f"EXPLAIN ANALYZE QUERY {query}"))
    (line,) = [line for line in text.split("\n") if ": made" in line]
    return {name: int(number) for name, number in re.findall(r"(\w+) (\d+)", line.split(": ")[1])}
