"""FROM with the name of a standing query says what to do, and ad-hoc queries that read nothing are relations."""

from __future__ import annotations

import pytest

import millstream as ms


def test_a_standing_query_is_no_source() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT) TIMESTAMP BY t")
        db.register("SELECT k FROM s [RANGE 3]", name="near")
        with pytest.raises(ms.NameError, match='no stream, table or view called "Near"') as raised:
            db.execute("SELECT * FROM Near")
        hint = str(raised.value.hint)
        assert hint.startswith('it is a standing query: db.query("Near").result() is its answer')
        assert hint.endswith("CREATE VIEW Near AS with its text")
        db.execute("CREATE VIEW near AS SELECT k FROM s [RANGE 3]")
        assert db.execute("SELECT * FROM near").fetchall() == []


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        ("SELECT 1 + 1 AS two", ["two"], [(2,)]),
        ("SELECT 1 AS x WHERE FALSE", ["x"], []),
        ("SELECT x FROM UNNEST(array(2, 1)) AS u(x) ORDER BY x", ["x"], [(1,), (2,)]),
        ("SELECT 1 AS x UNION SELECT 2", ["x"], [(1,), (2,)]),
        ("SELECT ISTREAM(1 AS x)", ["_ts", "x"], [(0, 1)]),
    ],
)
def test_what_reads_nothing_is_a_relation(text: str, columns: list[str], rows: list[tuple[int, ...]]) -> None:
    with ms.connect(engine="inprocess") as db:
        found = db.execute(text)
        assert found.arrow().column_names == columns
        assert found.fetchall() == rows
        assert db.register("SELECT 1 AS x").result().to_pylist() == [{"_ts": 0, "x": 1}]
