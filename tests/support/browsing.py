"""A real browser: Debian's chromium, headless, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_NOTE = "THE PAGE WAS NOT TESTED: there is no chromium (as root, `make test` installs it: apt-get install chromium)"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Skips the test where there is none."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip(_NOTE)
    from playwright.sync_api import sync_playwright

    # Its sandbox cannot be made by root, who runs tests in containers; what is shown here is ours.
    alone = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=[*alone, "--disable-dev-shm-usage"])
        yield opened
        opened.close()
