"""What a database knows at the moment: what is declared, its settings, its objects by name, and users' code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict

from millstream.catalog.entries import Declarations, Entry
from millstream.catalog.objects import CatalogOfObjects
from millstream.language.binder import Binder
from millstream.language.expressions import UserCode
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
        self.is_query: Callable[[str], bool] = lambda name: False
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

    def binder(
        self, text: str, settings: Settings, parameters: Sequence[DataType] = (), *, ad_hoc: bool = False
    ) -> Binder:
        return Binder(self.catalog, settings, text, self.code, parameters, ad_hoc=ad_hoc, is_query=self.is_query)
