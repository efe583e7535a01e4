"""The page in a real browser: Debian's chromium, headless, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.page.roads import roads
from tests.page.visitor import Visitor
from tests.support.browsing import chromium
from tests.support.serving import served

import millstream as ms

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """No longer than for the tests of the page: an event loop runs in the thread as long as it is there."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def db() -> Iterator[ms.Database]:
    """What the page shows; modules that want something else have their own."""
    with roads() as made:
        yield made


@pytest.fixture(scope="module")
def address(db: ms.Database) -> Iterator[str]:
    with served(db) as found:
        yield found


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    """Somebody with a window of a usual size. Whatever the browser complains about fails the test."""
    with Visitor.of(browser) as made:
        yield made
