"""Directories that earlier versions made are opened, answer as they did, and go on as new ones do."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.formats import contents
from tests.formats.make import FIRST, HERE, REST
from typer.testing import CliRunner

import millstream as ms
from millstream.cli import app
from millstream.state.changes import changed
from millstream.state.manifest import FORMAT
from millstream.state.snapshot import from_json, to_json

MADE = ("epoch", "history", "states", "results", "queries", "query_tables", "backfills")
VERSIONS = sorted(path.name.removesuffix(".tar.gz") for path in HERE.glob("format_*.tar.gz"))


@pytest.fixture(params=VERSIONS)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A directory as it was kept, and what its queries answered."""
    with tarfile.open(HERE / f"{request.param}.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "db", json.loads((HERE / f"{request.param}.json").read_text())


def test_there_is_a_directory_for_the_format_of_today() -> None:
    assert f"format_{FORMAT}" in VERSIONS


def test_it_answers_as_it_did(kept: tuple[Path, dict[str, Any]]) -> None:
    directory, expected = kept
    with ms.connect(directory, engine="inprocess") as db:
        assert contents.answers(db) == expected


def test_it_goes_on_as_one_that_is_made_today(kept: tuple[Path, dict[str, Any]]) -> None:
    delivered: list[dict[str, Any]] = []

    def deliver(number: int, changes: pa.Table) -> None:
        delivered.extend(changes.to_pylist())

    with ms.connect(kept[0], engine="inprocess") as old, ms.connect(engine="inprocess") as new:
        before = old.query("sums").changes()
        old.create_sink("out", "sums", deliver)
        contents.feed(old, REST)
        contents.define(new)
        contents.feed(new, [*FIRST, *REST])
        assert contents.answers(old) == contents.answers(new)
        assert [*before.to_pylist(), *delivered] == old.query("sums").changes().to_pylist()


def test_what_was_kept_is_taken_over_and_not_made_anew(kept: tuple[Path, dict[str, Any]]) -> None:
    """Plans have the names that they had, so that nothing is computed again from history."""
    (newest,) = sorted((kept[0] / "manifest").glob("manifest-*.json"))[-1:]
    before = json.loads(newest.read_text().split("\n", 1)[1])["snapshot"]
    for log in (kept[0] / "manifest").glob("changes-*.log"):
        snapshot = from_json(before, ())
        for line in log.read_text().splitlines():
            snapshot = changed(snapshot, json.loads(line.partition(" ")[2])["change"])
        before = json.loads(json.dumps(to_json(snapshot)))
    with ms.connect(kept[0], engine="inprocess") as db:
        contents.answers(db)
        after = json.loads(json.dumps(to_json(db.engine.snapshot)))
        if "query_tables" not in before:  # they were a part of states
            before["states"] = {step: _without_tables(kept) for step, kept in before["states"].items()}
            before["states"] = {step: kept for step, kept in before["states"].items() if kept}
            after.pop("query_tables")
        assert {part: after.get(part) for part in MADE} == {part: before.get(part) for part in MADE}


def test_earlier_formats_are_checked_and_upgraded(kept: tuple[Path, dict[str, Any]]) -> None:
    directory, expected = kept
    report = ms.check(directory)
    assert report.is_well
    done = CliRunner().invoke(app, ["upgrade", str(directory)])
    assert done.exit_code == 0
    if report.format == FORMAT:
        assert "nothing was changed" in done.stdout
    else:
        assert f"had format {report.format}, and has format {FORMAT} now" in done.stdout
    for path in (directory / "manifest").glob("*.json"):
        assert path.read_bytes().split(b" ")[2] == str(FORMAT).encode(), path
    again = ms.check(directory)
    assert (again.is_well, again.format) == (True, FORMAT)
    assert ms.upgrade(directory).before == FORMAT
    with ms.connect(directory, engine="inprocess") as db:
        assert contents.answers(db) == expected


def _without_tables(synopses: dict[str, Any]) -> dict[str, Any]:
    return {name: kept for name, kept in synopses.items() if "queries/" not in name}
