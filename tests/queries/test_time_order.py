"""FIRST and LAST, which go by when rows came, in every mode."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import millstream as ms

ORDERED = (
    "SELECT b, FIRST(a) AS f, LAST(a) AS l FROM s [RANGE 3] GROUP BY b",
    "SELECT s.b, FIRST(u.a) AS f, LAST(s.a) AS l FROM s [RANGE 3], u [RANGE 4] WHERE s.b = u.b GROUP BY s.b",
    "SELECT FIRST(a) AS f, LAST(a) AS l FROM (SELECT DISTINCT a FROM s [RANGE 3]) AS x",
    "SELECT b, FIRST(a) AS f, LAST(a) AS l FROM (SELECT a, b FROM s [RANGE 3] UNION ALL SELECT a, b FROM u [RANGE 3])"
    " AS x GROUP BY b",
    "ISTREAM(SELECT b, FIRST(a) AS f, LAST(a) AS l FROM s [RANGE 3] GROUP BY b)",
    "SELECT FIRST(a) AS f FROM (SELECT a FROM s [RANGE 3] EXCEPT SELECT a FROM u [RANGE 3]) AS x",
)


@pytest.mark.parametrize("seed", range(6))
def test_first_and_last_go_by_the_order_of_rows_in_every_mode(seed: int) -> None:
    """Of matches nobody knows when they came, nor of what is computed from a part of history."""
    chance = random.Random(seed)
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (a INT, b INT) TIMESTAMP BY ts; CREATE STREAM u (a INT, b INT) TIMESTAMP BY ts")
        queries = [[db.register(text, mode=mode) for mode in ("eager", "lazy", "none")] for text in ORDERED]
        instant = 1
        for _ in range(12):
            rows = [(chance.randint(0, 9), chance.randint(0, 1), instant) for _ in range(chance.randint(1, 3))]
            db.insert(chance.choice("su"), rows)
            if chance.random() < 0.5:
                db.advance(to=instant)
                instant += 1
        db.advance(to=instant + 1)
        for eager, *others in queries:
            for other in others:
                for at in range(1, instant):
                    assert in_order(other.result(at=at)) == in_order(eager.result(at=at))
                    assert in_order(other.changes(since=at)) == in_order(eager.changes(since=at))


def in_order(table: pa.Table) -> list[str]:
    return sorted(str(row) for row in table.to_pylist())


Element = tuple[int, int, str]  # instant, arrival, value


def in_window(window: str, elements: list[Element], at: int) -> list[Element]:
    """By the table of windows in docs/semantics.md."""
    last = {"RANGE 6 SLIDE 3": at // 3 * 3, "TUMBLE 4": at // 4 * 4, "HOP 6 SLIDE 2": at // 2 * 2}
    match window:
        case "RANGE 6 SLIDE 3":
            return [e for e in elements if last[window] - 6 <= e[0] <= last[window] and at >= 2]
        case "TUMBLE 4":
            return [e for e in elements if last[window] - 4 <= e[0] < last[window]]
        case "HOP 6 SLIDE 2":
            return [e for e in elements if last[window] - 6 <= e[0] < last[window]]
    came = [e for e in elements if e[0] <= at]
    whole = len(came) // 2 * 2
    return came[max(0, whole - 4) : whole]


@pytest.mark.parametrize("window", ["RANGE 6 SLIDE 3", "TUMBLE 4", "HOP 6 SLIDE 2", "ROWS 4 SLIDE 2"])
@pytest.mark.parametrize("settings", ["SET sharing = 'off'", "SET sharing = 'on'", "SET strategy = 'negative'"])
def test_elements_that_enter_a_window_at_once_go_by_their_own_instants(window: str, settings: str) -> None:
    for seed in range(4):
        chance = random.Random(seed)
        arrived = [(chance.randint(0, 12), place, chance.choice("abcdefgh")) for place in range(10)]
        with ms.connect(engine="inprocess") as db:
            db.execute(f"CREATE STREAM s (c STRING, k INT) TIMESTAMP BY ts HEARTBEAT EXPLICIT; {settings}")
            text = f"SELECT FIRST(c) AS f, LAST(c) AS l FROM s [{window}] WHERE k < 5"
            query, _ = db.register(text), db.register(text.replace("5", "6"))
            while (done := db.stats()["streams"]["s"]["arrived"]) < len(arrived):
                db.insert("s", [(c, 1, t) for t, _, c in arrived[done : done + chance.randint(1, 4)]])
            db.advance(to=20)
            for at in range(16):
                expected = in_window(window, sorted(arrived), at)
                first, last = (expected[0][2], expected[-1][2]) if expected else (None, None)
                assert query.result(at=at).to_pylist() == [{"f": first, "l": last}]


# What comes and goes by others: the relation, with the group and the two values that FIRST and LAST are asked for.
DERIVED = {
    "distinct": "SELECT DISTINCT b, a, a AS c FROM s [RANGE 3]",
    "except": "SELECT b, a, a AS c FROM s [RANGE 3] EXCEPT SELECT b, a, a AS c FROM u [RANGE 3]",
    "intersect": "SELECT b, a, a AS c FROM s [RANGE 3] INTERSECT SELECT b, a, a AS c FROM u [RANGE 5]",
    "left join": "SELECT s.b, s.a, u.a AS c FROM s [RANGE 3] LEFT JOIN u [RANGE 4] ON s.b = u.b",
    "group by": "SELECT b, COUNT(*) AS a, MAX(a) AS c FROM s [RANGE 3] GROUP BY b",
    "not exists": "SELECT b, a, a AS c FROM s [ROWS 3] WHERE NOT EXISTS (SELECT * FROM u [RANGE 2] WHERE u.b = s.b)",
    "exists": "SELECT b, a, a AS c FROM s [RANGE 4] WHERE EXISTS (SELECT * FROM u [RANGE 2] WHERE u.b = s.b)",
    "full join": "SELECT s.b, s.a, u.a AS c FROM s [RANGE 3] FULL JOIN u [RANGE 2] ON s.b = u.b",
}
CALLS = ("FIRST(a) AS f, LAST(c) AS l, COUNT(*) AS n", "FIRST(a) AS f, LAST(a) AS l", "COUNT(a) AS n, LAST(c) AS l")
Row = dict[str, int | None]


def by_runs(history: list[list[Row]], at: int) -> dict[int | None, dict[str, Row]]:
    """By group, of the values of `a` and `c`, those whose runs of presence began first and last, and how many rows
    there are: by what the relation is at every instant."""
    found: dict[int | None, dict[str, Row]] = {}
    for group in {row["b"] for row in history[at]}:
        own: dict[str, Row] = {}
        for column in "ac":
            since = {}
            for value in {row[column] for row in history[at] if row["b"] == group}:
                begin = at
                while begin and any(row["b"] == group and row[column] == value for row in history[begin - 1]):
                    begin -= 1
                since[value] = begin, value is not None, value or 0
            ordered = sorted(since, key=since.__getitem__)
            own[column] = {"first": ordered[0], "last": ordered[-1]}
        rows = [row for row in history[at] if row["b"] == group]
        own["rows"] = {"all": len(rows), "a": sum(row["a"] is not None for row in rows)}
        found[group] = own
    return found


@pytest.mark.parametrize("settings", ["", "; SET strategy = 'negative'"], ids=["upa", "negative"])
@pytest.mark.parametrize("derived", DERIVED.values(), ids=DERIVED)
def test_rows_that_come_by_others_go_by_the_start_of_their_runs(derived: str, settings: str) -> None:
    """However time passes."""
    chance = random.Random(7)
    rows = [
        (chance.choice("su"), (chance.randint(0, 2), chance.randint(0, 1), t))
        for t in range(12)
        for _ in range(chance.randint(0, 2))
    ]
    for cuts in (0.0, 0.4, 1.0):
        with ms.connect(engine="inprocess") as db:
            for name in "su":
                db.execute(f"CREATE STREAM {name} (a INT, b INT) TIMESTAMP BY ts HEARTBEAT EXPLICIT{settings}")
            relation = db.register(derived)
            queries = [db.register(f"SELECT b, {calls} FROM ({derived}) AS x GROUP BY b") for calls in CALLS]
            for name, row in rows:
                db.insert(name, [row])
                if row[2] and chance.random() < cuts:
                    db.advance("s", to=row[2] - 1)
                    db.advance("u", to=row[2] - 1)
            for name in "su":
                db.advance(name, to=16)
            history = [relation.result(at=at).to_pylist() for at in range(16)]
            for at in range(16):
                right = by_runs(history, at)
                both, one, counted = ({row["b"]: row for row in q.result(at=at).to_pylist()} for q in queries)
                assert both.keys() == one.keys() == counted.keys() == right.keys()
                for group, own in right.items():
                    said = both[group]["f"], both[group]["l"], both[group]["n"]
                    assert said == (own["a"]["first"], own["c"]["last"], own["rows"]["all"])
                    assert (one[group]["f"], one[group]["l"]) == (own["a"]["first"], own["a"]["last"])
                    assert (counted[group]["n"], counted[group]["l"]) == (own["rows"]["a"], own["c"]["last"])
