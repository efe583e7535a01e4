"""A building full of sensors, as in CACQ: everybody who works there asks about rooms of their own.

docs/tutorial.md explains it line by line.

    python examples/sensors.py             # in this process
    python examples/sensors.py spark       # on an embedded Spark
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

import millstream as ms

ROOMS = 40


def readings(begin: int, end: int, seed: int = 3) -> tuple[pa.Table, pa.Table]:
    """Temperatures and light between two seconds: every sensor reports every ten seconds, in order of time."""
    random = np.random.default_rng(seed + begin)
    ts = np.repeat(np.arange(begin, end, 10), ROOMS)
    room = np.tile(np.arange(ROOMS), ts.size // ROOMS)
    oven = (room == 7) & (ts >= 200)  # somebody left the oven and the light on
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
        db.execute("""
            CREATE STREAM Temperature (room INT, celsius DOUBLE) TIMESTAMP BY ts TICK INTERVAL '1' SECOND;
            CREATE STREAM Light (room INT, lux INT) TIMESTAMP BY ts TICK INTERVAL '1' SECOND;
            CREATE TABLE Rooms (room INT, floor INT, name STRING) KEY (room)
        """)
        rooms = ", ".join(f"({room}, {room // 10}, 'room {room // 10}.{room % 10}')" for room in range(ROOMS))
        db.execute(f"INSERT INTO Rooms VALUES {rooms}")

        # Questions join streams and tables.
        forgotten = db.register(
            """
            SELECT DISTINCT name
            FROM Temperature [RANGE 60 SECONDS] T
                 JOIN Light [RANGE 60 SECONDS] L ON T.room = L.room
                 JOIN Rooms R ON T.room = R.room
            WHERE celsius > 25 AND lux > 500
            """,
            name="forgotten",
        )
        floors = db.register(
            """
            SELECT floor, round(avg(celsius), 1) AS mean, max(celsius) AS peak
            FROM Temperature [RANGE 60 SECONDS] T JOIN Rooms R ON T.room = R.room
            GROUP BY floor ORDER BY floor
            """,
            name="floors",
        )
        feed(db, 0, 300)
        forgotten.show(at=290)
        floors.show(at=290)

        # Everybody has a comfortable range for the own room: 400 questions, one plan.
        people = [(person % ROOMS, 21.0 + person % 5, 18.0) for person in range(400)]
        alarms = db.register_many(
            "SELECT * FROM Temperature WHERE room = ? AND (celsius > ? OR celsius < ?)", people, template="alarms"
        )
        print(len(alarms), "questions,", alarms.result(at=290).num_rows, "alarms so far")
        print(alarms[17].explain())

        # A question that comes late is first answered over what happened before it came.
        hot = db.register(
            "SELECT room, max(celsius) AS peak FROM Temperature [RANGE 120 SECONDS] GROUP BY room", name="hot"
        )
        print(hot.result(at=290).sort_by([("peak", "descending")]).slice(0, 3).to_pylist())

        # Questions go, too: what they shared stays with the others.
        for alarm in alarms[::2]:
            alarm.drop()
        feed(db, 300, 400)
        print(len(alarms), "questions,", alarms.result().num_rows, "alarms so far")

        # A reading comes late, and a room gets another name.
        print(db.insert("Temperature", [(3, 19.9, 350)]))
        print(db.execute("SELECT room, celsius FROM Temperature._late"))
        db.execute("UPDATE Rooms SET name = 'the kitchen' WHERE room = 7 AT 410")
        feed(db, 400, 420)
        forgotten.show_changes(since=380)


if __name__ == "__main__":
    main(*sys.argv[1:2])
