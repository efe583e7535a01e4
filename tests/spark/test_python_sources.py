"""Sources written in Python and named by where they are imported from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import millstream as ms

pytestmark = pytest.mark.spark

# Gives the lines of a file that it has not given yet, so that a later run goes on. Its name() says nothing.
MODULE = """
import json
from pathlib import Path
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, WriterCommitMessage
from pyspark.sql.datasource import SimpleDataSourceStreamReader

class Lines(DataSource):
    def schema(self):
        return "ts BIGINT, k INT"

    def simpleStreamReader(self, schema):
        return Reader(self.options["path"])

    def reader(self, schema):
        return Whole(self.options["path"])

    def writer(self, schema, overwrite):
        return Writer(self.options["path"], self.options["delivery"])

class Reader(SimpleDataSourceStreamReader):
    def __init__(self, path):
        self.path = path

    def rows(self):
        return [tuple(json.loads(line)) for line in Path(self.path).read_text().splitlines()]

    def initialOffset(self):
        return {"at": 0}

    def read(self, start):
        rows = self.rows()
        return iter(rows[start["at"]:]), {"at": len(rows)}

    def readBetweenOffsets(self, start, end):
        return iter(self.rows()[start["at"]:end["at"]])

class Whole(DataSourceReader):
    def __init__(self, path):
        self.path = path

    def read(self, partition):
        return iter(Reader(self.path).rows())

class Writer(DataSourceWriter):
    def __init__(self, path, delivery):
        self.path, self.delivery = path, delivery

    def write(self, rows):
        Path(self.path, self.delivery).write_text(json.dumps([row.asDict() for row in rows]))
        return WriterCommitMessage()
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory of packages that both this process and Spark's workers look into; those of a cluster know of one."""
    place = Path(os.environ.get("MILLSTREAM_TEST_PACKAGES") or tmp_path_factory.mktemp("packages"))
    for name, text in {
        "lines": MODULE,
        "other": MODULE.replace("BIGINT, k INT", "BIGINT, other INT"),
        "broken": "import no_such_module_of_anybody",
        "raising": "raise ValueError('not today')",
    }.items():
        (place / "mill_sources").mkdir(exist_ok=True)
        (place / "mill_sources" / f"{name}.py").write_text(text)
    sys.path.append(str(place))
    yield place
    sys.path.remove(str(place))
    for name in [name for name in sys.modules if name.partition(".")[0] == "mill_sources"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def known(package: Path, session: SparkSession) -> SparkSession:
    """A session that was started when the packages were there already."""
    return session


def test_a_source_is_named_by_its_path_and_survives_a_restart(known: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("[1, 10]\n[2, 20]\n")
    (tmp_path / "out").mkdir()
    with ms.connect(tmp_path / "db", spark=known) as db:
        options = f"OPTIONS (path '{tmp_path}/in')"
        db.execute(f"CREATE STREAM s (k INT) TIMESTAMP BY ts USING mill_sources.lines.Lines {options}")
        db.execute(f"CREATE STREAM o (other INT) TIMESTAMP BY ts USING mill_sources.other.Lines {options}")
        db.execute(f"CREATE TABLE t (k INT, ts BIGINT) USING `mill_sources.lines.Lines` {options}")
        db.register("SELECT k FROM s", name="q")
        db.execute(f"CREATE SINK kept FOR q USING mill_sources.lines.Lines OPTIONS (path '{tmp_path}/out')")
        db.run()
        assert db.stats()["streams"]["o"]["arrived"] == 2, "two classes of one name"
        assert db.execute("SELECT k FROM t").table.to_pydict() == {"k": [10, 20]}  # type: ignore[union-attr]
    (tmp_path / "in").write_text("[1, 10]\n[2, 20]\n[3, 30]\n")
    with ms.connect(tmp_path / "db", spark=known.newSession()) as db:  # which has not heard of the class
        db.run()
        db.advance(to=9)
        assert db.query("q").result().to_pydict() == {"_ts": [1, 2, 3], "k": [10, 20, 30]}
        assert db.stats()["sinks"]["kept"]["error"] == ""
    written = [json.loads(path.read_text()) for path in sorted((tmp_path / "out").iterdir())]
    assert [row["k"] for rows in written for row in rows] == [10, 20, 30]


REFUSALS = [
    ("no.such.package.Source", r"knows no format[^$]*Python find a module no\.such\.package"),
    ("mill_sources.nothing.Lines", r"Python find a module mill_sources\.nothing"),
    ("mill_sources.lines.Linse", r'module mill_sources\.lines has no "Linse"[^$]*did you mean "Lines"'),
    ("mill_sources.lines.Reader", r"is not a data source[^$]*class of another kind[^$]*derived from pyspark"),
    ("mill_sources.lines.json", r"is not a data source[^$]*it is a module"),
    ("mill_sources.broken.Source", r"mill_sources\.broken cannot be imported[^$]*no_such_module_of_anybody"),
    ("mill_sources.raising.Source", r"cannot be imported[^$]*ValueError: not today"),
]


@pytest.mark.parametrize(("path", "message"), REFUSALS, ids=[path for path, _ in REFUSALS])
def test_what_is_no_source_is_refused(known: SparkSession, path: str, message: str) -> None:
    with ms.connect(spark=known) as db:
        with pytest.raises(ms.Error, match=message) as refused:
            db.execute(f"CREATE STREAM s (k INT) TIMESTAMP BY ts USING {path}")
        assert refused.value.place is not None
        assert refused.value.place.text[refused.value.place.start :].startswith("USING")
        assert "s" not in db.catalog


def test_a_source_that_workers_cannot_import_is_refused(known: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "mill_unseen.py").write_text(MODULE)
    sys.path.append(str(tmp_path))  # of this process only: Spark runs already
    try:
        with (
            ms.connect(spark=known) as db,
            pytest.raises(ms.SetupError, match=r"workers cannot import mill_unseen[^$]*PYTHONPATH"),
        ):
            db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts USING mill_unseen.Lines OPTIONS (path '/')")
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("mill_unseen", None)


SCRIPT = """
import millstream as ms
with ms.connect(master="local[1]") as db:
    db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts USING beside.Lines OPTIONS (path '{path}')")
    db.run()
    assert db.stats()["streams"]["s"]["arrived"] == 2
"""


@pytest.mark.slow
def test_a_source_that_lies_beside_a_local_script(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("[1, 10]\n[2, 20]\n")
    (tmp_path / "beside.py").write_text(MODULE)
    (tmp_path / "script.py").write_text(SCRIPT.format(path=tmp_path / "in"))
    (tmp_path / "elsewhere").mkdir()
    script = [sys.executable, str(tmp_path / "script.py")]
    subprocess.run(script, check=True, cwd=tmp_path / "elsewhere", env=dict(os.environ))


@pytest.mark.slow
def test_a_worker_that_is_slow_to_start_is_waited_for(
    known: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark waits ten seconds for the process of a streaming source, whatever its settings say."""
    (tmp_path / "in").write_text("[1, 10]\n[2, 20]\n")
    slow = tmp_path / "python"
    once = f"case $* in *streaming*) if mkdir {tmp_path}/began 2>/dev/null; then sleep 12; fi;; esac"
    slow.write_text(f'#!/bin/sh\n{once}\nexec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setattr(known.sparkContext, "pythonExec", str(slow))
    with ms.connect(tmp_path / "db", spark=known) as db:
        options = f"OPTIONS (path '{tmp_path}/in')"
        db.execute(f"CREATE STREAM s (k INT) TIMESTAMP BY ts USING mill_sources.lines.Lines {options}")
        db.run()
        assert db.stats()["streams"]["s"]["arrived"] == 2
    assert (tmp_path / "began").exists()
