"""Snapshots and catalogs as JSON, of which each part is encoded once.

Parts of a snapshot are immutable, and most of them are the same objects from one commit to the next: their texts are
kept as long as they are, so that a commit encodes what has changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from millstream.state.snapshot import SECTIONS, SINGLE, Catalog, Snapshot


class Encoding:
    """Texts of what was encoded last."""

    def __init__(self) -> None:
        self._sections: dict[str, tuple[Mapping[str, Any], str]] = {}  # with the mapping that it is the text of
        self._parts: dict[str, dict[str, tuple[object, str]]] = {}  # by section and key
        self._entries: dict[int, tuple[object, str]] = {}  # by identity, which is nobody else's while it is held here

    def snapshot(self, snapshot: Snapshot) -> str:
        """Without the catalog."""
        single = [f"{_text(name)}:{_text(getattr(snapshot, name))}" for name in SINGLE]
        sections = [
            f"{_text(name)}:{self._section(name, getattr(snapshot, name), SECTIONS[name])}" for name in SECTIONS
        ]
        return f"{{{','.join([*single, *sections])}}}"

    def _section(self, name: str, found: Mapping[str, Any], plain: Callable[[Any], object]) -> str:
        held = self._sections.get(name)
        if held is not None and held[0] is found:
            return held[1]
        before, parts = self._parts.get(name, {}), dict[str, tuple[object, str]]()
        for key, value in found.items():
            part = before.get(key)
            same = part is not None and part[0] is value
            parts[key] = part if same else (value, f"{_text(key)}:{_text(plain(value))}")  # type: ignore[assignment]
        text = f"{{{','.join([text for _, text in parts.values()])}}}"
        self._parts[name], self._sections[name] = parts, (found, text)
        return text

    def catalog(self, catalog: Catalog) -> str:
        before, self._entries = self._entries, {}
        for entry in catalog:
            self._entries[id(entry)] = before.get(id(entry)) or (entry, _text(entry))
        return f"[{','.join([self._entries[id(entry)][1] for entry in catalog])}]"


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
