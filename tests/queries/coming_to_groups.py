"""Groups that queries with plans of their own come to."""

from __future__ import annotations

import os
from pathlib import Path

from tests.queries.coming_and_going import STREAMS, TEXTS, feed_missing

import millstream as ms
from millstream.database import Database
from millstream.queries import sharing_choice


def gather(db: Database) -> int:
    """Have all come that may; tells how many do."""
    replanning = db._queries.replanning
    return sum(replanning.gather(group) for group in [*db.engine.groups])


def come_and_go_on(path: Path, text: str = TEXTS[0], fault: str = "") -> None:
    """Queries come to a group that others have begun, by as many steps as have not been done before. The process is
    killed while they come, where a fault says so."""
    sharing_choice.ENOUGH_TO_SHARE = 2
    with ms.connect(path, engine="inprocess") as db:
        if "s" not in db.catalog:
            db.execute(f"SET replan = 'off'; {STREAMS}")
        known = {query.name for query in db.queries()}
        names = ["stays", *(f"own{c}" for c in range(2)), *(f"other{c}" for c in range(2, 6))]
        for number, name in enumerate(names):
            if name not in known:
                db.register("SELECT u, v FROM s [RANGE 7]" if name == "stays" else text.format(c=number), name=name)
            feed_missing(db, 20 if number < 3 else 30)
        os.environ["MILLSTREAM_FAULT"] = fault
        gather(db)
        feed_missing(db, 40)
