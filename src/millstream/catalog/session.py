"""What a database knows at the moment: what is declared, its settings, its objects by name, and users' code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict

from sqlglot import exp

from millstream.catalog.alterations import Alterations
from millstream.catalog.entries import Declarations, Entry
from millstream.catalog.objects import CatalogOfObjects
from millstream.language.binder import Binder
from millstream.language.called_now import as_called_now
from millstream.language.expressions import UserCode
from millstream.plan.definitions import Definition
from millstream.settings import Settings
from millstream.types import DataType


class Session:
    """Changed by whoever holds the engine's lock, together with what is committed."""

    def __init__(self, entries: tuple[Entry, ...], commit: Callable[[tuple[Entry, ...]], None]) -> None:
        self._commit = commit
        self.declared = Declarations(entries)
        self.settings = Settings()
        self.catalog = CatalogOfObjects()
        self.code = UserCode()
        self.kind_of_query: Callable[[str], str | None] = lambda name: None  # what a name is that no text may read
        self.alterations = Alterations(self.catalog)
        self.alterations.note_all(entries)
        self.on_read: Callable[[Collection[str]], None] = lambda sources: None  # a query over them was planned

    def declare(self, declared: Declarations) -> None:
        """Commit what is declared from now on."""
        self._commit(declared.entries)
        self.declared = declared

    def settings_of(self, entry: Entry) -> Settings:
        """Those that an entry was read under first."""
        if "settings" not in entry:
            return Settings(**asdict(self.settings))
        # What was planned before there were these settings goes on with what it keeps.
        return Settings(**{"synopses": "apart", "join_synopses": "apart", **entry["settings"]})

    def as_called_now(self, as_of: int, tree: exp.Query) -> exp.Query:
        """A query that was said when there were so many alterations, with the names of now."""
        then = self.alterations.definitions(as_of)
        return tree if then is self.catalog else as_called_now(tree, then, self.catalog)

    def binder(
        self,
        text: str,
        settings: Settings,
        parameters: Sequence[DataType] = (),
        *,
        ad_hoc: bool = False,
        as_of: int | None = None,
        names: Mapping[str, Definition] | None = None,
    ) -> Binder:
        """Of a text that may have been said before something was altered, or with what `names` mean."""
        catalog = self.alterations.definitions(as_of) if names is None else names
        return Binder(catalog, settings, text, self.code, parameters, ad_hoc=ad_hoc, kind_of_query=self.kind_of_query)
