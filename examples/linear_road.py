"""Tolls by the rules of the full Linear Road benchmark, on simulated traffic with two building sites.

`make demo` runs the CQL paper's own queries; linear_road.cql has the benchmark's statistics by minute.

    python examples/linear_road.py         # in this process
    python examples/linear_road.py spark   # on an embedded Spark
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import millstream as ms
from millstream.demo import traffic

MINUTES, CARS = 8, 9_000


def reports(seconds: int, cars: int) -> pa.Table:
    """The simulated positions as the benchmark has them: (time, vid, speed, lane, seg)."""
    simulated = traffic.simulate(seconds, cars)
    return pa.table(
        {
            "time": pc.cast(simulated["ts"], pa.int32()),
            "vid": pc.cast(simulated["vehicleId"], pa.int32()),
            "speed": simulated["speed"],
            "lane": pa.array([1] * simulated.num_rows, pa.int32()),
            "seg": pc.cast(pc.divide(simulated["xPos"], traffic.SEGMENT_FEET), pa.int32()),
        }
    )


def main(engine: str = "inprocess") -> None:
    rows = reports(MINUTES * 60, CARS)
    with ms.connect(engine=engine) as db:
        db.execute((Path(__file__).parent / "linear_road.cql").read_text())
        slow = db.register("SELECT seg, lav FROM Lav WHERE lav < 40", name="slow")
        for minute in range(MINUTES):
            within = pc.equal(pc.divide(rows["time"], 60), minute)
            db.insert("Reports", rows.filter(within))
        db.advance("Reports", to=MINUTES * 60)

        print(f"{rows.num_rows:,} reports of {CARS:,} cars; building sites in segments {traffic.ROADWORKS}")
        for minute in (3, 5, 7):
            jams = slow.result(at=minute * 60).sort_by("lav").to_pylist()
            slowest = ", ".join(f"{row['seg']} ({row['lav']} mph)" for row in jams[:4])
            print(f"  {minute}:00 {len(jams)} slow segments, the slowest: {slowest}")
        tolls = db.query("tolls").result()
        charged = tolls.filter(pc.greater(tolls["toll"], 0))
        print(f"{tolls.num_rows:,} entries into segments, {charged.num_rows:,} of them with a toll; the highest:")
        for row in charged.sort_by([("toll", "descending"), ("_ts", "ascending")]).slice(0, 3).to_pylist():
            print(f"  {row['_ts'] // 60}:{row['_ts'] % 60:02} car {row['vid']} pays {row['toll']} at {row['lav']} mph")


if __name__ == "__main__":
    main(*sys.argv[1:2])
