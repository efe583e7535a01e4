"""All that the site has beside the committed pages, by the name of its file, with what makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from website.command_line import command_page
from website.functions import functions_page
from website.http_api import http_page
from website.python_api import python_page
from website.settings import settings_page

PAGES: Mapping[str, Callable[[], str]] = {
    "functions.md": functions_page,
    "settings.md": settings_page,
    "python_api.md": python_page,
    "http_api.md": http_page,
    "command_line.md": command_page,
}
_ASSETS = sorted((Path(__file__).parent / "assets").iterdir())
ASSETS: Mapping[str, Callable[[], str]] = {path.name: path.read_text for path in _ASSETS}
