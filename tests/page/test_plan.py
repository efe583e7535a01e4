"""The shared plan in the browser: the path of a query, who shares an operator, by pointer and by keyboard."""

from __future__ import annotations

import re
from typing import Any

from tests.page.roads import drive
from tests.page.visitor import Visitor

import millstream as ms


def _asked(visitor: Visitor, address: str, path: str) -> Any:
    return visitor.page.request.get(f"{address}{path}").json()


def _nodes(visitor: Visitor, more: str = "") -> set[str]:
    return {*visitor.page.locator(f"[data-node]{more}").evaluate_all("all => all.map(node => node.dataset.node)")}


def _unfold(visitor: Visitor, count: int) -> None:
    """Projections too are drawn."""
    visitor.named("button", "Projections").click()
    visitor.page.wait_for_function("count => document.querySelectorAll('[data-node]').length == count", arg=count)


def test_the_plan_is_drawn_with_all_its_operators(visitor: Visitor, address: str) -> None:
    visitor.open(address, "plan")
    visitor.page.locator("[data-node]").first.wait_for()
    plan = _asked(visitor, address, "/v1/plan")
    _unfold(visitor, len(plan["nodes"]))
    assert _nodes(visitor) == {node["id"] for node in plan["nodes"]}
    assert visitor.page.locator(".edge").count() == len(plan["edges"])


def test_edges_lead_past_projections(visitor: Visitor, db: ms.Database, address: str) -> None:
    """From every operator that is drawn one comes to the same ones as in the plan."""
    added = db.register("SELECT max(speed) AS top FROM (SELECT speed + 1 AS speed FROM Cars [RANGE 4])", name="tops")
    visitor.open(address, "plan")
    visitor.page.locator("[data-node]").first.wait_for()
    plan = _asked(visitor, address, "/v1/plan")
    kinds = {node["id"]: node["kind"] for node in plan["nodes"]}
    drawn = _nodes(visitor)
    assert {kinds[node] for node in kinds.keys() - drawn} == {"project"}
    outputs: dict[str, set[str]] = {node: set() for node in kinds}
    for edge in plan["edges"]:
        outputs[edge["from"]].add(edge["to"])

    def reached(node: str) -> set[str]:
        return {last for to in outputs[node] for last in ({to} if to in drawn else reached(to))}

    expected = sum(len(reached(node)) for node in drawn)
    assert visitor.page.locator(".edge").count() == expected
    hidden = next(node for node in kinds if node not in drawn)
    visitor.open(address, f"plan?operator={hidden}")  # who asks for one sees it
    visitor.page.locator(f'[data-node="{hidden}"].chosen').wait_for()
    added.drop()


def test_a_query_lights_its_path(visitor: Visitor, address: str) -> None:
    visitor.open(address, "plan")
    visitor.page.locator("[data-node]").first.wait_for()
    _unfold(visitor, len(_asked(visitor, address, "/v1/plan")["nodes"]))
    visitor.named("combobox", "Light the path of a query").fill("slo")
    visitor.named("option", "slow").click()
    visitor.page.locator("[data-node].lit").first.wait_for()
    path = {node["id"] for node in _asked(visitor, address, "/v1/plan?query=slow")["nodes"]}
    assert _nodes(visitor, ".lit") == path
    assert _nodes(visitor) - path
    visitor.named("button", "Only its path").click()
    visitor.page.wait_for_function("count => document.querySelectorAll('[data-node]').length == count", arg=len(path))
    assert _nodes(visitor) == path
    visitor.named("complementary", "Query").get_by_role("link", name="Its answer").click()
    visitor.named("heading", re.compile("slow")).wait_for()


def test_an_operator_says_who_shares_it(visitor: Visitor, address: str) -> None:
    visitor.open(address, "plan")
    source = next(node for node in _asked(visitor, address, "/v1/plan")["nodes"] if node["kind"] == "source")
    visitor.page.locator(f'[data-node="{source["id"]}"]').click()
    panel = visitor.named("complementary", "Operator")
    panel.get_by_role("button", name="recent").wait_for()
    assert {*panel.get_by_role("listitem").all_inner_texts()} == {"recent", "slow", "fast"}
    panel.get_by_role("button", name="fast").click()
    visitor.page.locator("[data-node].lit").first.wait_for()


def test_the_keyboard_walks_through_the_plan(visitor: Visitor, address: str) -> None:
    visitor.open(address, "plan")
    visitor.page.locator("[data-node]").first.wait_for()
    visitor.page.locator('[data-node][tabindex="0"]').focus()
    visitor.page.keyboard.press("Home")
    source = visitor.page.evaluate("document.activeElement.dataset.node")
    plan = _asked(visitor, address, "/v1/plan")
    _unfold(visitor, len(plan["nodes"]))
    outputs = {edge["to"] for edge in plan["edges"] if edge["from"] == source}
    visitor.page.locator(f'[data-node="{source}"]').focus()
    visitor.page.keyboard.press("ArrowRight")
    assert visitor.page.evaluate("document.activeElement.dataset.node") in outputs
    visitor.page.keyboard.press("Enter")
    visitor.named("complementary", "Operator").wait_for()
    visitor.page.keyboard.press("Escape")
    visitor.named("complementary", "Operator").wait_for(state="detached")


def test_numbers_move_and_new_operators_appear(visitor: Visitor, db: ms.Database, address: str) -> None:
    visitor.open(address, "plan")
    visitor.page.locator("[data-node]").first.wait_for()
    before = _nodes(visitor)
    added = db.register("SELECT segment, count(*) AS n FROM Cars [RANGE 7] GROUP BY segment", name="busy")
    visitor.page.wait_for_function("count => document.querySelectorAll('[data-node]').length > count", arg=len(before))
    drive(db, 200, 210)
    visitor.page.locator(".health").filter(has_text=f"epoch {db.stats()['epoch']}").wait_for()
    added.drop()
    visitor.page.wait_for_function("count => document.querySelectorAll('[data-node]').length == count", arg=len(before))


def test_the_plan_is_also_a_table(visitor: Visitor, address: str) -> None:
    visitor.open(address, "plan")
    visitor.named("button", "As a table").click()
    table = visitor.named("region", "Operators")
    table.wait_for()
    assert table.locator("tbody tr").count() == len(_asked(visitor, address, "/v1/plan")["nodes"])


def test_dragging_moves_the_plan_and_chooses_nothing(visitor: Visitor, address: str) -> None:
    visitor.open(address, "plan")
    node = visitor.page.locator("[data-node]").first
    node.wait_for()
    before = node.bounding_box()
    assert before is not None
    visitor.page.mouse.move(before["x"] + 20, before["y"] + 20)
    visitor.page.mouse.down()
    visitor.page.mouse.move(before["x"] + 120, before["y"] + 70, steps=5)
    visitor.page.mouse.up()
    after = node.bounding_box()
    assert after is not None
    assert (round(after["x"] - before["x"]), round(after["y"] - before["y"])) == (100, 50)
    assert visitor.named("complementary", "Operator").count() == 0
