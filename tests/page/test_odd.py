"""What nobody would do on purpose, and somebody does: odd names and values, nothing at all, what is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from tests.page.roads import drive, roads
from tests.page.visitor import Visitor
from tests.support.feeds import Fed
from tests.support.serving import served

import millstream as ms

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCRIPT = "<script>alert(1)</script>"
ODD = {
    "path": "../../etc/passwd?x=1#y",
    "long": "Q" * 128,
    "spaces": " a  b ",
    "signs": "100%/{}[]\\^`|",
    "turned": "\u202eabc",
}


@pytest.fixture(scope="module")
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as made:
        made.execute(
            "CREATE STREAM `ev<b>il` (`a b` STRING, `<i>n` BIGINT, d DECIMAL(38, 2), f DOUBLE) TIMESTAMP BY ts"
        )
        made.insert(
            "ev<b>il",
            [
                (SCRIPT, 2**63 - 1, None, float("nan"), 0),
                ("\u202eabc\n", -(2**63), Decimal(10**35), float("inf"), 1),
                ("x" * 50_000, 2**53 + 1, Decimal("-0.01"), -0.0, 2),
                (None, None, None, None, 3),
            ],
        )
        made.advance("ev<b>il", to=3)
        made.register("SELECT * FROM `ev<b>il` [RANGE 100]", name="all of it")
        for name in ODD.values():
            made.register("SELECT count(*) AS `n<b>` FROM `ev<b>il` [RANGE 100]", name=name)
        yield made


def test_values_are_shown_as_they_are(visitor: Visitor, address: str) -> None:
    """Nothing of them is run, no digit is lost, and a long one does not make the page wide."""
    visitor.open(address, "queries/all%20of%20it")
    table = visitor.named("region", "Answer of all of it")
    table.wait_for()
    cells = table.locator("tbody td").all_inner_texts()
    assert {SCRIPT, str(2**63 - 1), str(-(2**63)), str(2**53 + 1), "NaN", "Infinity", "NULL", "-0.01"} <= {*cells}
    assert f"{10**35}.00" in cells
    assert max(map(len, cells)) < 400
    assert _too_wide(visitor) <= 0
    visitor.named("tab", "Plot").click()
    visitor.page.get_by_label("Of", exact=True).select_option("<i>n")
    visitor.named("img", re.compile("<i>n over time")).wait_for()


@pytest.mark.parametrize("name", ODD.values(), ids=ODD.keys())
def test_queries_of_all_names_are_found(visitor: Visitor, address: str, name: str) -> None:
    visitor.open(address, "queries")
    visitor.named("region", "List of queries").get_by_role("link").first.wait_for()
    visitor.page.locator(".lines .name a").evaluate_all(
        "(all, name) => all.find(link => link.textContent === name).click()", name
    )
    visitor.page.locator("table.answer tbody td.number").get_by_text("4", exact=True).wait_for()
    assert _too_wide(visitor) <= 0
    visitor.named("link", "Path in the plan").click()
    visitor.page.locator("[data-node].lit").first.wait_for()
    visitor.page.go_back()
    with visitor.page.expect_download() as download:
        visitor.named("button", "CSV").click()
    assert re.fullmatch(r"[\w.-]+\.csv", download.value.suggested_filename)


def _too_wide(visitor: Visitor) -> int:
    found: int = visitor.page.evaluate("document.querySelector('main').scrollWidth - innerWidth")
    return found


def test_what_is_not_there_is_said(visitor: Visitor, address: str) -> None:
    visitor.open(address, "queries/nothing")
    visitor.page.get_by_role("alert").filter(has_text='there is no query called "nothing"').wait_for()
    assert visitor.named("button", "Drop").count() == 0
    visitor.open(address, "templates/nothing")
    visitor.page.get_by_role("alert").filter(has_text='there is no template called "nothing"').wait_for()
    visitor.open(address, "plan?query=nothing")
    visitor.page.get_by_role("alert").first.wait_for()
    visitor.open(address, "queries/%")  # an address that cannot be read
    visitor.page.get_by_role("alert").filter(has_text='there is no query called "%"').wait_for()
    visitor.open(address, "nonsense")
    visitor.named("heading", "Plan").wait_for()


def test_an_empty_database_says_how_to_begin(browser: Browser) -> None:
    with ms.connect(engine="inprocess") as empty, served(empty) as address, Visitor.of(browser) as visitor:
        for view in ("plan", "queries", "templates", "streams", "epochs", "routing", "sinks"):
            visitor.open(address, view)
            visitor.page.locator(".empty").filter(has_not_text="…").wait_for()
        visitor.open(address, "write")
        for number in (0, 1):  # a stream, and rows for it
            visitor.page.locator(".names button").nth(number).click()
            visitor.named("button", "Run").click()
            visitor.page.locator(".outcome").wait_for()
            visitor.page.get_by_label("CQL", exact=True).press("Control+a")
            visitor.page.keyboard.press("Delete")
        assert {each["name"]: each["arrived"] for each in empty.inspection.streams.all()}["Cars"] == 2


def test_rows_that_cannot_be_read_can_be_looked_at(visitor: Visitor) -> None:
    fed = Fed("CREATE STREAM Meters (watts INT) TIMESTAMP BY ts USING csv OPTIONS (path 'x')")
    fed.take("Meters", [[(1, 5)]], [("<b>twelve,6", "not a number: <b>twelve")])
    with fed.db, served(fed.db) as address:
        visitor.open(address, "streams")
        visitor.named("button", "1, look").click()
        rows = visitor.named("region", "malformed rows of Meters").locator("tbody tr")
        rows.first.wait_for()
        assert rows.first.locator("td").all_inner_texts() == ["<b>twelve,6", "not a number: <b>twelve"]


def test_a_query_that_is_dropped_by_others_is_missed(visitor: Visitor) -> None:
    with roads() as shared, served(shared) as address:
        visitor.open(address, "queries/fast")
        visitor.named("region", "Answer of fast").wait_for()
        shared.query("fast").drop()
        drive(shared, 40, 42)
        visitor.page.get_by_role("alert").first.wait_for()


def test_a_stop_of_the_service_leaves_no_trace_of_errors(visitor: Visitor, capfd: pytest.CaptureFixture[str]) -> None:
    """Those who watch the plan are told to come back; nothing failed."""
    with roads() as db, served(db) as address:
        visitor.open(address, "plan")
        visitor.page.locator("[data-node]").first.wait_for()
    visitor.see("reconnecting")
    said = capfd.readouterr()
    assert "Traceback" not in said.err + said.out
