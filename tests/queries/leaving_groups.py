"""Groups of which queries leave."""

from __future__ import annotations

from pathlib import Path

from tests.queries.coming_and_going import STREAMS, TEXTS, feed, feed_missing

import millstream as ms
from millstream.database import Database
from millstream.queries import sharing_choice


def grouped(path: Path | None, text: str, setup: str = STREAMS) -> Database:
    """Queries of a group, q0 to q3, which have had some rows."""
    db = opened(path)
    db.execute(setup)
    register(db, text)
    feed(db, 0, 30)
    return db


def opened(path: Path | None) -> Database:
    db = ms.connect(path, engine="inprocess")
    db._queries.replanning.least_rows = 1 << 40
    return db


def register(db: Database, text: str) -> None:
    """Two are enough for a group."""
    usual, sharing_choice.ENOUGH_TO_SHARE = sharing_choice.ENOUGH_TO_SHARE, 2
    try:
        queries = [db.register(text.format(c=c), name=f"q{c}") for c in range(4)]
    finally:
        sharing_choice.ENOUGH_TO_SHARE = usual
    assert all(query.number is not None for query in queries)


def left_alone(db: Database) -> ms.Query:
    """The query that is left when all others of its group have gone."""
    for query in db.queries():
        if query.name in ("q0", "q1", "q2"):
            query.drop()
    return db.query("q3")


def leave_one(db: Database) -> bool:
    """Have one leave that is better off alone; tells whether one is on its way."""
    replanning = db._queries.replanning
    return any(replanning.leaving.consider(group, replanning.margin) for group in [*db.engine.groups])


def leave(db: Database) -> None:
    """Have all leave that are better off alone."""
    leaving = db._queries.replanning.leaving
    assert leave_one(db)
    while db.engine.groups and leave_one(db):
        db.engine.notifier.wait_until(lambda: not any(map(leaving.is_leaving, db.queries())), 60)
        assert not any(map(leaving.is_leaving, db.queries()))
    db.engine.background.do(lambda: None)


def come_and_leave(path: Path) -> None:
    """A group comes and ends, by as many steps as have not been done before."""
    with opened(path) as db:
        if "s" not in db.catalog:
            db.execute(STREAMS)
        known = {query.name for query in db.queries()}
        if "stays" not in known:
            db.register("SELECT u, v FROM s [RANGE 7]", name="stays")
        if "q3" not in known:
            register(db, TEXTS[0])
        feed_missing(db, 30)
        query = left_alone(db)
        if query.number is not None:
            leave(db)
        feed_missing(db, 40)
