"""Formats written in Python and named by where they are imported from: `USING package.module.Source`.

Spark knows such a source by one name for all; here it is the path itself, so that two classes of one name do not clash.
Names with dots that Python does not know are left to Spark, whose formats in Java have such names too.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from millstream.errors import BindError, NameError, TypeError, did_you_mean
from millstream.plan.definitions import ExternalData

_DERIVE = "a source is a class derived from pyspark.sql.datasource.DataSource"


class PythonSources:
    """The sources that a session was told of by their paths."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._known: set[str] = set()

    def make_known(self, data: ExternalData, owner: str) -> None:
        """Import what a format names, if that is a path in Python, and register it with Spark."""
        path = data.format
        if "." not in path or path in self._known:
            return
        found = load(path, owner)
        if found is not None:
            named = type(found.__name__, (found,), {"name": classmethod(lambda _: path), "__module__": __name__})
            with _active(self._session):
                self._session.dataSource.register(named)
            self._known.add(path)


@contextmanager
def _active(session: SparkSession) -> Iterator[None]:
    """Spark asks the thread's active session whether a name is taken, which may know what this one does not."""
    sessions = getattr(session.sparkContext._jvm, "org.apache.spark.sql.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def load(path: str, owner: str) -> type[DataSource] | None:
    """The class of a path, None where there is no such module; refused is what cannot be imported or is no source."""
    module_name, _, name = path.rpartition(".")
    module = _imported(module_name, owner)
    if module is None:
        return None
    found = getattr(module, name, None)
    if found is None:
        raise NameError(
            f'{owner}: module {module_name} has no "{name}"',
            hint=did_you_mean(name, [key for key, value in vars(module).items() if _is_source(value)]) or _DERIVE,
        )
    if not _is_source(found):
        raise TypeError(
            f"{owner}: {path} is not a data source",
            detail=f"it is a {'class of another kind' if isinstance(found, type) else type(found).__name__}",
            hint=_DERIVE,
        )
    return found  # type: ignore[no-any-return]


def _imported(name: str, owner: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever a user's module raises
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            return None
        raise BindError(
            f"{owner}: module {name} cannot be imported",
            detail=f"{type(error).__name__}: {error}",
            hint=f"importing it must work in this program: import {name}",
        ) from error


def _is_source(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, DataSource) and value is not DataSource
