"""The objects of a database by name: streams, tables and views share one name space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from millstream.errors import CatalogError, InputError, NameError, Place, did_you_mean
from millstream.language.statements import Name
from millstream.plan.definitions import (
    Definition,
    StreamDefinition,
    TableDefinition,
    TimeDomain,
    ViewDefinition,
)
from millstream.types import show_schema

Source = TypeVar("Source", bound=StreamDefinition | TableDefinition)

_KINDS = {"stream": StreamDefinition, "table": TableDefinition, "view": ViewDefinition}


class CatalogOfObjects(Mapping[str, Definition]):
    """Definitions under their names in lower case."""

    def __init__(self, objects: Mapping[str, Definition] | None = None) -> None:
        self._objects: dict[str, Definition] = dict(objects or {})

    def __getitem__(self, key: str) -> Definition:
        return self._objects[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def all(self) -> Mapping[str, Definition]:
        """All of them, another mapping whenever one changes."""
        return self._objects

    def add(self, definition: Definition, name: Name | None = None) -> None:
        key = definition.name.lower()
        if key in self._objects:
            kind = kind_of(self._objects[key])
            raise CatalogError(
                f'there is a {kind} "{self._objects[key].name}" already',
                hint="streams, tables and views share their names: choose another, or drop it first",
                place=None if name is None else name.place,
            )
        # A new mapping each time: readers in other threads go on with the one they have.
        self._objects = {**self._objects, key: definition}

    def remove(self, key: str) -> None:
        self._objects = {other: definition for other, definition in self._objects.items() if other != key}

    def change(self, gone: Iterable[str], *others: Definition) -> None:
        """Have others in the place of some, so that no reader sees neither."""
        without, at = {*gone}, [*self._objects].index(next(iter(gone), ""))
        kept = [(key, each) for key, each in self._objects.items() if key not in without]
        self._objects = dict([*kept[:at], *((each.name.lower(), each) for each in others), *kept[at:]])

    def of_edge(self, edge: str) -> Definition | None:
        """What has its rows there, whatever it is called now."""
        objects = self._objects
        if (found := objects.get(edge)) is not None and found.edge == edge:
            return found
        return next((each for each in objects.values() if each.edge == edge), None)

    def now(self, before: Source) -> Source:
        """What a stream or table is by now; whoever holds the engine's lock sees no other one later."""
        found = self.of_edge(before.edge)
        if not isinstance(found, type(before)):
            raise NameError(f'"{before.name}" is no longer there', hint="it was dropped meanwhile")
        return found

    def find(self, kind: str, name: Name) -> Definition:
        found = self._objects.get(name.key)
        if found is None or not isinstance(found, _KINDS[kind]) or "." in found.name:
            known = [d.name for d in self._objects.values() if isinstance(d, _KINDS[kind])]
            raise self.unknown(kind, name.text, known, name.place)
        return found

    def with_heartbeat(self, name: str, place: Place | None = None) -> StreamDefinition:
        """What time is counted on: a stream, or the feed of a CHANGES BY table."""
        found = self._objects.get(name.lower())
        if isinstance(found, StreamDefinition) and "." not in found.name:
            return found
        if isinstance(found, TableDefinition) and found.log is not None and "." not in found.name:
            return found.feed
        raise self.unknown("stream", name, [stream.name for stream in self.feeds()], place)

    def feeds(self) -> list[StreamDefinition]:
        """All streams, and the feeds of CHANGES BY tables."""
        tables = [d for d in self._objects.values() if isinstance(d, TableDefinition)]
        return [*self.streams(), *(d.feed for d in tables if d.log is not None and not d.log.malformed)]

    def source(self, name: str, place: Place | None = None) -> StreamDefinition | TableDefinition:
        """What rows can be put into."""
        found = self._objects.get(name.lower())
        if isinstance(found, ViewDefinition):
            raise CatalogError(f'"{name}" is a view', hint="put rows into the streams it reads", place=place)
        if found is None or "." in name:
            known = [d.name for d in self._objects.values() if not isinstance(d, ViewDefinition)]
            raise self.unknown("stream or table", name, known, place)
        return found

    def fed_by_rows(self, name: str) -> StreamDefinition | TableDefinition:
        """A stream, or a table that changes are put into."""
        found = self.source(name)
        if isinstance(found, TableDefinition) and found.log is None:
            raise InputError(
                f"{found.name} is a table that statements change", hint="use INSERT INTO, DELETE FROM or UPDATE"
            )
        return found

    def streams(self) -> list[StreamDefinition]:
        """Those that were declared: not what Millstream says of itself."""
        return [d for d in self._objects.values() if isinstance(d, StreamDefinition) and "." not in d.name]

    def views(self) -> list[ViewDefinition]:
        return [d for d in self._objects.values() if isinstance(d, ViewDefinition)]

    def users(self, keys: Iterable[str]) -> list[str]:
        """The views that read any of these."""
        wanted = set(keys)
        return [view.name for view in self.views() if view.reads & wanted]

    def common_domain(self) -> TimeDomain:
        """The time domain that all streams share, where they do: instants of tables are written in it."""
        domains = {stream.domain for stream in self.streams()}
        return domains.pop() if len(domains) == 1 else TimeDomain(None)

    def listing(self, what: str) -> list[dict[str, str]]:
        kind = _KINDS[what.lower().removesuffix("s")]
        shown = [d for d in self._objects.values() if isinstance(d, kind) and "." not in d.name]
        return [{"name": d.name, "columns": show_schema(d.columns), "properties": properties(d)} for d in shown]

    @staticmethod
    def unknown(
        kind: str, name: str, known: Iterable[str], place: Place | None = None, listed: Iterable[str] = ()
    ) -> NameError:
        hint = did_you_mean(name, [n for n in known if "." not in n], listed)
        return NameError(f'there is no {kind} called "{name}"', hint=hint, place=place)


def _using(definition: StreamDefinition | TableDefinition) -> list[str]:
    return [] if definition.source is None else [f"using {definition.source.format}"]


def kind_of(definition: Definition) -> str:
    return next(name for name, kind in _KINDS.items() if isinstance(definition, kind))


def properties(definition: Definition) -> str:
    """What is declared beside the columns, in words."""
    match definition:
        case StreamDefinition():
            domain = definition.domain
            retain = "FOREVER" if definition.retain is None else domain.duration(definition.retain)
            heartbeat = f"heartbeat {definition.heartbeat.shown(domain)}"
            described = [f"timestamp {definition.timestamp.name}", str(domain), heartbeat, f"retain {retain}"]
            return ", ".join([*described, *_using(definition)])
        case TableDefinition():
            names = ", ".join(definition.columns[index].name for index in definition.key)
            key = f"key ({names})" + ("" if definition.enforced else " not enforced") if names else ""
            return ", ".join([*filter(None, [key, definition.nature.lower()]), *_using(definition)])
        case ViewDefinition():
            return f"{definition.plan.kind}: {definition.text}"
