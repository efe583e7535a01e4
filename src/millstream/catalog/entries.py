"""What a database has declared, as entries that outlive the process: texts, in order, with what they were read under.

Opening a database reads its entries again. A query's entry says under which settings and statistics it was planned, so
that it gets the same plan again, and finds the state and results of that plan.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from millstream.plan.cost import SourceStatistics
from millstream.settings import Settings

Entry = Mapping[str, Any]

LEFT_OUT = "left_out"  # an edge of what windows leave out
_STANDING = ("query", "template", "sink", "comment", LEFT_OUT)  # which no text refers to


@dataclass(frozen=True)
class Pickler:
    """Turns users' functions into bytes and back; they are kept by value, so that no module need be importable."""

    dumps: Callable[[object], bytes]
    loads: Callable[[bytes], Any]

    def pack(self, value: object) -> str:
        return base64.b85encode(self.dumps(value)).decode()

    def unpack(self, text: str) -> Any:
        return self.loads(base64.b85decode(text))


@dataclass(frozen=True)
class Declarations:
    """The entries of a database. Names are unique within a group: objects, queries, functions, sinks."""

    entries: tuple[Entry, ...] = ()
    meaning: object = field(default_factory=object, compare=False)  # another one where texts may mean something else

    def with_entry(self, kind: str, name: str, **content: Any) -> Declarations:
        return self._changed(kind, (*self.entries, {"kind": kind, "name": name.lower(), **content}))

    def without(self, kind: str, name: str) -> Declarations:
        return self._changed(kind, tuple(e for e in self.entries if (e["kind"], e["name"]) != (kind, name.lower())))

    def without_all(self, gone: Collection[tuple[str, str]]) -> Declarations:
        """Without entries of some kinds and names."""
        return replace(self, entries=tuple(e for e in self.entries if (e["kind"], e["name"]) not in gone))

    def replacing(self, entry: Entry, *others: Entry) -> Declarations:
        """With others, or none, in the place of an entry."""
        entries = tuple(new for e in self.entries for new in (others if e is entry else (e,)))
        return self._changed(entry["kind"], entries)

    def _changed(self, kind: str, entries: tuple[Entry, ...]) -> Declarations:
        return replace(self, entries=entries) if kind in _STANDING else Declarations(entries)

    def with_settings(self, settings: Settings) -> Declarations:
        return self.without("settings", "").with_entry("settings", "", values=asdict(settings))

    def find(self, kind: str, name: str) -> Entry | None:
        return next((e for e in self.entries if (e["kind"], e["name"]) == (kind, name.lower())), None)


def statistics_entry(statistics: Mapping[str, SourceStatistics]) -> dict[str, Any]:
    return {name: asdict(found) for name, found in statistics.items()}


def statistics_of(entry: Mapping[str, Any]) -> dict[str, SourceStatistics]:
    return {
        name: SourceStatistics(
            found["rate"],
            found["size"],
            tuple(found["distinct"]),
            tuple((rows, tuple(columns)) for rows, columns in found.get("kept", ())),
            tuple(found.get("made", ())),
        )
        for name, found in entry.items()
    }
