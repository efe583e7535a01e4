"""The pictures of the page in `docs/img`: Linear Road with some hundred more queries, looked at in a browser.

make screenshots
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tests.page.visitor import Visitor
from tests.support.serving import served

import millstream as ms
from millstream.demo import traffic
from millstream.demo.run import STREAM, script

IMAGES = Path(__file__).parents[2] / "docs" / "img"
SECONDS, CARS, WATCHED = 900, 4000, 300
MORE = """
SET join_plan = 'eddy';
CREATE STREAM Tags (vehicleId BIGINT, owner STRING) TIMESTAMP BY ts TICK INTERVAL '1' SECOND;
REGISTER QUERY crowds AS
    SELECT segNo, count(*) AS cars, avg(speed) AS mean FROM SegSpeedStr [RANGE 1 MINUTE] GROUP BY segNo;
REGISTER QUERY fastest AS
    SELECT max(speed) AS top, avg(speed) AS mean, count(*) AS cars FROM SegSpeedStr [RANGE 30 SECONDS];
REGISTER QUERY owners AS
    SELECT t.owner, a.vehicleId, a.speed
    FROM PosSpeedStr [RANGE 1 MINUTE] AS a, PosSpeedStr [RANGE 30 SECONDS] AS b, Tags [RANGE 5 MINUTES] AS t
    WHERE a.vehicleId = b.vehicleId AND a.vehicleId = t.vehicleId AND b.speed < 60
"""
WRITTEN = "SELECT segNo, count(*) AS cars\nFROM SegSpeedStr [RANGE 30 SECONDS]\nWHERE sped < 30\nGROUP BY segNo"


def _down(number: int, rows: object) -> None:
    raise ConnectionError("billing:9092 does not answer")


@contextmanager
def highway() -> Iterator[tuple[ms.Database, threading.Event]]:
    """Traffic that goes on until the event is set."""
    with tempfile.TemporaryDirectory() as folder, ms.connect(f"{folder}/highway", engine="inprocess") as db:
        db.execute(script("linear_road.cql"))
        db.execute(script("linear_road_tolls.cql"))
        db.execute(MORE)
        text = "SELECT vehicleId, speed FROM SegSpeedStr [RANGE 30 SECONDS] WHERE segNo = ? AND speed < ?"
        rows = [(n % 100, 60 + 5 * (n // 100)) for n in range(WATCHED)]
        db.register_many(text, rows, names=[f"slow_{s}_{v}" for s, v in rows], template="slow_cars")
        db.create_sink("toll_collector", db.query("tolls"), lambda number, rows: None)
        db.create_sink("billing", db.query("crowds"), _down)
        db.register("SELECT vehicleId, 100 / (speed - 47) AS risk FROM PosSpeedStr [NOW]", name="risk")
        reports, ended = traffic.simulate(SECONDS, CARS, 1), threading.Event()
        times = reports["ts"].to_numpy()

        def drive(start: int, end: int) -> None:
            first, last = np.searchsorted(times, [start, end])
            db.insert(STREAM, reports.slice(first, last - first))
            db.insert("Tags", [(int(car), f"owner {car % 50}", start) for car in range(start, start + 20)])

        def go_on() -> None:
            for start in range(300, SECONDS, 3):
                if ended.wait(0.7):
                    return
                drive(start, start + 3)

        for start in range(0, 300, 10):
            drive(start, start + 10)
        db.insert(STREAM, [(1, 50, 1000, 5), (2, 55, 9000, 6)])  # late
        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield db, ended
        finally:
            ended.set()
            thread.join()


def take(folder: Path) -> None:
    from playwright.sync_api import Browser, sync_playwright

    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with highway() as (db, _), served(db) as address, sync_playwright() as playwright:
        browser: Browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])

        def look(name: str, view: str, scheme: str = "light", width: int = 1280, height: int = 760) -> None:
            with Visitor.of(browser, width=width, height=height, color_scheme=scheme) as visitor:
                visitor.open(address, view)
                visitor.page.locator("main h1").wait_for()
                visitor.page.wait_for_timeout(3500)
                if name == "page_plot":
                    visitor.named("tab", "Plot").click()
                    visitor.page.get_by_label("Of", exact=True).select_option("mean")
                    visitor.page.wait_for_timeout(2500)
                if name == "page_streams":
                    visitor.named("button", "2, look").click()
                    visitor.page.wait_for_timeout(500)
                if name == "page_settings":
                    visitor.page.get_by_label("join_plan").select_option("tree")
                    visitor.page.wait_for_timeout(4500)
                if name == "page_write":
                    visitor.write(WRITTEN)
                    visitor.page.wait_for_timeout(2500)
                _save(visitor.page.screenshot(), folder / f"{name}.png")

        look("page_plan", "plan", width=1400)
        look("page_path", "plan?query=crowds", width=1400)
        look("page_plan_dark", "plan", "dark", width=1400)
        look("page_answer", "queries/crowds")
        look("page_plot", "queries/fastest")
        look("page_queries", "queries")
        look("page_template", "templates/slow_cars")
        look("page_write", "write")
        look("page_epochs", "epochs")
        look("page_routing", "routing")
        look("page_streams", "streams")
        look("page_sinks", "sinks")
        look("page_settings", "settings")
        look("page_narrow", "plan?query=crowds", width=390)
        look("page_narrow_dark", "queries/crowds", "dark", width=390)
        browser.close()


def _save(picture: bytes, file: Path) -> None:
    """With few colours, which is a third of the bytes."""
    from PIL import Image

    Image.open(io.BytesIO(picture)).convert("RGB").quantize(256).save(file, optimize=True)


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
