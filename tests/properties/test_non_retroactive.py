"""Joins with NON RETROACTIVE tables above all that is allowed below them, by their definition, under all settings: the
version that a row meets depends on no batch, mode, strategy, rule or time of registration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle import non_retroactive as nr
from tests.properties.dice import Dice, SeededDice

import millstream as ms
from millstream.database import Database
from millstream.plan.rewrite import rule_names

END = 40
SCHEMA = """
CREATE STREAM A (x INT, v INT) TIMESTAMP BY ts;
CREATE STREAM B (x INT, v INT) TIMESTAMP BY ts;
"""
TABLES = {
    False: "CREATE TABLE N (x INT, n INT) NON RETROACTIVE;",
    True: "CREATE TABLE N (x INT, n INT) NON RETROACTIVE CHANGES BY op TIMESTAMP BY ts;",
}
Change = tuple[str, list[nr.Row], list[nr.Row]]  # a statement, and what it takes away and adds


def plan_of(dice: Dice, depth: int, *, counts: bool) -> nr.Plan:
    if depth == 0:
        kind = dice.pick(("RANGE", "RANGE", "RANGE", "NOW", "SLIDE", "UNBOUNDED", *(("ROWS",) if counts else ())))
        return nr.Windowed(dice.pick(("A", "B")), kind, dice.number(1, 6), dice.number(2, 4))

    def below() -> nr.Plan:
        return plan_of(dice, dice.number(0, depth - 1), counts=counts)

    form = dice.pick(("unique", "unique", "union", "exists", "exists", "join", "union all", "select"))
    if form == "unique":
        return nr.Unique(below())
    if form in ("union", "union all"):
        return nr.United(below(), below(), distinct=form == "union")
    if form == "exists":
        return nr.Existing(below(), below(), dice.pick(("EQUAL", "COMPARED", "IN")))
    if form == "join":
        return nr.Joined(below(), below())
    return nr.Selected(below(), dice.number(0, 1))


def history(dice: Dice) -> tuple[nr.World, dict[int, Change]]:
    """What comes: elements of two streams, and changes of the table by instant."""
    world, made, versions = nr.World(), dict[int, Change](), dict[int, list[nr.Row]]()
    for name in "AB":
        times = sorted(dice.some(range(1, END - 8), 3, 14))
        world.streams[name] = [((dice.pick((1, 1, 2, None)), dice.pick((0, 1, None))), ts) for ts in times]
    rows: list[nr.Row] = []
    new: list[nr.Row]
    for number, t in enumerate(sorted(set(dice.some(range(END - 8), 2, 8)))):
        x = dice.pick((1, 2))
        gone = [row for row in rows if row[0] == x and dice.chance(60)]
        if gone and len(gone) == sum(row[0] == x for row in rows):
            new = [(x, number) for _ in gone] if dice.chance(60) else []
            text = f"UPDATE N SET n = {number} WHERE x = {x}" if new else f"DELETE FROM N WHERE x = {x}"
        else:
            gone, new, text = [], [(x, number)], f"INSERT INTO N VALUES ({x}, {number})"
        rows = [row for row in rows if row not in gone] + new
        made[t] = f"{text} AT {t}", gone, new
        versions[t] = rows
    world.table = lambda at: next((versions[t] for t in sorted(versions, reverse=True) if t <= at), [])
    return world, made


def feed(
    db: Database,
    dice: Dice,
    world: nr.World,
    made: dict[int, Change],
    span: range,
    steps: Sequence[int],
    *,
    by_rows: bool,
) -> None:
    """What lies in a span, in batches of any length; a table of statements changes before what meets it comes."""
    since = span.start
    while since < span.stop:
        until = min(span.stop, since + dice.pick(steps))
        due = {t: made[t] for t in range(since, until) if t in made}
        batches: dict[str, list[tuple[object, ...]]] = {
            name: [(*row, ts) for row, ts in world.streams[name] if since <= ts < until] for name in "AB"
        }
        if by_rows:
            changed = [
                (t, op, row)
                for t, (_, *both) in due.items()
                for op, rows in zip("-+", both, strict=True)
                for row in rows
            ]
            batches["N"] = [(*row, op, t) for t, op, row in changed]
        else:
            for statement, *_ in due.values():
                db.execute(statement)
        for name in dice.pick((("A", "B", "N"), ("N", "B", "A"))):
            if batches.get(name):
                db.insert(name, batches[name])
        since = until
        if dice.chance(50):
            db.advance(to=until - 1)
    db.advance(to=span.stop - 1)


def settings(dice: Dice, strategy: str) -> str:
    disabled = ", ".join(rule for rule in rule_names() if dice.chance(25))
    chosen = {
        "strategy": strategy,
        "jit": dice.pick(("on", "off")),
        "join_plan": dice.pick(("auto", "eddy", "tree", "mjoin")),
        "sharing": dice.pick(("auto", "on", "off")),
        "background_rows": dice.pick((0, 1000)),
    }
    texts = [f"SET {name} = {value if isinstance(value, int) else repr(value)}" for name, value in chosen.items()]
    return "; ".join([*texts, f"SET disabled_rules = '{disabled}'"])


def check(connect: Any, path: Path, seed: int, steps: Sequence[int] = (1, 1, 2, 5, 40)) -> None:
    dice = SeededDice(seed)
    strategy, by_rows = dice.pick(("upa", "upa", "negative", "direct")), dice.chance(30)
    world, made = history(dice)
    nr.WORLDS[seed] = world
    plan = plan_of(dice, dice.number(1, 3), counts=strategy != "direct")
    text, db = nr.joined_text(plan), connect(path)
    db.execute(f"{SCHEMA} {TABLES[by_rows]} SET shards = {dice.number(1, 3)}; {settings(dice, strategy)}")
    operator = dice.pick(("", "", "", "RSTREAM"))
    text = f"{operator}({text})" if operator else text
    db.register(text, name="early")
    middle = dice.number(5, 30)
    feed(db, dice, world, made, range(middle), steps, by_rows=by_rows)
    if dice.chance(30):
        db.close()
        db = connect(path)
        db.execute(settings(dice, strategy))
    db.register(text, name="late", mode=dice.pick(("eager", "lazy", "none")))
    feed(db, dice, world, made, range(middle, END + 1), steps, by_rows=by_rows)
    db.register(text, name="last", mode=dice.pick(("eager", "lazy", "none")))
    for name in ("early", "late", "last"):
        compare(db.query(name), plan, seed)
    db.close()
    del nr.WORLDS[seed]


def compare(query: Any, plan: nr.Plan, seed: int) -> None:
    right = {t: nr.joined_at(plan, seed, t) for t in range(END + 1)}
    if query.kind == "relation":
        for t in range(END + 1) if query.mode == "eager" else range(seed % 5, END + 1, 5):
            found = Counter(tuple(row.values()) for row in query.result(at=t).to_pylist())
            assert found == right[t], f"{seed}, {query.name} ({query.mode}) at {t}: {query.cql}"
        return
    found = Counter(tuple(row.values()) for row in query.result().to_pylist())
    before: Counter[tuple[int | None, ...]] = Counter()
    expected: Counter[tuple[int | None, ...]] = Counter()
    for t, rows in right.items():
        new = rows if query.cql.upper().startswith(("RSTREAM", "SELECT RSTREAM")) else rows - before
        expected.update({(t, *row): number for row, number in new.items()})
        before = rows
    assert found == expected, f"{seed}, {query.name} ({query.mode}): {query.cql}"


@pytest.mark.parametrize("chunk", range(5))
def test_rows_meet_the_version_of_the_instant_at_which_they_are_generated(tmp_path: Path, chunk: int) -> None:
    for seed in range(chunk * 5, chunk * 5 + 5):
        check(lambda path: ms.connect(path, engine="inprocess"), tmp_path / str(seed), seed)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(10))
def test_many_rows_meet_the_version_of_the_instant_at_which_they_are_generated(tmp_path: Path, chunk: int) -> None:
    for seed in range(1000 + chunk * 50, 1050 + chunk * 50):
        check(lambda path: ms.connect(path, engine="inprocess"), tmp_path / str(seed), seed)


@pytest.mark.spark
def test_versions_on_spark(session: SparkSession, tmp_path: Path) -> None:
    check(lambda path: ms.connect(path, spark=session), tmp_path / "db", 3, steps=(20,))  # each takes a while
