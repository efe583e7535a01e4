"""SHOW has what was declared, and what has come of it."""

from __future__ import annotations

import millstream as ms


def test_streams_are_shown_with_what_has_come() -> None:
    with ms.connect(engine="inprocess") as db:
        assert db.execute("SHOW STREAMS").fetchall() == []
        db.execute("CREATE STREAM s (v INT) TIMESTAMP BY t; CREATE STREAM u (v INT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.execute("INSERT INTO s VALUES (1, 5), (1, 6), (1, 3)")
        first, second = db.execute("SHOW STREAMS").arrow().to_pylist()
        assert (first["name"], first["columns"], first["late"], first["malformed"]) == ("s", "(v INT)", 1, 0)
        assert (first["heartbeat"], first["lag_ms"]) == ("5", None)
        assert (second["name"], second["arrived"], second["heartbeat"]) == ("u", 0, None)
        db.execute("INSERT INTO u VALUES (1, TIMESTAMP '2026-01-01 00:00:00')")
        assert db.execute("SHOW STREAMS").arrow().to_pylist()[1]["lag_ms"] > 0
