"""Queries that are made to move to other plans."""

from __future__ import annotations

from pathlib import Path

import millstream as ms
from millstream.database import Database
from millstream.plan import physical as ph
from millstream.plan.cost import SourceStatistics, Statistics
from millstream.queries.templates import GroupTemplate

STREAMS = """
CREATE STREAM s (a INT, b INT) TIMESTAMP BY t;
CREATE STREAM t (a INT, b INT) TIMESTAMP BY t;
CREATE STREAM u (a INT, b INT) TIMESTAMP BY t;
"""
RETAINED = STREAMS.replace(";", " RETAIN 30;")
JOIN = "SELECT s.b, t.b, u.b FROM s [RANGE 20], t [RANGE 20], u [RANGE 20] WHERE s.a = t.a AND t.a = u.a"
CHAIN = "SELECT s.b, t.b, u.a FROM s [RANGE 20], t [RANGE 20], u [RANGE 20] WHERE s.a = t.a AND t.b = u.b AND s.b > {}"
FEW_KEYS = {name: SourceStatistics(50.0, 1000, (2.0, 2.0)) for name in "stu"}
MANY_KEYS = {name: SourceStatistics(1.0, 1000, (1000.0, 1000.0)) for name in "stu"}
MOST_KEYS = {name: SourceStatistics(1.0, 1000, (1e7, 1e7)) for name in "stu"}


def opened(path: Path | None = None, streams: str = STREAMS, least_rows: int = 1 << 40) -> Database:
    db = ms.connect(path, engine="inprocess")
    db._queries.replanning.least_rows = least_rows
    if "s" not in db.catalog:
        db.execute(streams)
    return db


def feed(db: Database, instants: range, keys: int = 4, rows: int = 2, only: str = "stu") -> None:
    for name in only:
        db.insert(name, [(t * rows % keys + n % keys, t + n, t) for t in instants for n in range(rows)])


def move(db: Database, name: str, statistics: Statistics | None) -> None:
    """Have a query move to the plan that it would have by these statistics."""
    assert leaves(db, name, statistics)
    wait(db, name)


def leaves(db: Database, name: str, statistics: Statistics | None) -> bool:
    replanning = db._queries.replanning
    replanning.margin = 0
    return replanning.consider(db.query(name), statistics)


def wait(db: Database, name: str) -> None:
    query = db.query(name)
    db.engine.notifier.wait_until(lambda: not db._queries.replanning.is_moving(query), 60)
    assert not db._queries.replanning.is_moving(query)


def joins(db: Database, name: str) -> str:
    return next(line.strip() for line in db.query(name).explain().splitlines() if "join" in line.lower())


def core_of(db: Database, name: str = "q0") -> str:
    """How what the group of a query reads is joined."""
    template = db.query(name).template
    assert isinstance(template, GroupTemplate)
    core = template.group.core or template.group.split.core
    return "stems" if any(isinstance(node, ph.StemJoin) for node in core.walk()) else "tree"


def feed_missing(db: Database, batch: int) -> bool:
    """The rows of a batch that are not there yet; tells whether some were not."""
    found = False
    for name in "stu":
        if db.stats()["streams"][name]["arrived"] <= batch * 20:
            feed(db, range(batch * 10, batch * 10 + 10), only=name)
            found = True
    return found
