"""Queries that come and go by the thousand, from several threads, and on a disk that is full."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

import pytest

import millstream as ms

STREAM = "CREATE STREAM s (a INT, b INT, c STRING) TIMESTAMP BY ts"
ROWS = [(number % 10, number % 7, "xyz"[number % 3], number // 5) for number in range(60)]
SHAPES: tuple[tuple[str, Callable[[int, int, str, int], bool]], ...] = (
    ("a > {}", lambda a, b, c, n: a > n),
    ("a = {} OR b < {}", lambda a, b, c, n: a == n or b < n),
    ("NOT (a < {}) AND c <> 'x'", lambda a, b, c, n: not a < n and c != "x"),
    ("b BETWEEN {} AND {} + 2", lambda a, b, c, n: n <= b <= n + 2),
    ("a + b IN ({}, 3)", lambda a, b, c, n: a + b in (n, 3)),
    ("c LIKE 'x%' AND a <= {}", lambda a, b, c, n: c == "x" and a <= n),
)
FORMS = ("SELECT a, b FROM s [RANGE 9] WHERE {}", "SELECT COUNT(*) AS n FROM s [RANGE 9] WHERE {}")
FINAL = 11  # the last instant of ROWS, so that [RANGE 9] has those from 2 on


def answer(query: ms.Query) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in query.result().to_pylist())


def test_two_thousand_equal_queries_are_one_and_each_answers() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        text = "SELECT c, COUNT(*) AS n FROM s [RANGE 9] WHERE a > 3 GROUP BY c"
        for number in range(2000):
            db.register(text, name=f"q{number}")
        db.insert("s", ROWS)
        db.advance(to=FINAL)
        right = [(c, sum(1 for a, _, d, t in ROWS if t >= 2 and a > 3 and d == c)) for c in "xyz"]
        assert {tuple(answer(db.query(f"q{number}"))) for number in (0, 7, 8, 999, 1999)} == {tuple(right)}
        table = db.results()
        assert table.num_rows == 2000 * len(right)
        assert len(set(table["_query"].to_pylist())) == 2000
        for number in range(0, 2000, 2):
            db.drop_query(f"q{number}")
        assert answer(db.query("q1999")) == right


def test_three_thousand_queries_of_mixed_shapes_one_by_one_then_one_epoch(tmp_path: Path) -> None:
    chance = random.Random(5)
    asked = [(chance.randrange(2), chance.randrange(len(SHAPES)), chance.randint(0, 9)) for _ in range(3000)]
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAM)
        for number, (form, shape, constant) in enumerate(asked):
            db.register(FORMS[form].format(SHAPES[shape][0].format(constant, constant)), name=f"q{number}")
        db.insert("s", ROWS)
        db.advance(to=FINAL)
        for number in chance.sample(range(3000), 150):
            form, shape, constant = asked[number]
            wanted = [(a, b) for a, b, c, t in ROWS if t >= 2 and SHAPES[shape][1](a, b, c, constant)]
            assert answer(db.query(f"q{number}")) == (sorted(wanted) if form == 0 else [(len(wanted),)]), asked[number]


def together(*works: Callable[[], None]) -> None:
    """Run at the same time; the first error of any is raised."""
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@pytest.mark.parametrize("background", [0, 200_000])
def test_all_are_dropped_while_another_thread_inserts(tmp_path: Path, background: int) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"{STREAM}; SET background_rows = {background}")
        kept = db.register("SELECT COUNT(*) AS n FROM s WHERE a >= 0", name="kept")
        db.insert("s", ROWS[:10])
        for number in range(120):
            form, shape = FORMS[number % 2], SHAPES[number % len(SHAPES)][0]
            db.register(form.format(shape.format(number % 9, number % 9)), name=f"q{number}")

        def insert() -> None:
            for row in ROWS[10:]:
                db.insert("s", [row])

        def drop() -> None:
            for number in range(120):
                db.drop_query(f"q{number}")

        together(insert, drop)
        db.advance(to=FINAL)
        assert [query.name for query in db.queries()] == ["kept"]
        assert answer(kept) == [(60,)]
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert [query.name for query in db.queries()] == ["kept"]
        assert answer(db.query("kept")) == [(60,)]


def test_two_threads_register_while_a_third_inserts_and_a_fourth_asks(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAM)
        done = threading.Event()

        def register(first: int) -> Callable[[], None]:
            def run() -> None:
                for number in range(first, first + 60):
                    db.register(FORMS[0].format(f"a > {number % 10}"), name=f"q{number}")

            return run

        def insert() -> None:
            for start in range(0, 60, 10):
                db.insert("s", ROWS[start : start + 10])
            done.set()

        def ask() -> None:
            while not done.is_set():
                for query in db.queries()[:5]:
                    query.result()

        together(register(0), register(100), insert, ask)
        db.advance(to=FINAL)
        names = [f"q{number}" for number in (*range(60), *range(100, 160))]
        assert sorted(query.name for query in db.queries()) == sorted(names)
        for name in names:
            wanted = [(a, b) for a, b, _, t in ROWS if t >= 2 and a > int(name[1:]) % 10]
            assert answer(db.query(name)) == sorted(wanted), name


@pytest.mark.parametrize("background", [0, 200_000])
def test_registering_beside_a_follower_of_the_group(background: int) -> None:
    """The follower sees each change once, whoever comes."""
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'on'; SET background_rows = {background}")
        followed = db.register("SELECT a, b FROM s [NOW] WHERE a > 2", name="followed")
        seen: list[tuple[int, int, int]] = []

        def follow() -> None:
            for table in followed.follow():
                seen.extend((row["_ts"], row["_weight"], row["a"]) for row in table.to_pylist())
                if seen[-1][0] >= FINAL:
                    return

        def feed() -> None:
            for number, row in enumerate(ROWS):
                db.insert("s", [row])
                db.register(f"SELECT a, b FROM s [NOW] WHERE a > {number % 10}", name=f"q{number}")
                if number % 3 == 0:
                    db.drop_query(f"q{number}")
            db.advance(to=20)

        together(follow, feed)
        expected = [(row["_ts"], row["_weight"], row["a"]) for row in followed.changes().to_pylist()]
        assert sorted(seen) == sorted(change for change in expected if change[0] <= seen[-1][0])
        assert sum(weight for _, weight, _ in expected if weight > 0) == sum(a > 2 for a, _, _, _ in ROWS)


class FullDisk:
    """Lets some syncs succeed, and then none, while it is full."""

    def __init__(self, left: int) -> None:
        self.left, self.is_full, self.was_met, self._sync = left, False, False, os.fsync

    def __call__(self, file: int) -> None:
        if self.is_full and self.left <= 0:
            self.was_met = True
            raise OSError(errno.ENOSPC, "No space left on device")
        self.left -= self.is_full
        self._sync(file)


def selection(constant: int) -> str:
    return f"SELECT a FROM s [RANGE 99] WHERE a > {constant}"


ACTIONS: dict[str, Callable[[ms.Database, str], object]] = {
    "register": lambda db, mode: db.register(selection(50), "q50", mode),
    "another shape": lambda db, mode: db.register(f"{selection(50)} AND a < 99", "q50", mode),
    "many": lambda db, mode: db.register_many(selection(0)[:-1] + "?", [(50,)], ["q50"], mode),
    "drop": lambda db, mode: db.drop_query("q0"),
}


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize("sharing", ["auto", "on"])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("others", [1, 8])
def test_a_full_disk_leaves_all_queries_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int, action: str, sharing: str, mode: str
) -> None:
    """Wherever it happens; and the same works once there is room."""

    def begin(db: ms.Database) -> None:
        db.execute(f"SET sharing = '{sharing}'")
        for number in range(others):
            db.register(selection(number), f"q{number}", mode)

    names = {f"q{number}" for number in range(others)}
    then = names - {"q0"} if action == "drop" else names | {"q50"}
    wherever_it_is_full(tmp_path, monkeypatch, begin, lambda db: ACTIONS[action](db, mode), then, names)


def template_of(db: ms.Database, queries: dict[str, int], text: str = "", mode: str | None = None) -> None:
    text = text or db.template("t").text
    rows = [(constant,) * text.count("?") for constant in queries.values()]
    db.register_many(text, rows, [*queries], mode, template="t")


OF_TEMPLATES: dict[str, tuple[Callable[[ms.Database], object], set[str]]] = {
    "more": (lambda db: template_of(db, {"q50": 50}), {"q0", "q1", "q50"}),
    "drop one": (lambda db: db.drop_query("q0"), {"q1"}),
    "drop template": (lambda db: db.template("t").drop(), set()),
}


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
@pytest.mark.parametrize("text", [selection(0)[:-1] + "?", "SELECT greatest(a, ?) AS a FROM s [RANGE 99] WHERE a > ?"])
@pytest.mark.parametrize("action", OF_TEMPLATES)
def test_a_full_disk_leaves_a_template_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, text: str, mode: str
) -> None:
    def begin(db: ms.Database) -> None:
        template_of(db, {"q0": 0, "q1": 1}, text, mode)

    wherever_it_is_full(tmp_path, monkeypatch, begin, *OF_TEMPLATES[action])


def wherever_it_is_full(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    begin: Callable[[ms.Database], object],
    do: Callable[[ms.Database], object],
    after: Set[str],
    before: Set[str] = frozenset({"q0", "q1"}),
) -> None:
    for place in range(20):
        with monkeypatch.context() as patched:
            disk = FullDisk(place)
            patched.setattr(os, "fsync", disk)
            patched.setattr(os, "fdatasync", disk, raising=False)
            if not refused_then_done(directory / f"{place}", disk, begin, do, before, after):
                assert place
                return
    raise AssertionError("it never ends")


def refused_then_done(
    path: Path,
    disk: FullDisk,
    begin: Callable[[ms.Database], object],
    do: Callable[[ms.Database], object],
    before: Set[str],
    after: Set[str],
) -> bool:
    """Whether the disk was full too early for the action."""
    names, rows = before, [3, 1]

    def check(db: ms.Database) -> None:
        assert {query.name for query in db.queries()} == names
        wanted = {name: sorted((a,) for a in rows if a > int(name[1:])) for name in names}
        assert {name: answer(db.query(name)) for name in names} == wanted

    with ms.connect(path, engine="inprocess") as db:
        db.execute("CREATE STREAM s (a INT) TIMESTAMP BY ts")
        db.insert("s", [(3, 1), (1, 1)])
        begin(db)
        disk.is_full = True
        try:
            do(db)
        except ms.StateError:
            pass
        else:
            return disk.was_met
        disk.is_full = False
        db.insert("s", [(60, 2)])
        rows.append(60)
        db.advance(to=3)
        check(db)
        do(db)
        names = after
        check(db)
    with ms.connect(path, engine="inprocess") as db:
        check(db)
        db.insert("s", [(70, 5)])
        rows.append(70)
        db.advance(to=6)
        check(db)
    return True
