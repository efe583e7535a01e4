"""Aggregates of many queries that are summed by cell: as each query alone, whoever comes, goes and asks."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import millstream as ms
from millstream.kernel.aggregation import change_points
from millstream.kernel.relational import cells_apart, compacted_cells
from millstream.kernel.sharing.cells import SPAN

STREAM = "CREATE STREAM S (g INT, a INT, b INT, v INT, d DOUBLE, n DECIMAL(8,2), t STRING) TIMESTAMP BY ts"
TEXTS = (
    "SELECT g, count(*), sum(v), avg(v) FROM S {w} WHERE a > {0} AND b < {1} GROUP BY g",
    "SELECT count(*), sum(v), avg(d), sum(d), count(n) FROM S {w} WHERE a > {0} AND b < {1}",
    "SELECT g, sum(d), stddev(d), variance(v), avg(n), sum(n) FROM S {w} WHERE a > {0} OR b < {1} GROUP BY g",
    "SELECT coalesce(g, 0) AS h, count(v) FROM S {w} WHERE a > {0} AND b <> {1} GROUP BY g HAVING sum(v) > 3",
    "SELECT DISTINCT any(v > 3), every(v > 1), count_if(v > 2) FROM S {w} WHERE a >= {0} AND b < {1} GROUP BY g",
    "SELECT g, a, count(*) FROM S {w} WHERE a + b > {0} AND d < {1} GROUP BY g, a",
    "SELECT g, sum(v), avg(d) FROM S {w} WHERE a > {0} GROUP BY g HAVING count(*) <= {1}",
    "SELECT DISTINCT CASE WHEN count(v) > {0} THEN 1 END AS c FROM S {w} WHERE a > {1} GROUP BY g",
    "SELECT g, count(*) FILTER (WHERE a > {0}) AS c, sum(v) FILTER (WHERE b < {1}) AS s FROM S {w} GROUP BY g",
    "SELECT g, sum(CASE WHEN a > {0} THEN v ELSE 0 END) AS s, avg(d) FROM S {w} WHERE b < {1} GROUP BY g",
    "SELECT sum(CASE WHEN a > {0} OR v < {1} THEN v WHEN v > 1 THEN b ELSE a END) AS s FROM S {w}",
    "SELECT count(n) FILTER (WHERE v BETWEEN {0} AND {1}) AS c, every(d > 0) FILTER (WHERE a > 1) AS e FROM S {w}",
)
EXTREMES = (
    "SELECT min(v), max(d), sum(v) FROM S {w} WHERE a > {0} AND b < {1}",
    "SELECT g, min(t), max(t), max(n) FROM S {w} WHERE a > {0} AND b < {1} GROUP BY g",
    "SELECT g, min(v), min(d) FROM S {w} WHERE a > {0} OR b < {1} GROUP BY g HAVING max(v) < 5",
)
OF_ROWS: tuple[str, ...] = ("[ROWS 4]", "[ROWS 9]", "[ROWS 6 SLIDE 2]")
OF_TIME: tuple[str, ...] = ("[RANGE 7]", "[RANGE 3]", "[RANGE 10 SLIDE 4]", "[TUMBLE 5]", "[NOW]")
WINDOWS: tuple[str, ...] = ("[ROWS 4]", "", "[PARTITION BY g ROWS 2]", *OF_TIME)
DOUBLES = (None, 0.1, 0.2, 1e300, -1e300, float("inf"), 2.5, 1e-20)


def rows_of(table: pa.Table) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


def is_in_cells(query: ms.Query) -> bool:
    return query._context.engine.groups[query.edge].lifted.upper is not None


class Twins:
    """The same queries in a database where they share, and in one where they do not."""

    def __init__(self, dice: random.Random, path: Path) -> None:
        self.dice, self.path = dice, path
        text, over = (
            (dice.choice(TEXTS), WINDOWS) if dice.random() < 0.6 else (dice.choice(EXTREMES), (*OF_TIME, *OF_ROWS))
        )
        if "a + b" in text:  # which can fail, so that there are no groups over ROWS
            over = OF_TIME
        self.text = text.replace("{w}", dice.choice(over))
        self.together, self.apart = ms.connect(path, engine="inprocess"), ms.connect(engine="inprocess")
        self.together.execute(f"SET shards = {dice.randint(1, 3)}; SET background_rows = {dice.choice((0, 4, 10_000))}")
        for db, sharing in ((self.together, "on"), (self.apart, "off")):
            db.execute(f"SET sharing = '{sharing}'; {STREAM}")
        self.names: list[str] = []
        self.count, self.now = 0, 0

    def constants(self) -> tuple[int, int]:
        return self.dice.randint(-1, 4), self.dice.randint(0, 5)

    def register(self, count: int) -> None:
        rows = [self.constants() for _ in range(count)]
        names = [f"n{self.count + place}" for place in range(count)]
        self.count += count
        if count == 1:
            self.together.register(self.text.format(*rows[0]), name=names[0])
        else:
            self.together.register_many(self.text.format("?", "?"), rows, names=names)
        for name, row in zip(names, rows, strict=True):
            self.apart.register(self.text.format(*row), name=name)
        self.names += names

    def drop(self) -> None:
        name = self.names.pop(self.dice.randrange(len(self.names)))
        for db in (self.together, self.apart):
            db.query(name).drop()

    def insert(self) -> None:
        dice, rows = self.dice, []
        for _ in range(dice.randint(1, 9)):
            self.now += dice.choice((0, 0, 1, 2))
            amount = dice.choice((None, Decimal("1.25"), Decimal("-3.10")))
            values = (
                dice.choice((None, 1, 2, 3)),
                dice.randint(0, 5),
                dice.randint(0, 5),
                dice.choice((None, 1, 2, 5, -3)),
            )
            rows.append((*values, dice.choice(DOUBLES), amount, dice.choice((None, "x", "y", "z")), self.now))
        for db in (self.together, self.apart):
            db.insert("S", rows)

    def reopen(self) -> None:
        self.together.close()
        self.together = ms.connect(self.path, engine="inprocess")

    def check(self) -> None:
        if not self.now:  # nothing is final
            return
        for at in (None, self.now // 2):
            both = (db.results([*map(db.query, self.names)], at=at) for db in (self.together, self.apart))
            assert rows_of(next(both)) == rows_of(next(both))
        for name in self.names:
            one, other = self.together.query(name), self.apart.query(name)
            assert is_in_cells(one)
            assert rows_of(one.result()) == rows_of(other.result())
            assert rows_of(one.changes()) == rows_of(other.changes())
            for at in (self.now // 2, max(self.now - 2, 0)):
                assert rows_of(one.result(at=at)) == rows_of(other.result(at=at))
                assert rows_of(one.changes(since=at)) == rows_of(other.changes(since=at))


def put_all_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever rows come, those that start and end together become totals of single queries."""
    for name, least in (("LEAST", 0), ("FAR_MORE", 0), ("_TOGETHER", 3), ("_are_few", lambda _: False)):
        monkeypatch.setattr(cells_apart, name, least)
    monkeypatch.setattr(change_points, "_ROWS_PER_PANE", 0)


@pytest.mark.parametrize("seed", range(36))
def test_as_each_query_alone(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    monkeypatch.setattr(compacted_cells, "FAR_MORE", dice.choice((0, 2)))
    if seed >= 24:
        put_all_apart(monkeypatch)
    twins = Twins(dice, tmp_path / "db")
    twins.register(dice.randint(2, 5))
    for _ in range(dice.randint(4, 9)):
        twins.insert()
        event = dice.random()
        if event < 0.45:
            twins.register(dice.choice((1, 1, 2)))
        elif event < 0.6 and len(twins.names) > 1:
            twins.drop()
        elif event < 0.75:
            twins.reopen()
        elif event < 0.9:
            twins.check()
    end = twins.now + dice.randint(1, 9)
    for db in (twins.together, twins.apart):
        db.advance("S", to=end)
    twins.now += 1
    twins.check()
    twins.together.close()
    twins.apart.close()


@pytest.fixture
def db() -> ms.Database:
    db = ms.connect(engine="inprocess")
    db.execute(STREAM)
    return db


@pytest.mark.parametrize(("keys", "grouping"), [("", ""), ("g, ", " GROUP BY g"), ("g, b, ", " GROUP BY g, b")])
def test_queries_of_a_template_are_read_together(db: ms.Database, keys: str, grouping: str) -> None:
    text = f"SELECT {keys}count(*), sum(v), avg(d) FROM S [RANGE 3] WHERE a > ? AND b < ?{grouping}"
    of = db.register_many(text, [(a, b) for a in range(4) for b in range(4)], template="counts")
    pairs = [(1, 2), (2, 1), (3, 0), (0, 3), (2, 2), (3, 1)]
    db.insert("S", [(ts % 2, a, b, a + b, 0.1 * ts, None, None, ts) for ts, (a, b) in enumerate(pairs)])
    db.advance("S", to=7)
    for at in (None, 3):
        found = of.result(at=at).to_pylist()
        for query in of:
            own = [{key: row[key] for key in row if key[0] != "_"} for row in found if row["_query"] == query.name]
            assert own == query.result(at=at).to_pylist()
    for since in (None, 2, 4):
        changes = of.changes(since=since).to_pylist()
        for query in of:
            own = [
                {key: row[key] for key in row if key[:2] not in ("_q", "_p")}
                for row in changes
                if row["_query"] == query.name
            ]
            assert own == query.changes(since=since).to_pylist()


def test_extremes_of_values_far_apart(db: ms.Database) -> None:
    db.execute("SET sharing = 'on'; CREATE STREAM L (a INT, v BIGINT, c STRING) TIMESTAMP BY ts")
    db.insert("L", [(1, 2, "a", 0), (None, 2**62, "ab", 0), (1, -1, "a", 5)])
    text = "SELECT c, min(v) AS least, max(v) AS most FROM L [RANGE 1] WHERE v {} GROUP BY c HAVING max(a) < 4"
    queries = [db.register(text.format(which)) for which in (">= 0", "> 5")]
    assert all(is_in_cells(query) for query in queries)
    assert [query.result(at=0).to_pylist() for query in queries] == [[{"c": "a", "least": 2, "most": 2}], []]


def test_a_row_is_summed_once_however_many_queries_want_it(db: ms.Database) -> None:
    queries = db.register_many("SELECT count(*) FROM S [RANGE 5] WHERE a > ?", [(-1 - n,) for n in range(500)])
    db.insert("S", [(1, 1, 1, 1, 0.5, None, None, ts) for ts in range(3)])
    (edge,) = {query.edge for query in queries}
    engine = queries[0]._context.engine
    assert sum(frame.height for frame in engine.reader.segments(edge, engine.snapshot)) == 2  # of instants 0 and 1
    assert [query.result().to_pylist() for query in queries[::100]] == [[{"count(*)": 2}]] * 5


def test_more_queries_than_a_span_has(db: ms.Database) -> None:
    queries = db.register_many("SELECT sum(v) AS s FROM S [RANGE 5] WHERE a > ?", [(n,) for n in range(SPAN + 3)])
    db.insert("S", [(1, SPAN + 1, 1, 7, 0.5, None, None, 0), (1, 5, 1, 1, 0.5, None, None, 0)])
    db.advance("S", to=1)
    chosen = [0, 4, 5, SPAN - 1, SPAN, SPAN + 1]
    assert [queries[n].result()["s"].to_pylist() for n in chosen] == [[8], [8], [7], [7], [7], [None]]


def test_a_condition_that_fails_stops_its_query_alone(db: ms.Database) -> None:
    queries = db.register_many("SELECT count(*) AS n FROM S [RANGE 5] WHERE 10 / (a - ?) > 0", [(0,), (1,), (2,)])
    db.insert("S", [(1, 5, 1, 1, 0.5, None, None, 0), (1, 7, 1, 1, 0.5, None, None, 1)])
    assert all(is_in_cells(query) for query in queries)
    db.insert("S", [(1, 1, 1, 1, 0.5, None, None, 2)])
    db.advance("S", to=3)
    with pytest.raises(ms.EvaluationError):
        queries[1].result()
    assert [queries[n].result()["n"].to_pylist() for n in (0, 2)] == [[3], [2]]


@pytest.mark.parametrize("grouping", ["", " GROUP BY g", " GROUP BY g HAVING count(*) > 0"])
@pytest.mark.parametrize(("shards", "apart"), [(1, False), (1, True), (3, False), (3, True)])
def test_a_sum_that_does_not_fit_stops_its_query_alone(
    grouping: str, shards: int, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though sums of cells do not fit into BIGINT where those of queries do."""
    if apart:
        put_all_apart(monkeypatch)
    db = ms.connect(engine="inprocess")
    db.execute(f"SET shards = {shards}; CREATE STREAM L (g INT, a INT, v BIGINT) TIMESTAMP BY ts")
    text = f"SELECT sum(v) AS s FROM L [RANGE 5] WHERE a > ? AND a < ?{grouping}"
    large = 2**62
    queries = db.register_many(text, [(0, 9), (0, 3), (1, 4), (2, 5), (3, 9)])
    assert all(is_in_cells(query) for query in queries)
    db.insert("L", [(1, 1, large, 0), (1, 2, large - 1, 0), (1, 3, -large, 0), (1, 4, -large, 0)])
    db.insert("L", [(1, 2, 1, 1), (1, 2, large - 1, 1), (1, 3, -large, 1)])
    late = db.register_many(text, [(1, 4), (0, 3)])
    db.advance("L", to=2)
    for query in (queries[1], queries[3], late[1]):
        with pytest.raises(ms.EvaluationError, match="does not fit into BIGINT"):
            query.result()
    sums = [query.result()["s"].to_pylist() for query in (queries[0], queries[2], queries[4], late[0])]
    assert sums == [[-1], [-1], [-large], [-1]]
    db.close()


@pytest.mark.parametrize("shards", [1, 3])
def test_a_sum_that_does_not_fit_fails_nothing_where_having_leaves_it_out(shards: int, tmp_path: Path) -> None:
    """By a constant of each query, also after a restart."""
    text = "SELECT g, sum(v) AS s FROM L [RANGE 5] WHERE a < ? GROUP BY g HAVING count(*) < ?"
    constants = [(9, 3), (9, 9), (3, 3), (2, 3)]
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"SET shards = {shards}; CREATE STREAM L (g INT, a INT, v BIGINT) TIMESTAMP BY ts")
        queries = db.register_many(text, constants, names=["p", "q", "r", "s"])
        assert all(is_in_cells(query) for query in queries)
        db.insert("L", [(1, 1, 2**62, 0), (2, 1, 7, 0)])
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.insert("L", [(1, 2, 2**62, 1), (1, 4, 1, 1), (2, 4, 1, 2)])
        db.advance("L", to=3)
        for name in ("q", "r"):
            with pytest.raises(ms.EvaluationError, match="does not fit into BIGINT"):
                db.query(name).result()
        assert db.query("p").result().to_pylist() == [{"g": 2, "s": 8}]
        assert rows_of(db.query("s").result()) == [str((1, 2**62)), str((2, 7))]
        together = db.results([db.query("p"), db.query("s")])
        assert len(rows_of(together)) == 3


@pytest.mark.parametrize(
    "text",
    [
        "SELECT g, min(v) FROM S [PARTITION BY g ROWS 5] WHERE a > ? GROUP BY g",
        "SELECT g, min(v) FROM S [ROWS 20000] WHERE a > ? GROUP BY g",
        "SELECT g, min(v), sum(cast(v AS BIGINT)) FROM S [ROWS 5] WHERE a > ? GROUP BY g",
        "SELECT g, max(v) FROM S WHERE a > ? GROUP BY g",
        "SELECT count(DISTINCT v) FROM S [RANGE 5] WHERE a > ?",
        "SELECT 1 / count(*) FROM S [RANGE 5] WHERE a > ? GROUP BY g",
        "ISTREAM(SELECT count(*) FROM S [RANGE 5] WHERE a > ?)",
        "SELECT count(*) FROM S [RANGE 5] WHERE a = ?",
    ],
)
def test_what_is_expanded_to_queries(db: ms.Database, text: str) -> None:
    assert not is_in_cells(db.register_many(text, [(1,), (2,)])[0])


def test_a_sum_that_does_not_fit_beside_conditions_of_an_aggregate() -> None:
    """What a call gives, and where it fails, is of the same column of the cases."""
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (i INT, a BIGINT) TIMESTAMP BY ts")
        text = (
            "SELECT sum(a) AS t, count(*) FILTER (WHERE i > ?) AS n, sum(a) FILTER (WHERE i > ?) AS o FROM s [RANGE 5]"
        )
        queries = db.register_many(text, [(0, 1), (1, 2), (0, 1)])
        assert all(map(is_in_cells, queries))
        db.insert("s", [(1, 2**62, 1), (2, 5, 1)])
        db.advance("s", to=1)
        assert rows_of(queries[1].result()) == [repr((2**62 + 5, 1, None))]
        db.insert("s", [(3, 2**62, 3)])
        db.advance("s", to=4)
        for query in queries:
            with pytest.raises(ms.Error, match=r"sum\(a\) does not fit into BIGINT"):
                query.result()
