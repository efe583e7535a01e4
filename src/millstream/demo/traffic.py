"""Simulated cars on the CQL paper's highway: 100 miles, 100 segments of a mile, one direction.

A car enters at a ramp, keeps to the speed it prefers while the road ahead is free, brakes where it is dense
and leaves after some miles. The fundamental diagram, how fast a density lets one go, is
`preferred / (1 + (density / capacity)^4)`. Roadworks take capacity from two segments; cars pile up there and
behind, and nowhere else.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SEGMENTS = 100
SEGMENT_FEET = 5280
REPORT_SECONDS = 30
ROADWORKS = (37, 72)

SCHEMA = pa.schema([("vehicleId", pa.int64()), ("speed", pa.int32()), ("xPos", pa.int64()), ("ts", pa.int64())])

_FEET_PER_SECOND = SEGMENT_FEET / 3600  # of one mile per hour
_CAPACITY = 75.0  # cars in a segment at which they drive half as fast as they like
_CAPACITY_AT_ROADWORKS = 36.0
_CRAWL = 12.0  # mph; even a jam moves, or it would never dissolve
_MEAN_TRIP_MILES = 12.0
_BRAKE, _ACCELERATE = 8.0, 4.0  # mph per second

_Floats = npt.NDArray[np.float64]


def simulate(seconds: int = 900, cars: int = 5000, seed: int = 1) -> pa.Table:
    """All reports (vehicleId, speed in mph, xPos in feet, ts in seconds) of `cars` cars, in time order.

    Half of the cars come in the first 30 seconds, as if they had been under way; the others enter evenly
    spread over the time. Every car reports when it enters and every 30 seconds after, until it has left.
    """
    random = np.random.default_rng(seed)
    enters = np.sort(
        np.concatenate(
            [
                random.integers(0, REPORT_SECONDS, cars // 2),
                random.integers(0, max(seconds, 1), cars - cars // 2),
            ]
        )
    )
    ramps = random.integers(0, SEGMENTS, cars)
    # Trips without memory, so that a car under way has as far to go, on average, as one that enters.
    miles = 1 + np.floor(random.exponential(_MEAN_TRIP_MILES, cars))
    exits = np.minimum(ramps + miles, SEGMENTS) * SEGMENT_FEET
    preferred = np.clip(random.normal(62.0, 6.0, cars), 45.0, 80.0)
    position = ramps * float(SEGMENT_FEET)
    speed = preferred.copy()

    capacity = np.full(SEGMENTS + 1, _CAPACITY)
    capacity[list(ROADWORKS)] = _CAPACITY_AT_ROADWORKS
    reports: list[tuple[npt.NDArray[np.intp], _Floats, _Floats, int]] = []
    for now in range(seconds):
        driving = np.flatnonzero((enters <= now) & (position < exits))
        due = driving[(now - enters[driving]) % REPORT_SECONDS == 0]
        reports.append((due, speed[due], position[due], now))

        place = position[driving] / SEGMENT_FEET
        target = np.maximum(_CRAWL, preferred[driving] / (1 + _crowding(place, capacity) ** 4))
        current = speed[driving]
        speed[driving] = np.clip(target, current - _BRAKE, current + _ACCELERATE)
        position[driving] += speed[driving] * _FEET_PER_SECOND
    return _table(reports)


def _crowding(place: _Floats, capacity: _Floats) -> _Floats:
    """Cars per capacity at each place: a driver sees the own segment and, the nearer, the next one."""
    segment = place.astype(np.intp)
    load = np.bincount(segment, minlength=SEGMENTS + 1) / capacity
    nearness = place - segment
    return np.maximum(load[segment], nearness * load[segment + 1])


def _table(reports: list[tuple[npt.NDArray[np.intp], _Floats, _Floats, int]]) -> pa.Table:
    vehicles, speeds, positions, times = zip(*reports, strict=True) if reports else ((), (), (), ())
    counts = [len(batch) for batch in vehicles]
    return pa.table(
        [
            np.concatenate([*vehicles, np.empty(0, np.int64)]).astype(np.int64),
            np.rint(np.concatenate([*speeds, np.empty(0)])).astype(np.int32),
            np.concatenate([*positions, np.empty(0)]).astype(np.int64),
            np.repeat(np.asarray(times, np.int64), counts),
        ],
        schema=SCHEMA,
    )
