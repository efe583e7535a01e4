"""What DuckDB is asked must be answered right by itself."""

from __future__ import annotations

from tests.text_oracle.world import World


def test_exists_of_a_full_join_with_an_empty_side() -> None:
    world = World()
    world.duck.execute("CREATE TABLE D (a INT); INSERT INTO D VALUES (0), (1)")
    world.duck.execute("CREATE TABLE S (a INT, until INT); INSERT INTO S VALUES (7, 1)")
    joined = "SELECT 1 FROM D FULL JOIN (SELECT * FROM S WHERE until > 5) AS S USING (a)"
    assert world.duck.execute(joined).fetchall() == [(1,), (1,)]
    assert world.duck.execute(f"SELECT EXISTS ({joined})").fetchall() == [(True,)]
    world.close()
