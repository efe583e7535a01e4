"""`millstream run` of a file whose streams are read from files."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from typer.testing import CliRunner

from millstream.cli import app


def test_the_last_statement_is_asked_of_what_the_sources_had(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("lab,1\nhall,xx\nlab,3\n")
    file = tmp_path / "app.cql"
    file.write_text(
        f"CREATE STREAM s (room STRING, v INT) TIMESTAMP BY v USING csv OPTIONS (path '{tmp_path / 'in'}');\n"
        "REGISTER QUERY q AS SELECT count(*) AS n FROM s [RANGE 10]; SELECT room FROM s [RANGE 10] -- the last"
    )
    for already in (False, True):
        done = CliRunner().invoke(app, ["run", str(file), "--db", str(tmp_path / "db")])
        assert done.exit_code == 0, done.output
        assert "1 row\nroom\n----\nlab\n(1 row)\nfinal up to 2: s has rows up to 3" in done.output
        assert ("stream s is there already" in done.output) == already
        assert ("1 malformed" in done.output) == (not already)
