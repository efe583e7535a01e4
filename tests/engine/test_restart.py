"""A database that is closed and opened again before every action answers like one that never was."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from tests.properties.cases import Case
from tests.properties.driver import outcome
from tests.properties.generate import cases
from tests.properties.queries import LINEAR, RELATIONAL
from tests.support.answers import read_by_duckdb

import millstream as ms
from millstream.database import Database
from millstream.state.manifest import FORMAT


class Restarting:
    """A database that is opened anew for everything that is asked of it."""

    def __init__(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        self._path = path
        self._open = self._connect()

    def _connect(self) -> Database:
        return ms.connect(self._path, engine="inprocess")

    def __getattr__(self, name: str) -> Any:
        self._open.close()
        self._open = self._connect()
        return getattr(self._open, name)

    def __enter__(self) -> Restarting:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


@settings(max_examples=8)
@given(case=cases(LINEAR))
def test_linear_queries_survive_restarts(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    path = tmp_path_factory.mktemp("restart") / "db"
    assert outcome(case, lambda: Restarting(path)) == outcome(case)  # type: ignore[arg-type, return-value]


@settings(max_examples=10)
@given(case=cases(RELATIONAL))
def test_relational_queries_survive_restarts(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    path = tmp_path_factory.mktemp("restart") / "db"
    assert outcome(case, lambda: Restarting(path)) == outcome(case)  # type: ignore[arg-type, return-value]


def fed(path: Path) -> Database:
    db = ms.connect(path, engine="inprocess")
    db.execute("""
        CREATE STREAM s (a INT, b STRING) TIMESTAMP BY t;
        REGISTER QUERY q AS SELECT a, COUNT(*) AS n FROM s [RANGE 5] GROUP BY a;
    """)
    db.insert("s", [(1, "x", 1), (2, "y", 2), (1, "z", 4)])
    return db


def test_everything_declared_comes_back(tmp_path: Path) -> None:
    with fed(tmp_path / "db") as db:
        db.execute("SET range_bounds = 'closed'; CREATE VIEW v (x, n) AS SELECT a, n FROM (SELECT a, 1 AS n FROM s) w")
        db.create_function("twice", lambda column: column * 2, "int")
        db.register("SELECT twice(x) AS d FROM v", name="Of Mine", mode="lazy")
        expected = {query.name: (query.cql, query.mode, query.result()) for query in db.queries()}
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert {query.name: (query.cql, query.mode, query.result()) for query in db.queries()} == expected
        db.insert("s", [(3, "w", 6)])
        db.advance(to=6)
        assert sorted(db.query("of mine").result().to_pydict()["d"]) == [2, 2, 4, 6]
        with pytest.raises(ms.CatalogError, match="already"):
            db.execute("CREATE STREAM S (a INT) TIMESTAMP BY t")


def test_stems_and_what_they_learned_come_back(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("""
            SET join_plan = 'eddy';
            CREATE STREAM s (a INT, b INT) TIMESTAMP BY t;
            CREATE STREAM u (a INT, b INT) TIMESTAMP BY t;
        """)
        query = "SELECT x.b, y.b, z.b FROM s [RANGE 9] x, s [ROWS 2] y, u [RANGE 9] z WHERE x.a = y.a AND y.b = z.b"
        db.register(query, name="q")
        db.insert("s", [(1, 7, 1), (1, 8, 2)])
        db.insert("u", [(0, 7, 2), (0, 8, 2)])
        (step,) = [name for name in db.engine.snapshot.states if name.startswith("stemjoin")]
        state = db.engine.snapshot.states[step]
        assert set(state) == {"0/stem 0", "0/stem 1", "0/stem 2", "0/routing"}
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert db.engine.snapshot.states[step] == state
        db.insert("s", [(1, 9, 3)])
        db.insert("u", [(0, 9, 3)])
        db.advance(to=3)
        found = Counter(tuple(row.values()) for row in db.query("q").result().to_pylist())
        # Of y the last two rows of s are left.
        assert found == Counter((x, y, y) for x in (7, 8, 9) for y in (8, 9))


def test_a_failed_query_is_still_failed(tmp_path: Path) -> None:
    with fed(tmp_path / "db") as db:
        db.register("SELECT 1 / (a - 3) AS x FROM s [NOW]", name="failing")
        db.insert("s", [(3, "w", 6)])
        db.advance(to=9)
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        with pytest.raises(ms.EvaluationError, match="division by zero"):
            db.query("failing").result()
        assert db.query("q").result(at=6).num_rows == 3
        db.query("failing").drop()


def test_history_can_be_read_by_others(tmp_path: Path) -> None:
    fed(tmp_path / "db").close()
    rows = read_by_duckdb(f"SELECT _ts, a, b FROM '{tmp_path}/db/history/s/**/*.parquet' ORDER BY _ts")
    assert rows == [(1, 1, "x"), (2, 2, "y"), (4, 1, "z")]


def test_there_is_one_writer(tmp_path: Path) -> None:
    script = f"import millstream as ms; ms.connect({str(tmp_path / 'db')!r}, engine='inprocess')"
    with fed(tmp_path / "db"):
        other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert "is open already" in other.stderr


def contents(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file() and path.name != "LOCK"
    }


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def use(path: Path) -> None:
    """Everything of a database is read: state by an insert, history by a late query, results by asking."""
    with ms.connect(path, engine="inprocess") as db:
        db.query("q").changes()
        db.insert("s", [(1, "v", 8)])
        db.register("SELECT a FROM s [RANGE 3]")


@pytest.mark.parametrize(
    "kind", ["manifest/manifest-*.json", "manifest/catalog-*.json", "segments/*.seg", "history/s/*/*"]
)
@pytest.mark.parametrize("where", [0.1, 0.5])
def test_a_flipped_bit_is_found_and_nothing_is_overwritten(tmp_path: Path, kind: str, where: float) -> None:
    path = tmp_path / "db"
    fed(path).close()
    (damaged, *_) = sorted(path.glob(kind))
    size = damaged.stat().st_size
    # Not all of a file that was appended to is of use to anyone.
    for place in range(int(size * where), size, 100) if kind == "segments/*.seg" else [int(size * where)]:
        flip(damaged, place)
    before = contents(path)
    with pytest.raises(ms.StateError, match="is damaged") as raised:
        use(path)
    assert damaged.name in str(raised.value)
    after = contents(path)
    kept = [
        name
        for name in before
        if not name.startswith(("manifest/manifest-", "manifest/changes-")) or kind.startswith("manifest")
    ]
    assert all(after.get(name) == before[name] for name in kept) or kind == "history/s/*/*"  # opening takes a number
    assert after[str(damaged.relative_to(path))] == before[str(damaged.relative_to(path))]


def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    path = tmp_path / "db"
    fed(path).close()
    for segment in (path / "segments").iterdir():
        segment.unlink()
    with pytest.raises(ms.StateError, match="is missing"):
        use(path)


def test_an_unknown_format_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "db"
    fed(path).close()
    (manifest,) = (path / "manifest").glob("manifest-*.json")
    manifest.write_bytes(manifest.read_bytes().replace(f"manifest {FORMAT} ".encode(), b"manifest 9 ", 1))
    (path / "segments" / "e99-orphan.seg").write_bytes(b"of a later version")
    before = contents(path)
    with pytest.raises(ms.StateError, match="has format 9"):
        ms.connect(path, engine="inprocess")
    assert contents(path) == before


def _unnumbered(name: str) -> str:
    return re.sub(r"manifest-\d+\.json", "manifest.json", name)


def test_orphans_are_collected(tmp_path: Path) -> None:
    path = tmp_path / "db"
    fed(path).close()
    before = contents(path)
    (path / "segments" / "e99-abcd.seg").write_bytes(b"half")
    (path / "history" / "s" / "e99-abcd.parquet").write_bytes(b"half")
    (path / "manifest" / "manifest-0000000099.tmp").write_bytes(b"half")
    ms.connect(path, engine="inprocess").close()
    before = {name: content for name, content in before.items() if not name.endswith(".log")}
    after = {name for name in contents(path) if not name.endswith(".tmp")}
    # Whoever opens the database takes the next number.
    assert {_unnumbered(name) for name in after} == {_unnumbered(name) for name in before}
    assert len(after) == len(before)


def test_a_plan_of_another_version_is_made_again_from_history(tmp_path: Path) -> None:
    """The recorded edge differs from the one that this version plans: the query is backfilled."""
    path = tmp_path / "db"
    fed(path).close()
    (catalog,) = (path / "manifest").glob("catalog-*.json")
    entries = json.loads(catalog.read_bytes().partition(b"\n")[2])
    entries[-1]["edge"] = "aggregate-of-old"
    from millstream.state.files import write_whole
    from millstream.state.manifest import FORMAT

    write_whole(catalog, "catalog", FORMAT, json.dumps(entries).encode())
    with ms.connect(path, engine="inprocess") as db:
        assert db.query("q").result(at=2).num_rows == 2
        db.insert("s", [(1, "v", 8)])
    with ms.connect(path, engine="inprocess") as db:
        assert db.query("q").changes().num_rows == 6
