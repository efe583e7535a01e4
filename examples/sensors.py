"""A building full of sensors, as in CACQ: everybody who works there asks about rooms of their own.

Queries come and go while readings flow. All of them share one selection (a grouped filter for each attribute) and one
SteM for each window that is joined.

    python examples/sensors.py             # in this process
    python examples/sensors.py spark       # on an embedded Spark
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

import millstream as ms

ROOMS = 40
DECLARATIONS = """
    CREATE STREAM Temperature (room INT, celsius DOUBLE) TIMESTAMP BY ts TICK INTERVAL '1' SECOND;
    CREATE STREAM Light (room INT, lux INT) TIMESTAMP BY ts TICK INTERVAL '1' SECOND;
    CREATE TABLE Rooms (room INT, floor INT, name STRING);
"""


def readings(begin: int, end: int, seed: int = 3) -> tuple[pa.Table, pa.Table]:
    """Every sensor reports every ten seconds. In room 7 somebody left the oven and the light on after 200 seconds."""
    random = np.random.default_rng(seed + begin)
    ts = np.repeat(np.arange(begin, end, 10), ROOMS)
    room = np.tile(np.arange(ROOMS), ts.size // ROOMS)
    oven = (room == 7) & (ts >= 200)
    celsius = 20 + room / 20 + random.normal(0, 0.4, ts.size) + oven * (ts - 200) / 10
    lux = np.where(oven, 600, random.integers(0, 500, ts.size))
    return (
        pa.table({"room": room.astype(np.int32), "celsius": np.round(celsius, 1), "ts": ts}),
        pa.table({"room": room.astype(np.int32), "lux": lux.astype(np.int32), "ts": ts}),
    )


def feed(db: ms.Database, begin: int, end: int) -> None:
    temperature, light = readings(begin, end)
    db.insert("Temperature", temperature)
    db.insert("Light", light)
    db.advance(to=end - 1)


def main(engine: str = "inprocess") -> None:
    with ms.connect(engine=engine) as db:
        db.execute(DECLARATIONS)
        rooms = ", ".join(f"({room}, {room // 10}, 'room {room // 10}.{room % 10}')" for room in range(ROOMS))
        db.execute(f"INSERT INTO Rooms VALUES {rooms}")

        # Everybody has a comfortable range for the own room: 400 queries, one grouped filter for each attribute.
        people = [(person % ROOMS, 21.0 + person % 5, 18.0) for person in range(400)]
        alarms = db.register_many("SELECT * FROM Temperature WHERE room = ? AND (celsius > ? OR celsius < ?)", people)
        forgotten = db.register(
            """SELECT DISTINCT name FROM Temperature [RANGE 60 SECONDS] T, Light [RANGE 60 SECONDS] L, Rooms R
               WHERE T.room = L.room AND T.room = R.room AND celsius > 25 AND lux > 500""",
            name="forgotten",
        )
        feed(db, 0, 300)
        print(f"{len(alarms)} queries over Temperature share one plan; {_count(db, alarms)} alarms in 300 seconds")
        print(f"warm and bright at 240 s: {_names(forgotten, 240)}, at 290 s: {_names(forgotten, 290)}")

        # A query that comes late is first answered over what happened before it came.
        hot = db.register(
            "SELECT room, max(celsius) AS peak FROM Temperature [RANGE 120 SECONDS] GROUP BY room", name="hot"
        )
        peaks = hot.result(at=290).sort_by([("peak", "descending")]).slice(0, 3).to_pylist()
        print("a late query knows the past:", ", ".join(f"room {row['room']} {row['peak']}" for row in peaks))

        # Queries go, too: what they shared stays with the others.
        for alarm in alarms[::2]:
            alarm.drop()
        feed(db, 300, 400)
        print(f"{len(alarms[1::2])} queries are left, with {_count(db, alarms[1::2])} alarms in 400 seconds")
        print(hot.explain())


def _count(db: ms.Database, alarms: list[ms.Query]) -> int:
    return int(db.results(alarms).num_rows)


def _names(query: ms.Query, at: int) -> list[str]:
    return [row["name"] for row in query.result(at=at).to_pylist()]


if __name__ == "__main__":
    main(*sys.argv[1:2])
