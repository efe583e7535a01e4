"""The page in a real browser: Debian's chromium, headless, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.page.visitor import Visitor
from tests.support.browsing import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    """Somebody with a window of a usual size. Whatever the browser complains about fails the test."""
    with Visitor.of(browser) as made:
        yield made
