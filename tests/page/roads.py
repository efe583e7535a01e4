"""A small database to look at: cars that report where they are, and some queries about them."""

from __future__ import annotations

import millstream as ms

DECLARED = """
CREATE STREAM Cars (car INT, segment INT, speed INT) TIMESTAMP BY ts;
REGISTER QUERY recent AS SELECT car, segment, speed FROM Cars [RANGE 10];
REGISTER QUERY slow AS SELECT segment, min(speed) AS least FROM Cars [RANGE 10] GROUP BY segment HAVING avg(speed) < 52;
REGISTER QUERY fast AS SELECT ISTREAM(car, speed) FROM Cars [RANGE 10] WHERE speed > 60
"""


def roads(path: str | None = None) -> ms.Database:
    """A database with three queries and reports up to the instant 30."""
    db = ms.connect(path, engine="inprocess")
    db.execute(DECLARED)
    drive(db, 0, 31)
    return db


def drive(db: ms.Database, start: int, end: int) -> None:
    """Reports of two cars at every instant; all before the last one is final."""
    rows = [
        (car, instant % 4, 30 + 5 * ((instant + car) % 9), instant) for instant in range(start, end) for car in (1, 2)
    ]
    db.insert("Cars", rows)
    db.advance("Cars", to=end - 1)
