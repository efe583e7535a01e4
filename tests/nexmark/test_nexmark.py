"""NEXMark's queries as their authors wrote them, but for windows, at several instants, against DuckDB."""

from __future__ import annotations

import datetime as dt
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from sqlglot import exp, parse_one
from tests.nexmark.data import SECONDS, SIDE_INPUT, START, rows

import millstream as ms

HERE = Path(__file__).parent
QUERIES = sorted(path.stem for path in HERE.glob("q*.cql"))
STREAMS = (HERE / "streams.cql").read_text()
INSTANTS = [START + dt.timedelta(seconds=second) for second in (9, 31, 60, SECONDS - 1, SECONDS + 12)]
BID = ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")
Rows = list[tuple[Any, ...]]


def text(name: str) -> str:
    return (HERE / f"{name}.cql").read_text().rstrip(";\n")


# What DuckDB is asked at an instant


def _windowed(stream: str, size: int, slide: int, at: dt.datetime) -> str:
    """The one window that is complete at an instant, and its bounds."""
    seconds = int(at.replace(tzinfo=dt.UTC).timestamp()) // slide * slide
    end = dt.datetime.fromtimestamp(seconds, dt.UTC).replace(tzinfo=None)
    start = end - dt.timedelta(seconds=size)
    bounds = f"TIMESTAMP '{start}' AS window_start, TIMESTAMP '{end}' AS window_end"
    return f"(SELECT *, {bounds} FROM {stream} WHERE dateTime >= '{start}' AND dateTime < '{end}')"


def _sessions(at: dt.datetime) -> str:
    """The open session of each bidder. A bid is there for 10 seconds, the last included: another one must come until
    then, at the latest in the second behind it."""
    after = at + dt.timedelta(seconds=1)
    following = f"lead(dateTime, 1, TIMESTAMP '{after}') OVER (PARTITION BY bidder ORDER BY dateTime)"
    gone = f"""SELECT bidder, max(dateTime) AS last FROM (SELECT *, {following} AS following FROM bid)
        WHERE following - dateTime > INTERVAL '11' SECOND GROUP BY bidder"""
    bounds = "min(b.dateTime) OVER w AS window_start, max(b.dateTime) OVER w + INTERVAL '10' SECOND AS window_end"
    return f"""(SELECT b.*, {bounds} FROM bid b LEFT JOIN ({gone}) g ON b.bidder = g.bidder
        WHERE g.last IS NULL OR b.dateTime > g.last WINDOW w AS (PARTITION BY b.bidder))"""


def translated(name: str, at: dt.datetime) -> str:
    """A query as DuckDB takes it, over the elements up to an instant."""
    found = text(name)
    found = re.sub(
        r"TABLE\(TUMBLE\(TABLE (\w+), DESCRIPTOR\(dateTime\), INTERVAL '(\d+)' SECOND\)\)",
        lambda m: _windowed(m[1], int(m[2]), int(m[2]), at),
        found,
    )
    found = re.sub(
        r"TABLE\(HOP\(TABLE (\w+), DESCRIPTOR\(dateTime\), INTERVAL '(\d+)' SECOND, INTERVAL '(\d+)' SECOND\)\)",
        lambda m: _windowed(m[1], int(m[3]), int(m[2]), at),
        found,
    )
    found = found.replace("bid [SESSION 10 SECONDS PARTITION BY bidder]", _sessions(at))
    found = found.replace("side_input FOR SYSTEM_TIME AS OF B.dateTime", "side_input")
    found = re.sub(r"DATE_FORMAT\((\w+), 'yyyy-MM-dd'\)", r"strftime(\1, '%Y-%m-%d')", found)
    found = re.sub(r"DATE_FORMAT\((\w+), 'HH:mm'\)", r"strftime(\1, '%H:%M')", found)
    found = re.sub(r"SPLIT_INDEX\((\w+), '/', (\d)\)", lambda m: f"string_split({m[1]}, '/')[{int(m[2]) + 1}]", found)
    found = found.replace("count_char(extra, 'c')", "length(extra) - length(replace(extra, 'c', ''))")
    return in_total_order(found.replace("`", '"'))


def in_total_order(found: str) -> str:
    """The query with ties in ROW_NUMBER ordered by the columns of bids, as ours are."""
    if "ROW_NUMBER" not in found:
        return found
    tree = parse_one(found, dialect="duckdb")
    for window in tree.find_all(exp.Window):
        if isinstance(window.this, exp.RowNumber):
            table = "B" if " B\n" in found or "AS B" in found else None
            more = [exp.Ordered(this=exp.column(name, table=table), nulls_first=True) for name in BID]
            window.args["order"].set("expressions", [*window.args["order"].expressions, *more])
    return tree.sql(dialect="duckdb")


@cache
def expected() -> dict[tuple[str, dt.datetime], Rows]:
    """The answer of each query at each instant, over the elements so far."""
    found: dict[tuple[str, dt.datetime], Rows] = {}
    for at in INSTANTS:
        duck = duckdb.connect()
        for statement in STREAMS.split(";\n"):
            declared = re.sub(r"\) TIMESTAMP BY[\s\S]*", ")", statement.replace("CREATE STREAM", "CREATE TABLE"))
            duck.execute(declared)
        for stream, elements in rows().items():
            place = [column[0] for column in duck.execute(f"DESCRIBE {stream}").fetchall()].index("dateTime")
            known = [row for row in elements if row[place] <= at]
            if known:
                duck.executemany(f"INSERT INTO {stream} VALUES ({', '.join('?' * len(known[0]))})", known)
        duck.executemany("INSERT INTO side_input VALUES (?, ?)", SIDE_INPUT)
        for name in QUERIES:
            found[name, at] = duck.execute(translated(name, at)).fetchall()
    return found


# What Millstream is asked


def declare(db: ms.Database) -> None:
    def count_char(column: pl.Series, wanted: pl.Series) -> pl.Series:
        """The function that Q14 brings along."""
        return column.str.count_matches(wanted.item(0), literal=True).cast(pl.Int64)

    db.execute(STREAMS)
    db.create_function("count_char", count_char, returns="BIGINT")
    db.execute("INSERT INTO side_input VALUES " + ", ".join(f"({key}, '{value}')" for key, value in SIDE_INPUT))


def register(db: ms.Database, mode: str = "eager") -> None:
    for name in QUERIES:
        db.register(text(name), name=name, mode=mode)


def feed(db: ms.Database, since: dt.datetime | None, until: dt.datetime) -> None:
    """The elements after an instant, up to another, and the heartbeats."""
    for stream, elements in rows().items():
        place = 6 if stream == "person" else 5
        due = [row for row in elements if (since is None or row[place] > since) and row[place] <= until]
        if due:
            db.insert(stream, due)
        db.advance(stream, to=until)


def check(db: ms.Database, name: str, at: dt.datetime) -> None:
    query = db.query(name)
    table = query.result(at=at)
    names = [column for column in table.column_names if column != "_ts"]
    found = [tuple(map(plain, row)) for row in zip(*(table[column].to_pylist() for column in names), strict=True)]
    wanted = [tuple(map(plain, row)) for row in expected()[name, at]]
    assert sorted(found, key=repr) == sorted(wanted, key=repr), (name, at)


def plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, float):
        return round(value, 6)
    return value if isinstance(value, str | int | None) else float(value)


def test_every_query_has_answers_that_change() -> None:
    for name in QUERIES:
        answers = [expected()[name, at] for at in INSTANTS]
        assert any(answers), name
        assert any(sorted(map(repr, one)) != sorted(map(repr, other)) for one, other in pairwise(answers)), name


def test_as_elements_come() -> None:
    with ms.connect(engine="inprocess") as db:
        declare(db)
        register(db)
        for since, at in pairwise([None, *INSTANTS]):
            assert at is not None
            feed(db, since, at)
            for name in QUERIES:
                check(db, name, at)


def test_late_and_after_a_restart_on_shards(tmp_path: Path) -> None:
    middle = INSTANTS[len(INSTANTS) // 2]
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("SET shards = 3")
        declare(db)
        feed(db, None, middle)
        register(db)
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        feed(db, middle, INSTANTS[-1])
        for name in QUERIES:
            for at in INSTANTS:
                check(db, name, at)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lazy", "none"])
def test_in_other_modes(mode: str) -> None:
    with ms.connect(engine="inprocess") as db:
        declare(db)
        register(db, mode)
        feed(db, None, INSTANTS[-1])
        for name in QUERIES:
            for at in INSTANTS:
                check(db, name, at)


@pytest.mark.slow
def test_on_spark(session: Any) -> None:
    with ms.connect(spark=session) as db:
        db.execute("SET shards = 2")
        declare(db)
        register(db)
        feed(db, None, INSTANTS[-1])
        for name in QUERIES:
            check(db, name, INSTANTS[-1])
