"""Names that cannot be used are refused when they are given, on every way in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream.service.tokens import Role, Tokens

UNUSABLE: list[Any] = ["", "_x", "\ud800", "a\x00b", "a\nb", "x" * 129, ".", "..", 5, None]
NO_PATHS = ["a/b", "a\\b", "\U0001f600" * 60]
AS_COLUMNS = ["_x", "a\x00b", "x" * 129]
OF_OBJECTS = [name for name in UNUSABLE if isinstance(name, str) and name]


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as database:
        database.execute("CREATE STREAM S (a INT) TIMESTAMP BY t; REGISTER QUERY q AS SELECT a FROM S [NOW]")
        yield database


@pytest.mark.parametrize("name", UNUSABLE, ids=ascii)
def test_names_given_from_python(db: ms.Database, name: Any, tmp_path: Path) -> None:
    ways: tuple[Callable[[], object], ...] = (
        # Without a name, a query is given one.
        *([lambda: db.register("SELECT a FROM S [NOW]", name)] if name is not None else []),
        lambda: db.register_many("SELECT a FROM S [NOW] WHERE a > ?", [(1,)], names=[name]),
        lambda: db.create_sink(name, "q", lambda number, changes: None),
        lambda: db.create_function(name, lambda column: column, "int"),
        lambda: db.create_aggregate(name, object, "int"),  # type: ignore[arg-type]  # the name is refused first
        lambda: Tokens(tmp_path).add(name, Role.READ),
    )
    for give in ways:
        with pytest.raises(ms.Error) as refused:
            give()
        str(refused.value).encode()
    assert [query.name for query in db.queries()] == ["q"]


@pytest.mark.parametrize("name", OF_OBJECTS, ids=ascii)
def test_names_given_in_statements(db: ms.Database, name: str) -> None:
    quoted = "`" + name.replace("\\", "\\\\") + "`"
    for text in (
        f"CREATE STREAM {quoted} (a INT) TIMESTAMP BY t",
        f"CREATE TABLE {quoted} (a INT)",
        f"CREATE VIEW {quoted} AS SELECT a FROM S [NOW]",
        f"REGISTER QUERY {quoted} AS SELECT a FROM S [NOW]",
        f"CREATE SINK {quoted} FOR q USING parquet OPTIONS (path 'x')",
    ):
        with pytest.raises(ms.Error) as refused:
            db.execute(text)
        str(refused.value).encode("utf-8", "replace")


@pytest.mark.parametrize("name", NO_PATHS, ids=ascii)
def test_names_that_become_paths(db: ms.Database, name: str) -> None:
    quoted = "`" + name.replace("\\", "\\\\") + "`"
    for text in (f"STREAM {quoted} (a INT) TIMESTAMP BY t", f"TABLE {quoted} (a INT)"):
        with pytest.raises(ms.NameError, match="path"):
            db.execute(f"CREATE {text}")
    assert db.register("SELECT a FROM S [NOW]", name).result().num_rows == 0  # queries become none


def test_dots_separate_names(db: ms.Database) -> None:
    for text in ("STREAM `a.b` (a INT) TIMESTAMP BY t", "TABLE `a.b` (a INT)", "VIEW `a.b` AS SELECT a FROM S [NOW]"):
        with pytest.raises(ms.NameError, match="has a dot in it"):
            db.execute(f"CREATE {text}")


@pytest.mark.parametrize("name", AS_COLUMNS, ids=ascii)
def test_names_of_columns(db: ms.Database, name: str) -> None:
    for text in (
        f"CREATE STREAM R (`{name}` INT) TIMESTAMP BY t",
        f"CREATE STREAM R (a INT) TIMESTAMP BY `{name}`",
        f"CREATE TABLE R (`{name}` INT)",
        f"REGISTER QUERY p AS SELECT a AS `{name}` FROM S [NOW]",
    ):
        with pytest.raises(ms.NameError):
            db.execute(text)


def test_usable_names_are_used(db: ms.Database, tmp_path: Path) -> None:
    names = ["x" * 128, "größe", "a b", "100%", "select", "a'b"]
    with ms.connect(tmp_path / "db", engine="inprocess") as kept:
        for place, name in enumerate(names):
            kept.execute(f"CREATE STREAM `{name}` (`a/b` INT) TIMESTAMP BY t; INSERT INTO `{name}` VALUES (1, 1)")
            kept.register(f"SELECT `a/b` AS c FROM `{name}` [NOW]", name=f"q{place} {name}"[:128])
    with ms.connect(tmp_path / "db", engine="inprocess") as kept:
        kept.advance(to=1)
        assert [query.result(at=1).to_pylist() for query in kept.queries()] == [[{"c": 1}]] * len(names)


def test_texts_that_cannot_be_written_are_refused(db: ms.Database) -> None:
    texts: tuple[Any, ...] = ("SELECT '\ud800' AS a", "SELECT a AS `\udfff` FROM S [NOW]", b"SELECT 1", None, 5)
    for text in texts:
        for give in (db.execute, db.register, db.explain):
            with pytest.raises(ms.Error):
                give(text)
