"""The editor in the browser: register by typing, errors under the cursor, completion, roles."""

from __future__ import annotations

from pathlib import Path

from tests.page.visitor import Visitor
from tests.support.serving import served, until

import millstream as ms
from millstream.service.tokens import Role, Tokens


def test_a_query_is_registered_by_typing(visitor: Visitor, db: ms.Database, address: str) -> None:
    visitor.open(address, "write")
    visitor.write("SELECT car, max(speed) AS top FROM Cars [RANGE 10] GROUP BY car")
    visitor.see("valid")
    visitor.named("heading", "Expanded text").wait_for()
    visitor.named("heading", "Shared with what runs").wait_for()
    visitor.named("heading", "Cost").wait_for()
    visitor.page.get_by_label("Name").fill("top_speeds")
    visitor.named("button", "Register").click()
    visitor.named("region", "Answer of top_speeds").wait_for()
    assert db.query("top_speeds").result().num_rows == 2
    db.query("top_speeds").drop()


def test_the_keyboard_registers_too(visitor: Visitor, db: ms.Database, address: str) -> None:
    visitor.open(address, "write")
    visitor.write("SELECT car FROM Cars [NOW]")
    visitor.page.get_by_label("Name").fill("now")
    visitor.page.get_by_label("CQL", exact=True).press("Control+Enter")
    until(lambda: "now" in {query.name for query in db.queries()})
    db.query("now").drop()


def test_an_error_is_shown_under_what_is_wrong(visitor: Visitor, address: str) -> None:
    visitor.open(address, "write")
    visitor.write("SELECT car, spede FROM Cars")
    marked = visitor.page.locator(".cm-lintRange-error")
    marked.wait_for()
    assert marked.inner_text() == "spede"
    visitor.see('unknown column "spede"')
    visitor.see("did you mean")
    visitor.named("button", "line 1, column 13").click()
    marked.hover()
    visitor.page.locator(".cm-tooltip-lint").wait_for()
    for _ in "spede":
        visitor.page.keyboard.press("Delete")
    visitor.page.keyboard.type("speed")
    marked.wait_for(state="detached")
    visitor.see("valid")


def test_names_and_functions_are_completed(visitor: Visitor, address: str) -> None:
    with visitor.page.expect_response("**/v1/names"):
        visitor.open(address, "write")
    options = visitor.page.locator(".cm-tooltip-autocomplete li")
    visitor.write("SELECT a.car FROM Ca")
    options.filter(has_text="Cars").first.click()
    visitor.page.keyboard.type(" AS a WHERE a.spe")
    options.filter(has_text="speed").first.click()
    visitor.page.keyboard.type(" > 4 AND co")
    options.filter(has_text="coalesce").first.wait_for()
    visitor.page.keyboard.press("Escape")
    assert "a.speed > 4" in visitor.page.get_by_label("CQL", exact=True).inner_text()


def test_statements_are_run(visitor: Visitor, db: ms.Database, address: str) -> None:
    visitor.open(address, "write")
    visitor.write("CREATE STREAM Signs (sign INT) TIMESTAMP BY ts")
    visitor.named("button", "Run").click()
    visitor.page.get_by_role("status").filter(has_text="Signs").wait_for()
    assert "signs" in {name.lower() for name in db.stats()["streams"]}
    db.execute("DROP STREAM Signs")


def test_who_may_only_read_can_check_and_not_register(visitor: Visitor, db: ms.Database, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    secret = tokens.add("guest", Role.READ)
    with served(db, tokens) as address:
        visitor.open(address, "write")
        visitor.page.get_by_label("Token").fill(secret)
        visitor.named("button", "Sign in").click()
        visitor.write("SELECT car FROM Cars [NOW]")
        visitor.see("valid")
        assert visitor.named("button", "Register").is_disabled()
        visitor.open(address, "settings")
        visitor.page.locator(".setting").first.wait_for()
        assert visitor.page.locator(".setting select:enabled, .setting input:enabled").count() == 0
        visitor.open(address, "queries")
        visitor.named("link", "recent").first.wait_for()
        assert visitor.named("button", "Drop recent").count() == 0
