"""The site builds without a warning, has every page, and needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT
from tests.support.browsing import chromium
from website.generated import ASSETS, PAGES

_BUILD = ("--quiet", "build", "--strict", "--config-file", "website/mkdocs.yml")
# What a browser fetches without being asked.
_FETCHED = re.compile(r'<(?:script|img|iframe|source)[^>]*\ssrc="([^"]+)"|<link[^>]*\shref="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", *_BUILD, "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    committed = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert all((site / path.with_suffix(".html")).is_file() for path in [*committed, *map(Path, PAGES)])
    assert all((site / name).is_file() for name in ASSETS)


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetched = ["".join(found) for found in _FETCHED.findall(page.read_text())]
        assert fetched
        assert not [name for name in fetched if re.match(r"(\w+:)?//", name)], page
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text()), style


def test_it_can_be_searched_without_a_server(site: Path) -> None:
    # Tests of the page may have a browser in this thread, and there is one in a thread at most.
    with ThreadPoolExecutor(1) as other:
        other.submit(_search, site).result()


def _search(site: Path) -> None:
    with chromium() as browser:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.click("input[name=query]")
        page.keyboard.type("tumble")
        page.wait_for_selector(".md-search-result__item", state="attached", timeout=120_000)
        assert "The language by example" in page.inner_text(".md-search-result__list")
        assert all(url.startswith(("file:", "data:", "about:")) for url in asked)
