"""Somebody who looks at the page: a window of a browser, and what the browser complained about in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

_AXE = Path(__file__).with_name("axe.min.js")
WAIT = 20_000  # milliseconds, for what must happen
# What a browser says of every answer that is an error, also where the page expects one.
_EXPECTED = re.compile(r"Failed to load resource")


class Visitor:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", lambda message: self._heard(message.type, message.text))

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not _EXPECTED.search(text):
            self.complaints.append(f"{kind}: {text}")

    @classmethod
    @contextmanager
    def of(cls, browser: Browser, *, width: int = 1280, height: int = 800, **options: Any) -> Iterator[Visitor]:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(WAIT)
        visitor = cls(context.new_page())
        try:
            yield visitor
        finally:
            context.close()
        assert not visitor.complaints, visitor.complaints

    def open(self, address: str, view: str = "") -> None:
        self.page.goto(f"{address}/#/{view}")

    def see(self, text: str | re.Pattern[str]) -> None:
        self.page.get_by_text(text).first.wait_for()

    def named(self, role: Any, name: str | re.Pattern[str]) -> Locator:
        return self.page.get_by_role(role, name=name, exact=isinstance(name, str))

    def write(self, text: str) -> None:
        """Types into the editor, as people do."""
        self.page.get_by_label("CQL", exact=True).click()
        self.page.keyboard.type(text, delay=2)

    def barriers(self, rules: str = "") -> list[str]:
        """What axe-core finds that is a serious or critical barrier to somebody, by all of its rules or by one."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_AXE.read_text())  # not as a script in the page, which its policy would refuse
        options = f"{{resultTypes: ['violations'], {f'runOnly: [{rules!r}]' if rules else ''}}}"
        found = self.page.evaluate(f"axe.run(document, {options})")
        return [
            f"{each['id']}: {node['target']} {node['failureSummary']}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]
