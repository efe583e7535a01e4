"""The page with 10,000 queries: what is asked for and drawn does not grow with them, and nothing stutters."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.page.roads import drive, roads
from tests.page.visitor import Visitor

import millstream as ms

if TYPE_CHECKING:
    from playwright.sync_api import Browser

QUERIES = 10_000
OWN = 40
DRAWN = 600  # operators, at most
LONGEST = 50.0  # milliseconds of the processor that one task may take while somebody drags
FIRST_PAINT = 1000.0  # milliseconds until something is seen


@pytest.fixture(scope="module")
def db() -> Iterator[ms.Database]:
    with roads() as made:
        over = [(segment % 4, segment % 97) for segment in range(QUERIES)]
        text = "SELECT car, speed FROM Cars [RANGE 10] WHERE segment = ? AND speed > ?"
        made.register_many(text, over, names=[f"watch_{n:05}" for n in range(QUERIES)], template="watch")
        for size in range(OWN):  # and some with plans of their own
            window = f"[RANGE {2 + size}]"
            made.register(
                f"SELECT segment, max(speed) AS top FROM Cars {window} GROUP BY segment", name=f"top_{size:02}"
            )
        drive(made, 31, 34)
        yield made


# The list is drawn anew, from its beginning, once the service has sorted it.
TO_THE_END = """name => {
    const box = document.querySelector(".lines");
    box.scrollTo(0, box.scrollHeight);
    return box.innerText.includes(name);
}"""


def test_the_plan_groups_them(visitor: Visitor, address: str) -> None:
    with visitor.page.expect_response(re.compile("/v1/plan$")) as answer:
        visitor.open(address, "plan")
    assert len(answer.value.body()) < 300_000
    visitor.page.locator("[data-node]").first.wait_for()
    assert visitor.page.locator("[data-node]").count() < DRAWN
    visitor.named("combobox", "Light the path of a query").fill("watch_04321")
    visitor.named("option", "watch_04321").click()
    visitor.page.locator("[data-node].lit").first.wait_for()
    visitor.page.locator("[data-node].lit").last.dispatch_event("click")
    visitor.named("heading", re.compile("Used by [0-9,]+ queries")).wait_for()


def test_the_list_draws_those_in_sight(visitor: Visitor, address: str) -> None:
    visitor.open(address, "queries")
    visitor.see(f"{QUERIES + OWN + 3:,} queries")
    assert visitor.page.locator(".lines-all .line").count() < 100
    visitor.page.get_by_label("Sort").select_option("name")
    visitor.page.wait_for_function(TO_THE_END, arg="watch_09999")
    visitor.named("link", "watch_09999").first.wait_for()
    assert visitor.page.locator(".lines-all .line").count() < 100
    visitor.page.get_by_label("Search").fill("watch_00777")
    visitor.see("1 query")
    visitor.named("link", "watch_00777").first.wait_for()


def test_templates_show_a_page_of_them(visitor: Visitor, address: str) -> None:
    visitor.open(address, "templates/watch")
    visitor.see("1 to 12 of 10,000")
    visitor.named("button", "After").click()
    visitor.named("heading", re.compile("watch_00012")).wait_for()


@pytest.mark.slow
def test_the_first_paint_comes_soon(visitor: Visitor, address: str) -> None:
    visitor.open(address, "plan")
    visitor.page.locator("[data-node]").first.wait_for()
    painted = visitor.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted < FIRST_PAINT * _patience()


@pytest.mark.slow
def test_no_task_is_long_while_one_drags(browser: Browser, db: ms.Database, address: str, tmp_path: Path) -> None:
    """By the browser's own trace. What counts is the processor's time, which a busy machine does not make longer."""
    with Visitor.of(browser) as visitor:
        visitor.open(address, "plan")
        visitor.page.locator("[data-node]").first.wait_for()
        visitor.page.wait_for_timeout(1500)
        box = visitor.page.locator(".canvas").bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        browser.start_tracing(
            page=visitor.page, path=tmp_path / "trace.json", categories=["toplevel", "devtools.timeline"]
        )
        visitor.page.mouse.move(x, y)
        visitor.page.mouse.down()
        for step in range(60):
            visitor.page.mouse.move(x + 3 * step, y + (step % 20))
            if step % 20 == 0:
                drive(db, 40 + step, 41 + step)  # the numbers move meanwhile
        visitor.page.mouse.up()
        browser.stop_tracing()
    tasks = _tasks(json.loads((tmp_path / "trace.json").read_text())["traceEvents"])
    assert len(tasks) > 60
    assert max(tasks) <= LONGEST, f"the longest tasks: {sorted(tasks)[-5:]}"


def _tasks(events: list[dict[str, Any]]) -> list[float]:
    """Milliseconds of the processor of each task of the page's main thread."""
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    return [
        event.get("tdur", event["dur"]) / 1000
        for event in events
        if event["name"].endswith("RunTask")
        and event.get("ph") == "X"
        and names.get((event["pid"], event["tid"])) == "CrRendererMain"
    ]


def _patience() -> float:
    """More of it where others use the machine too."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
