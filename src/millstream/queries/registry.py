"""The queries of a database by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from millstream.catalog.objects import CatalogOfObjects
from millstream.errors import BindError, CatalogError, InputError, Place
from millstream.names import shown_name, why_unusable
from millstream.query import Query, TemplatePlan
from millstream.settings import Settings


class Registry:
    """Who is registered. Names are the same in lower and upper case."""

    def __init__(self) -> None:
        self._queries: dict[str, Query] = {}
        self._templates: Counter[TemplatePlan] = Counter()
        self.on_change: list[Callable[[str, Sequence[Query]], None]] = []  # running, or dropped

    def __iter__(self) -> Iterator[Query]:
        return iter(list(self._queries.values()))  # others may come and go meanwhile

    def __len__(self) -> int:
        return len(self._queries)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._queries

    def get(self, name: str) -> Query | None:
        return self._queries.get(name.lower())

    def given(self, queries: object) -> list[Query]:
        """Queries that are given as such or by name; all where none are."""
        if queries is None:
            return [*self]
        if isinstance(queries, str | Query) or not isinstance(queries, Iterable):
            raise InputError("several queries are a list", detail=f"got {type(queries).__name__}", hint="write [query]")
        found = [self.find(query) if isinstance(query, str) else query for query in queries]
        for query in found:
            if not isinstance(query, Query):
                raise InputError(f"a {type(query).__name__} is no query", hint="give queries, or their names")
        return found

    def find(self, name: str, place: Place | None = None) -> Query:
        if name.lower() not in self._queries:
            of_their_own = [query.name for query in self if query.member_of is None]
            raise CatalogOfObjects.unknown("query", name, [query.name for query in self], place, of_their_own)
        return self._queries[name.lower()]

    def add(self, queries: Sequence[Query]) -> None:
        """Have queries, instead of those of the same names."""
        self._changed("running", [query for query in queries if query.name not in self])
        for query in queries:
            if (before := self._queries.get(query.name.lower())) is not None:
                self._uncount(before)
            self._queries[query.name.lower()] = query
            if query.template is not None:
                self._templates[query.template] += 1

    def has_left(self, template: TemplatePlan) -> None:
        """A query of a template goes on with a plan of its own."""
        self._templates[template] -= 1
        if not self._templates[template]:
            del self._templates[template]

    def remove(self, queries: Sequence[Query]) -> None:
        for query in queries:
            self._uncount(self._queries.pop(query.name.lower()))
        self._changed("dropped", queries)

    def _changed(self, state: str, queries: Sequence[Query]) -> None:
        for observe in self.on_change:
            observe(state, queries)

    def _uncount(self, query: Query) -> None:
        if query.template is not None:
            self.has_left(query.template)

    def readers(self, names: set[str]) -> list[str]:
        """The queries that read one of these objects."""
        return [query.name for query in self if query.reads & names]

    def number_of(self, template: TemplatePlan) -> int:
        """How many queries a template has."""
        return self._templates[template]

    def check_room(self, more: int, settings: Settings) -> None:
        """Refuse more queries than are allowed."""
        count = len(self._queries) + more
        if count > settings.max_queries:
            raise CatalogError(
                f"{count} queries are more than the {settings.max_queries} that are allowed",
                hint="drop some, or SET max_queries",
            )

    def check_free(self, names: Sequence[str], place: Place | None = None) -> None:
        seen: set[str] = set()
        for name in names:
            key = name.lower()
            if key in self._queries or key in seen:
                raise CatalogError(
                    f'there is a query "{name}" already',
                    hint="REGISTER OR REPLACE QUERY replaces it; or choose another name",
                    place=place,
                )
            seen.add(key)

    def free_names(self, count: int) -> list[str]:
        names: list[str] = []
        number = len(self._queries)
        while len(names) < count:
            number += 1
            if f"q{number}" not in self._queries:
                names.append(f"q{number}")
        return names


def check_query_name(name: str) -> None:
    if reason := why_unusable(name):
        raise BindError(f'"{shown_name(name)}" cannot be a query\'s name', detail=reason)
