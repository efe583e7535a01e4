"""What can come next: keywords of the language, commands, and the names that the database has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

import millstream as ms
from millstream.shell.session import COMMANDS
from millstream.wire.keywords import KEYWORDS

_WORD = re.compile(r"[\w.]*$|\\\w*$")
_MOST_QUERIES = 1000


class NameCompleter(Completer):
    """Completes the word before the cursor. Names are asked for anew when something may have changed them."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._ask = names
        self._names: list[str] | None = None

    def forget(self) -> None:
        self._names = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        found = _WORD.search(document.text_before_cursor)
        word = found[0] if found else ""
        if not word:
            return
        if word.startswith("\\"):
            candidates: Iterable[str] = COMMANDS
        else:
            if self._names is None:
                self._names = sorted(set(self._ask()))
            candidates = [*self._names, *(_like(keyword, word) for keyword in KEYWORDS)]
        for candidate in candidates:
            if candidate.lower().startswith(word.lower()) and candidate != word:
                yield Completion(candidate, start_position=-len(word))


def _like(keyword: str, word: str) -> str:
    """In the case that is being typed."""
    return keyword.lower() if word.islower() else keyword


def names_of(db: Any) -> list[str]:
    """Streams, tables, views, their columns, and queries."""
    found: list[str] = []
    try:
        for kind in ("STREAMS", "TABLES", "VIEWS"):
            for row in db.execute(f"SHOW {kind}").table.to_pylist():
                found.append(row["name"])
                found += re.findall(r"[(,]\s*(\w+) ", row["columns"])
        found += [query.name for query in db.queries()[:_MOST_QUERIES]]
        found += [template.name for template in db.templates()]
    except ms.Error:
        return found  # completion is a help, and must not get in the way
    return found
