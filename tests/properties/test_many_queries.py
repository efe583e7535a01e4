"""Many queries of all shapes, let in early, late and together, dropped and named again, in a database that is closed,
opened and killed: shared = alone = what DuckDB says of the texts."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.properties.dice import SeededDice
from tests.properties.many_queries import ScheduleMaker
from tests.properties.many_queries_driver import Play, notify, play, play_seed, rows_of, world_of
from tests.properties.schedules import Drop, Event, Register, RegisterMany, single
from tests.text_oracle.cases import Change, Insert
from tests.text_oracle.evaluator import Query
from tests.text_oracle.values import plain_rows

import millstream as ms
from millstream.engine.history.backfill import Backfills

ROOT = Path(__file__).parents[2]


def check(seed: int, path: Path, most: int = 24, length: int = 14) -> None:
    play_seed(seed, ScheduleMaker(SeededDice(seed), most, length).schedule(), path)


@pytest.mark.parametrize("seed", range(14))
def test_together_alone_and_as_text(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_larger_sets_together_alone_and_as_text(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path, most=60, length=18)


@pytest.mark.parametrize("seed", range(4))
def test_queries_leave_their_groups_and_come_back(seed: int, tmp_path: Path) -> None:
    wander(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_queries_leave_their_groups_and_come_back_in_many_cases(seed: int, tmp_path: Path) -> None:
    wander(seed, tmp_path)


def wander(seed: int, path: Path) -> None:
    """After every event some queries go on by plans of their own, and some that could be in a group come to it."""
    schedule = ScheduleMaker(SeededDice(seed), 24, 14).schedule()
    place = path / "db" if schedule.needs_directory else None
    play(schedule, lambda: ms.connect(place, engine="inprocess"), random.Random(seed))


# What was killed goes on

CHILD = """
import os, signal, sys
import millstream as ms
from tests.properties.dice import SeededDice
from tests.properties.many_queries import ScheduleMaker
from tests.properties.schedules import single
from tests.properties.many_queries_driver import Play, notify, world_of

path, seed, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
schedule = ScheduleMaker(SeededDice(seed), 20, 16).schedule()
world = world_of(schedule)
play = Play(schedule, lambda: ms.connect(path, engine="inprocess"), world)
play.declare()
os.environ["MILLSTREAM_FAULT"] = sys.argv[4]  # from now on
for number, event in enumerate(single(schedule)):
    notify(world, event)
    play.perform(event)
    print(*play.living, flush=True)
    if number == last:
        os.kill(os.getpid(), signal.SIGKILL)
"""
FAULTS = ("", "", "manifest-written", "manifest-counts", "segment-half-written", "catalog-half-written", "epoch-run")


def check_killed(seed: int, path: Path) -> None:
    """The process dies somewhere in the schedule, and another one goes on where it was."""
    dice, schedule = random.Random(seed), ScheduleMaker(SeededDice(seed), 20, 16).schedule()
    events, fault = single(schedule), dice.choice(FAULTS)
    fault = fault and f"{fault}:{dice.randint(1, 12)}"
    arguments = [str(path / "db"), str(seed), str(dice.randrange(len(events))), fault]
    died = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, timeout=600, check=False, cwd=ROOT
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    said = died.stdout.splitlines()
    done, world = len(said), world_of(schedule)
    play = Play(schedule, lambda: ms.connect(path / "db", engine="inprocess"), world)
    try:
        named: dict[str, Query] = {}
        for event in events[:done]:
            notify(world, event)
            named |= dict(event.queries) if isinstance(event, Register | RegisterMany) else {}
        play.living = {name: named[name] for name in (said[-1].split() if said else ())}
        if done < len(events):
            go_on(play, events[done])
        play.check()
        for event in events[done + 1 :]:
            notify(world, event)
            play.perform(event)
        play.check()
    except Exception as error:
        error.add_note(f"seed {seed}, killed ({fault}) after event {done} of\n{schedule}")
        raise
    finally:
        play.db.close()
        world.close()


def go_on(play: Play, event: Event) -> None:
    """What was under way has happened or not; it is told again where it has not."""
    world, known = play.world, {query.name for query in play.db.queries()}
    match event:
        case Register() | RegisterMany():
            play.living.update((name, query) for name, query in event.queries if name in known)
            missing = tuple((name, query) for name, query in event.queries if name not in known)
            play.perform(Register(missing, "auto"))
        case Drop():
            play.living = {name: query for name, query in play.living.items() if name in known}
            play.perform(event)
        case Insert():
            has_happened = play.db.stats()["streams"][event.stream]["arrived"] > world.streams[event.stream].arrived
            notify(world, event)
            if not has_happened:
                play.perform(event)
        case Change():
            before = Counter(plain_rows(world.duck.execute("SELECT a, n FROM D").fetchall()))
            has_happened = Counter(rows_of(play.db.execute("SELECT a, n FROM D").table)) != before
            notify(world, event)
            if not has_happened:
                play.perform(event)
        case _:
            notify(world, event)
            play.perform(event)


@pytest.mark.parametrize("seed", range(3))
def test_killed_and_gone_on_with(seed: int, tmp_path: Path) -> None:
    check_killed(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_killed_and_gone_on_with_in_many_cases(seed: int, tmp_path: Path) -> None:
    check_killed(seed, tmp_path)


# What once failed

STREAMS = """
    CREATE STREAM s (a INT, b INT) TIMESTAMP BY ts;
    CREATE STREAM u (a INT, e INT) TIMESTAMP BY ts
"""


def pairs(query: ms.Query) -> list[tuple[int, int]]:
    return sorted((row["b"], row["e"]) for row in query.result().to_pylist())


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
@pytest.mark.parametrize("join_plan", ["tree", "eddy"])
def test_constants_of_queries_in_the_condition_of_a_join(mode: str, join_plan: str) -> None:
    """A condition over both sides with a constant in it is no part of the join that the queries share."""
    template = "SELECT s.b, u.e FROM s [RANGE 9], u [RANGE 9] WHERE s.a = u.a AND (s.b < u.e OR u.e = ?)"
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAMS}; SET join_plan = '{join_plan}'")
        one, two = db.register_many(template, [(1,), (2,)], mode=mode)
        db.insert("s", [(1, 2, 1), (1, 5, 2)])
        db.insert("u", [(1, 1, 1), (1, 2, 2), (1, 3, 2)])
        db.advance(to=3)
        assert pairs(one) == [(2, 1), (2, 3), (5, 1)]
        assert pairs(two) == [(2, 2), (2, 3), (5, 2)]


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_a_join_by_a_constant_of_each_query(mode: str) -> None:
    """By which pairs are found: such queries share no join."""
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        template = "SELECT s.b, u.e FROM s [RANGE 9], u [RANGE 9] WHERE s.a + ? = u.a"
        one, two = db.register_many(template, [(1,), (2,)], mode=mode)
        db.insert("s", [(1, 7, 1)])
        db.insert("u", [(2, 1, 1), (3, 2, 1)])
        db.advance(to=3)
        assert (pairs(one), pairs(two)) == ([(7, 1)], [(7, 2)])


def test_others_of_a_group_answer_while_one_is_found_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backfills, "start", lambda _: None)  # the test itself does the work
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAMS}; SET background_rows = 1")
        template = "SELECT b FROM s [RANGE 99] WHERE 10 / (a - ?) > 0"
        good = db.register_many(template, [(9,)] * 40)
        db.insert("s", [(instant % 5, 1, instant) for instant in range(20)])
        db.advance(to=20)
        backfills, asked = db.engine.backfills, iter(good)
        backfills.first_slice = backfills.most_left = 2
        late = db.register_many(template, [(7,), (2,), (8,), (3,)])
        for _, other in zip(backfills.slices(), asked, strict=False):
            assert other.final == 20
        assert next(asked) is not good[0]
        assert [query.error is None for query in late] == [True, False, True, False]


@pytest.mark.parametrize("window", ["RANGE 6 SLIDE 3", "TUMBLE 3"])
def test_first_and_last_of_a_window_that_slides(window: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (c STRING) TIMESTAMP BY ts HEARTBEAT EXPLICIT")
        query = db.register(f"SELECT LAST(c) AS l, FIRST(c) AS f FROM s [{window}]")
        db.insert("s", [("b", 2), ("x", 2), ("z", 1)])
        db.advance(to=9)
        assert query.result(at=3).to_pylist() == [{"l": "x", "f": "z"}]
