"""What README and docs name is there; tests/docs runs their code blocks."""

from __future__ import annotations

import html
import re
from dataclasses import fields
from pathlib import Path

import pytest
from website.generated import PAGES as GENERATED

import millstream as ms
from millstream.settings import Settings

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "millstream"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"`([\w.-]+(?:/[\w.*-]+)*/?)`")  # a path, perhaps
SUFFIXES = {".py", ".cql", ".md", ".txt", ".toml", ".dot", ".svg"}
# Where the paths that docs name may begin.
ROOTS = (ROOT, SOURCE, ROOT / "tests")


def _is_path(name: str) -> bool:
    """Whether a name in backticks claims to be a file or folder of the repository. `q.cql` is a query's text, and
    `bench/out` is made by the benchmarks."""
    if name == "q.cql" or name.startswith("bench/out"):
        return False
    if Path(name).suffix in SUFFIXES:
        return True
    top = name.split("/")[0]
    return "/" in name and any((root / top).is_dir() for root in ROOTS)


def _exists(name: str) -> bool:
    if any(list(root.glob(name.rstrip("/"))) for root in ROOTS):
        return True
    # A file by its last name, where the text around it says which folder is meant.
    return "/" not in name and any(any(root.rglob(name)) for root in (SOURCE, ROOT / "tests", ROOT / "docs"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_are_there(page: Path) -> None:
    named = {name for name in NAMED.findall(page.read_text()) if _is_path(name)}
    assert not sorted(name for name in named if not _exists(name))


def _anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub links to them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in LINK.findall(prose):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        if name in GENERATED:  # by `make docs`, which checks what leads there
            continue
        target = (page.parent / name) if name else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in _anchors(target), f"{page.name} links to {link}"


def test_every_setting_is_explained() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "language.md").read_text(), re.MULTILINE)
    assert {field.name for field in fields(Settings)} - {"by_stream"} <= {*explained}


def test_windows_are_as_the_language_page_says() -> None:
    text = (ROOT / "docs" / "language.md").read_text()
    windows = re.search(r"Windows:\n\n<!-- .* -->\n\n((?:    .*\n)+)", text)
    assert windows
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (a INT, b INT) TIMESTAMP BY ts TIMESTAMP")
        for window in re.findall(r"\[[^\]]+\]", windows[1]):
            assert "Window" in db.explain(f"SELECT * FROM s {window}")


def test_the_architecture_stays_short() -> None:
    assert len((ROOT / "docs" / "architecture.md").read_text().split()) <= 2_500


@pytest.mark.parametrize("text", sorted((ROOT / "docs" / "drawings").glob("*.dot")), ids=lambda text: text.stem)
def test_drawings_show_what_their_texts_say(text: Path) -> None:
    """`make drawings` was run after the last change: every line of a label is in the picture."""
    picture = text.with_suffix(".svg").read_text()
    shown = {html.unescape(line).strip() for line in re.findall(r"<text[^>]*>([^<]*)</text>", picture)}
    labels = re.findall(r'label="([^"]*)"', text.read_text())
    assert not {line for label in labels for line in label.split("\\n")} - shown
