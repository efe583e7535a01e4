"""The settings under which the engine must answer as the oracle: shards, sharing, just in time."""

from __future__ import annotations

from tests.properties.dice import Dice

import millstream as ms
from millstream.database import Database

DETECTIONS = ("all", "all", "single", "bloom", "lattice", "lattice", "lattice bloom")


def on_shards(shards: int) -> Database:
    db = ms.connect(engine="inprocess")
    db.execute(f"SET shards = {shards}")
    return db


def just_in_time(dice: Dice) -> tuple[str, ...]:
    plan, detection = dice.pick(("tree", "tree", "eddy", "mjoin")), dice.pick(DETECTIONS)
    return (f"SET join_plan = '{plan}'", "SET jit = on", f"SET jit_detection = '{detection}'")


def shared(shards: int = 1) -> Database:
    db = ms.connect(engine="inprocess")
    db.execute(f"SET sharing = 'on'; SET shards = {shards}")
    return db
