"""Answers in the browser: live, as of an instant, plotted, downloaded."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.page.roads import drive
from tests.page.visitor import Visitor

import millstream as ms

if TYPE_CHECKING:
    from playwright.sync_api import Locator


def _body(visitor: Visitor) -> list[list[str]]:
    """The rows of the table that is shown, but those that have gone, without the sign in front."""
    rows = visitor.page.locator("table.answer tbody tr:not(.gone)")
    return _cells(rows)


def _cells(rows: Locator) -> list[list[str]]:
    cells = "[...row.cells].filter(cell => cell.className != 'sign').map(cell => cell.innerText.trim())"
    found: list[list[str]] = rows.evaluate_all(f"all => all.map(row => {cells})")
    return found


def _shown(db: ms.Database, query: str, at: int | None = None) -> list[list[str]]:
    return [[str(value) for value in row.values()] for row in db.query(query).result(at=at).to_pylist()]


def test_rows_come_and_go_while_one_looks(visitor: Visitor, db: ms.Database, address: str) -> None:
    visitor.open(address, "queries/recent")
    visitor.named("region", "Answer of recent").wait_for()
    assert sorted(_body(visitor)) == sorted(_shown(db, "recent"))
    last = db.query("recent").final
    assert isinstance(last, int)
    drive(db, last + 1, last + 4)
    visitor.page.locator("tr.came").first.wait_for()
    visitor.page.locator("tr.gone").first.wait_for()
    assert visitor.page.locator("tr.gone .unseen").first.inner_text() == "has gone"
    # The marks go, and what stays is the answer.
    visitor.page.locator("tr.came, tr.gone").first.wait_for(state="detached")
    assert sorted(_body(visitor)) == sorted(_shown(db, "recent"))


def test_elements_of_a_stream_come_on_top(visitor: Visitor, db: ms.Database, address: str) -> None:
    visitor.open(address, "queries/fast")
    visitor.named("region", "Answer of fast").wait_for()
    assert _body(visitor) == _shown(db, "fast")[::-1]


def test_the_slider_shows_the_answer_as_of_an_instant(visitor: Visitor, db: ms.Database, address: str) -> None:
    visitor.open(address, "queries/slow")
    slider = visitor.named("slider", "As of")
    slider.wait_for()
    slider.fill("12")
    visitor.see("at 12")
    assert _body(visitor)
    assert sorted(_body(visitor)) == sorted(_shown(db, "slow", at=12))
    slider.press("ArrowLeft")
    visitor.see("at 11")
    assert sorted(_body(visitor)) == sorted(_shown(db, "slow", at=11))
    visitor.named("button", "Live").click()
    visitor.see("since you look")


def test_instants_can_be_timestamps_and_typed(visitor: Visitor, db: ms.Database, address: str) -> None:
    db.execute(
        "CREATE STREAM Weather (place STRING, rain DECIMAL(5,1)) TIMESTAMP BY ts TIMESTAMP;"
        "REGISTER QUERY rain AS SELECT place, sum(rain) AS mm FROM Weather [RANGE 1 HOUR] GROUP BY place"
    )
    db.insert("Weather", [("sea", Decimal(n), datetime(2026, 3, 1, 12, n, tzinfo=UTC)) for n in range(30)])
    visitor.open(address, "queries/rain")
    field = visitor.page.get_by_label("Instant, typed")
    field.fill("2026-03-01 12:04:30")
    field.press("Enter")
    visitor.see("1 row at 2026-03-01 12:04:30")
    assert _body(visitor) == [["sea", "10.0"]]
    visitor.named("slider", "As of").press("End")
    visitor.see("1 row at 2026-03-01 12:28")
    assert _body(visitor) == [["sea", "406.0"]]
    visitor.named("tab", "Plot").click()
    visitor.named("img", re.compile("mm over time, 29 instants")).wait_for()
    field_names = visitor.page.get_by_label("Of", exact=True).locator("option").all_inner_texts()
    assert field_names == ["number of rows", "mm"]
    db.execute("DROP QUERY rain; DROP STREAM Weather")


@pytest.mark.parametrize("kind", ["line", "bar", "scatter"])
def test_a_column_is_plotted_over_time(visitor: Visitor, address: str, kind: str) -> None:
    visitor.open(address, "queries/recent")
    visitor.named("tab", "Plot").click()
    visitor.page.get_by_label("Shape", exact=True).select_option(kind)
    visitor.page.get_by_label("Of", exact=True).select_option("speed")
    plot = visitor.named("img", re.compile("speed over time, [1-9]"))
    plot.wait_for()
    assert plot.locator("canvas").count() == 1
    # Something is drawn: not all points of the picture are as the first one.
    assert plot.locator("canvas").evaluate(
        "c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size > 20"
    )


def test_an_answer_is_downloaded_in_every_format(
    visitor: Visitor, db: ms.Database, address: str, tmp_path: Path
) -> None:
    visitor.open(address, "queries/slow")
    taken: dict[str, bytes] = {}
    for name in ("CSV", "Parquet", "Arrow"):
        with visitor.page.expect_download() as download:
            visitor.named("button", name).click()
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
        taken[name] = file.read_bytes()
        assert file.name == f"slow.{name.lower()}"
    expected = db.query("slow").result()
    assert [*csv.reader(io.StringIO(taken["CSV"].decode()))][1:] == _shown(db, "slow")
    assert pq.read_table(io.BytesIO(taken["Parquet"])).to_pylist() == expected.to_pylist()
    with pa.ipc.open_stream(taken["Arrow"]) as stream:
        assert stream.read_all().to_pylist() == expected.to_pylist()


def test_the_queries_of_a_template_stand_side_by_side(visitor: Visitor, db: ms.Database, address: str) -> None:
    db.register_many(
        "SELECT car, speed FROM Cars [RANGE 5] WHERE segment = ?",
        [0, 1, 2, 3],
        names=[f"at_{n}" for n in range(4)],
        template="at",
    )
    visitor.open(address, "templates/at")
    for number in range(4):
        visitor.named("heading", re.compile(f"at_{number}")).wait_for()
    rows = visitor.named("region", "Answer of at_1").locator("tbody tr")
    assert sorted(_cells(rows)) == sorted(_shown(db, "at_1"))
    db.template("at").drop()


def test_a_query_is_dropped_after_a_question(visitor: Visitor, db: ms.Database, address: str) -> None:
    db.register("SELECT car FROM Cars [NOW]", name="passing")
    visitor.open(address, "queries")
    visitor.named("button", "Drop passing").click()
    visitor.named("button", "Cancel").click()
    assert "passing" in {query.name for query in db.queries()}
    visitor.named("button", "Drop passing").click()
    visitor.named("dialog", re.compile("Drop the query")).get_by_role("button", name="Drop").click()
    visitor.named("link", "passing").wait_for(state="detached")
    assert "passing" not in {query.name for query in db.queries()}
