"""Whoever comes: with or without a token, on a narrow screen, with other senses, while the service restarts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from tests.page.roads import drive, roads
from tests.page.visitor import Visitor
from tests.support.serving import served, until

import millstream as ms
from millstream.service.tokens import Role, Tokens

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VIEWS = ("plan", "queries", "queries/recent", "templates", "write", "streams", "epochs", "routing", "sinks", "settings")


@pytest.fixture(scope="module")
def db() -> Iterator[ms.Database]:
    with roads() as made:
        made.insert("Cars", [(1, 1, 50, 2)])  # late
        made.register_many("SELECT car FROM Cars [RANGE 5] WHERE speed > ?", [*range(40)], template="over")
        made.register("SELECT car, 1 / (car - 9) AS broken FROM Cars [RANGE 10]", name="failing")
        made.insert("Cars", [(9, 0, 50, 31)])
        drive(made, 32, 40)
        yield made


def test_a_token_is_asked_for_and_kept_for_the_tab_only(visitor: Visitor, db: ms.Database, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    secret = tokens.add("me", Role.WRITE)
    with served(db, tokens) as address:
        visitor.open(address, "queries")
        field = visitor.page.get_by_label("Token")
        field.fill("ms_wrong")
        visitor.named("button", "Sign in").click()
        visitor.page.get_by_role("alert").filter(has_text="an unknown token").wait_for()
        field.fill(secret)
        visitor.named("button", "Sign in").click()
        visitor.named("link", "recent").first.wait_for()
        assert secret not in visitor.page.url
        assert visitor.page.evaluate("Object.values(localStorage).join() + document.cookie").find(secret) < 0
        visitor.page.reload()
        visitor.named("link", "recent").first.wait_for()
        visitor.named("button", "Sign out").click()
        field.wait_for()
        assert visitor.page.evaluate("sessionStorage.getItem('millstream.token')") is None
        tokens.revoke("me")


def test_a_restart_is_survived_at_the_same_place(visitor: Visitor, tmp_path: Path) -> None:
    """What comes while the service is away is there when it is back, and nothing twice."""
    path = str(tmp_path / "db")
    with roads(path) as db, served(db) as address:
        visitor.open(address, "queries/fast")
        visitor.named("region", "Answer of fast").wait_for()
        visitor.see("live")
    port = int(address.rpartition(":")[2])
    visitor.see("reconnecting")
    assert visitor.named("region", "Answer of fast").is_visible()
    with ms.connect(path, engine="inprocess") as db:
        drive(db, 40, 50)
        with served(db, port=port):
            visitor.page.get_by_role("status").filter(has_text="live").wait_for()
            expected = db.query("fast").result().num_rows
            rows = visitor.page.locator("table.answer tbody tr")
            visitor.page.wait_for_function(
                "n => document.querySelectorAll('table.answer tbody tr').length === n", arg=expected
            )
            shown = rows.evaluate_all("all => all.map(row => row.cells[1].innerText)")
            assert shown == [str(row["_ts"]) for row in db.query("fast").result().to_pylist()][::-1]


@pytest.mark.parametrize(("scheme", "rules"), [("light", ""), ("dark", "color-contrast")])
def test_nobody_is_shut_out(browser: Browser, address: str, scheme: Literal["light", "dark"], rules: str) -> None:
    """axe-core finds no serious barrier on any view; nothing but colours is different in the dark."""
    with Visitor.of(browser, color_scheme=scheme) as visitor:
        found = {}
        for view in VIEWS:
            visitor.open(address, view)
            visitor.page.locator("main h1").wait_for()
            visitor.page.wait_for_load_state()
            visitor.page.wait_for_timeout(300)
            if barriers := visitor.barriers(rules):
                found[view] = barriers
        assert not found


def test_the_login_shuts_nobody_out(visitor: Visitor, db: ms.Database, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.add("me", Role.READ)
    with served(db, tokens) as address:
        visitor.open(address)
        visitor.page.get_by_label("Token").wait_for()
        assert not visitor.barriers()


def test_a_narrow_screen_shows_all_of_it(browser: Browser, address: str) -> None:
    """No view is wider than the screen, and everything can be reached."""
    with Visitor.of(browser, width=375, height=700, has_touch=True, is_mobile=True) as visitor:
        for view in VIEWS:
            visitor.open(address, view)
            visitor.page.locator("main h1").wait_for()
            visitor.page.wait_for_timeout(200)
            wide = visitor.page.evaluate("document.querySelector('main').scrollWidth - innerWidth")
            assert wide <= 0, view
        visitor.open(address, "plan")
        visitor.page.locator("[data-node]").first.tap()
        visitor.named("complementary", "Operator").wait_for()
        visitor.named("link", "Settings").tap()
        visitor.named("heading", "Settings").wait_for()


def test_failed_queries_come_first_with_their_errors(visitor: Visitor, address: str) -> None:
    visitor.open(address, "queries")
    first = visitor.page.locator(".lines-all .line").first
    first.get_by_text("failed").wait_for()
    assert "failing" in first.inner_text()
    first.get_by_role("link", name="failing", exact=True).click()
    visitor.page.get_by_role("alert").filter(has_text="division by zero").first.wait_for()


def test_names_are_text_whatever_is_in_them(visitor: Visitor, db: ms.Database, address: str) -> None:
    name = """<img src=x onerror=alert(1)> 'a'/b "c" #?&%41"""
    query = db.register("SELECT car FROM Cars [NOW]", name=name)
    visitor.open(address, "queries")
    visitor.page.get_by_label("Search").fill("onerror")
    visitor.named("link", name).click()
    visitor.named("heading", re.compile("onerror")).wait_for()
    visitor.named("region", f"Answer of {name}").wait_for()
    visitor.named("link", "Path in the plan").click()
    visitor.named("complementary", "Query").get_by_text(name).wait_for()
    visitor.page.locator("[data-node].lit").first.wait_for()
    query.drop()


def test_late_rows_can_be_looked_at(visitor: Visitor, address: str) -> None:
    visitor.open(address, "streams")
    visitor.named("heading", re.compile("Cars")).wait_for()
    visitor.named("button", "1, look").click()
    rows = visitor.named("region", "late rows of Cars").locator("tbody tr")
    rows.first.wait_for()
    assert "50" in rows.first.inner_text()


def test_epochs_have_their_phases(visitor: Visitor, db: ms.Database, address: str) -> None:
    visitor.open(address, "epochs")
    line = visitor.named("slider", "Epochs by phase")
    line.wait_for()
    last = int(line.get_attribute("aria-valuenow") or 0)
    assert last > 0
    line.press("ArrowLeft")
    visitor.named("heading", re.compile(r"^Epoch \d+")).wait_for()
    assert int(line.get_attribute("aria-valuenow") or 0) < last
    line.press("Home")
    who = visitor.named("region", "Operators of the epoch").get_by_role("row")
    who.nth(1).wait_for()
    chosen = int(line.get_attribute("aria-valuenow") or 0)
    noticed = db.inspection.recent("operators", None, 10_000).to_pylist()
    listed = min(sum(row["epoch"] == chosen for row in noticed), 12)
    until(lambda: who.count() - 1 == listed)  # the service is asked for those of another epoch


def test_a_setting_is_altered(visitor: Visitor, db: ms.Database, address: str) -> None:
    visitor.open(address, "settings")
    field = visitor.page.get_by_label("join_plan")
    field.wait_for()
    before = str(db.settings.join_plan)
    other = next(
        value for value in field.locator("option").evaluate_all("all => all.map(o => o.value)") if value != before
    )
    field.select_option(other)
    visitor.named("region", "Effect").get_by_text(f"to {other}").wait_for()
    assert str(db.settings.join_plan) == other
    field.select_option(before)
    visitor.named("region", "Effect").get_by_text(f"to {before}").wait_for()


def test_a_setting_moves_the_queries_that_run(browser: Browser) -> None:
    """What came of it is told, and the answers stay; what is for later queries only moves none."""
    with roads() as db, served(db) as address, Visitor.of(browser) as visitor:
        db.execute("SET join_plan = 'eddy'")
        pairs = "SELECT a.car, b.speed FROM Cars [RANGE 5] AS a, Cars [RANGE 9] AS b, Cars [RANGE 3] AS c"
        query = db.register(f"{pairs} WHERE a.car = b.car AND b.car = c.car", name="pairs")
        rows = sorted(map(str, query.result().to_pylist()))
        visitor.open(address, "settings")
        visitor.page.get_by_label("join_plan").select_option("tree")
        effect = visitor.named("region", "Effect")
        effect.get_by_text("1 query of 4 moves to another plan").wait_for()
        effect.get_by_role("link", name="pairs").wait_for()
        until(lambda: "SET join_plan" in query.explain() and query.plan_change is not None)
        until(lambda: query.plan_change is None or query.plan_change.state != "moving")
        assert sorted(map(str, query.result().to_pylist())) == rows
        visitor.page.get_by_label("for queries that run, too").uncheck()
        visitor.page.get_by_label("join_plan").select_option("eddy")
        effect.get_by_text("to eddy").wait_for()
        assert effect.get_by_text("to another plan").count() == 0
        visitor.page.get_by_text("more settings").click()
        field = visitor.page.get_by_label("max_queries", exact=True)
        field.fill("many")
        field.press("Enter")
        visitor.page.get_by_role("alert").wait_for()


def test_figures_are_in_sight_everywhere(visitor: Visitor, db: ms.Database, address: str) -> None:
    visitor.open(address, "sinks")
    failed = visitor.named("link", re.compile("1 failed"))
    failed.wait_for()
    assert f"{len(db.queries())} queries" in failed.inner_text().replace("\n", " ")
    failed.click()
    visitor.named("link", "failing").first.wait_for()
