"""Joins of three streams, and statistics of these."""

from __future__ import annotations

from millstream.plan.cost import SourceStatistics

SCHEMA = """
CREATE STREAM S (a INT, b INT) TIMESTAMP BY ts;
CREATE STREAM T (a INT, b INT) TIMESTAMP BY ts;
CREATE STREAM U (a BIGINT, b INT) TIMESTAMP BY ts;
CREATE TABLE N (a INT, name STRING) NON RETROACTIVE;
"""
ON_A_KEY = "SELECT S.b, T.b, U.b FROM S [RANGE 5000], T [RANGE 5000], U [RANGE 5000] WHERE S.a = T.a AND T.a = U.a"
CHAIN = "SELECT S.b, U.b FROM S [RANGE 5000], T [RANGE 5000], U [RANGE 5000] WHERE S.a = T.a AND T.b = U.b"
MANY_KEYS = {name: SourceStatistics(1, 0, (50_000.0, 50_000.0)) for name in "stu"}
FEW_KEYS = {name: SourceStatistics(1, 0, (500.0, 500.0)) for name in "stu"}
