"""All of it without a pointer."""

from __future__ import annotations

import re

from tests.page.visitor import Visitor

import millstream as ms


def _tab_to(visitor: Visitor, what: str) -> None:
    """Tabs on until the element that has the focus is like this."""
    for _ in range(60):
        visitor.page.keyboard.press("Tab")
        if visitor.page.evaluate("what => document.activeElement.matches(what)", what):
            return
    raise AssertionError(f"nothing like {what} gets the focus")


def _focus_is_in(visitor: Visitor, what: str) -> bool:
    found: bool = visitor.page.evaluate("what => document.activeElement.closest(what) !== null", what)
    return found


def test_the_content_is_one_key_away(visitor: Visitor, address: str) -> None:
    visitor.open(address, "queries")
    visitor.named("link", "recent").first.wait_for()
    visitor.page.keyboard.press("Tab")
    visitor.page.locator(".skip:focus").wait_for()
    visitor.page.keyboard.press("Enter")
    visitor.page.locator("#main:focus").wait_for()


def test_a_query_is_found_and_followed(visitor: Visitor, address: str) -> None:
    visitor.open(address, "plan")
    visitor.page.locator("[data-node]").first.wait_for()
    _tab_to(visitor, "nav a[href='#/queries']")
    visitor.page.keyboard.press("Enter")
    visitor.named("link", "slow").first.wait_for()
    _tab_to(visitor, "input[type=search]")
    visitor.page.keyboard.type("slow")
    visitor.see("1 query")
    _tab_to(visitor, ".lines .name a")
    visitor.page.keyboard.press("Enter")
    visitor.named("region", "Answer of slow").wait_for()
    _tab_to(visitor, "[role=tab]")
    visitor.page.keyboard.press("ArrowRight")
    visitor.named("img", re.compile("over time")).wait_for()
    assert "show=plot" in visitor.page.url
    visitor.page.reload()  # the place is kept
    visitor.named("img", re.compile("over time")).wait_for()


def test_the_slider_moves_by_keys(visitor: Visitor, address: str) -> None:
    visitor.open(address, "queries/slow")
    visitor.named("slider", "As of").wait_for()
    _tab_to(visitor, "input[type=range]")
    visitor.page.keyboard.press("ArrowLeft")
    visitor.see("at 29")
    visitor.page.wait_for_function("location.hash.endsWith('at=29')")
    visitor.page.reload()
    visitor.see("at 29")


def test_dropping_is_asked_about_and_the_focus_stays_near(visitor: Visitor, db: ms.Database, address: str) -> None:
    db.register("SELECT car FROM Cars [NOW]", name="passing")
    visitor.open(address, "queries")
    visitor.named("link", "passing").first.wait_for()
    _tab_to(visitor, "[aria-label='Drop passing']")
    visitor.page.keyboard.press("Enter")
    visitor.named("dialog", re.compile("Drop the query")).wait_for()
    visitor.page.keyboard.press("Escape")
    visitor.page.wait_for_function("document.activeElement.getAttribute('aria-label') === 'Drop passing'")
    visitor.page.keyboard.press("Enter")
    visitor.named("dialog", re.compile("Drop the query")).wait_for()
    visitor.page.keyboard.press("Tab")
    visitor.page.keyboard.press("Enter")
    visitor.named("link", "passing").wait_for(state="detached")
    assert _focus_is_in(visitor, "main")


def test_an_operator_is_looked_at_and_left(visitor: Visitor, address: str) -> None:
    visitor.open(address, "plan")
    visitor.page.locator("[data-node]").first.wait_for()
    _tab_to(visitor, "[data-node]")
    chosen = visitor.page.evaluate("document.activeElement.dataset.node")
    visitor.page.keyboard.press("Enter")
    visitor.named("complementary", "Operator").wait_for()
    _tab_to(visitor, "aside button[aria-label=Close]")
    visitor.page.keyboard.press("Enter")
    visitor.named("complementary", "Operator").wait_for(state="detached")
    assert visitor.page.evaluate("document.activeElement.dataset.node") == chosen


def test_a_query_is_written_and_the_editor_is_left(visitor: Visitor, db: ms.Database, address: str) -> None:
    visitor.open(address, "write")
    visitor.page.get_by_label("CQL", exact=True).wait_for()
    _tab_to(visitor, ".code")  # the editor is in a shadow tree
    visitor.page.keyboard.type("SELECT car FROM Cars [NOW]")
    visitor.see("valid")
    visitor.page.keyboard.press("Escape")
    visitor.page.keyboard.press("Shift+Tab")
    assert not _focus_is_in(visitor, ".code")
    visitor.page.get_by_label("CQL", exact=True).press("Control+Enter")
    visitor.named("heading", re.compile("Queries")).wait_for()
    made = visitor.page.url.rpartition("/")[2]
    visitor.named("region", f"Answer of {made}").wait_for()
    assert _focus_is_in(visitor, "main")
    db.query(made).drop()
