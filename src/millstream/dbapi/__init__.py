"""Millstream through Python's common interface to databases, DB-API 2.0 (PEP 249).

    import millstream.dbapi
    with millstream.dbapi.connect("path/to/db") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT k, v FROM s [RANGE 1 MINUTE] WHERE v > ?", (10,))
        print(cursor.fetchall())

A connection is a database here or, by an address, at a service. Every statement is committed by itself, so that there
is nothing to roll back. SELECT gives the answer of now.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import millstream as ms

if TYPE_CHECKING:
    import pyarrow as pa

    from millstream.answers.result import StatementResult
    from millstream.client.database import RemoteDatabase
    from millstream.language.given_values import Given

__all__ = [
    *("Binary", "Connection", "Cursor", "DataError", "DatabaseError", "Date", "DateFromTicks", "Error"),
    *("IntegrityError", "InterfaceError", "InternalError", "NotSupportedError", "OperationalError"),
    *("ProgrammingError", "Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks", "Warning"),
    *("BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "apilevel", "connect", "paramstyle", "threadsafety"),
]

apilevel = "2.0"
threadsafety = 2  # threads may share the module and connections
paramstyle = "qmark"  # and :name, where values are given as a dict


# Names as PEP 249 has them.


class Warning(Exception):  # noqa: A001
    """Never raised: what an author should know is in `Cursor.messages`."""


class Error(Exception):
    """Whatever goes wrong."""


class InterfaceError(Error):
    """The cursor or connection is not used as it can be."""


class DatabaseError(Error):
    """The database says no."""


class DataError(DatabaseError):
    """A value does not fit."""


class OperationalError(DatabaseError):
    """The surroundings: files, memory, limits, the service."""


class IntegrityError(DatabaseError):
    """A row contradicts what was declared."""


class InternalError(DatabaseError):
    """A fault of Millstream."""


class ProgrammingError(DatabaseError):
    """A text is wrong, or names what is not there."""


class NotSupportedError(DatabaseError):
    """It is not in the language."""


_KINDS: tuple[tuple[tuple[type[ms.Error], ...], type[Error]], ...] = (
    ((ms.NotSupportedError,), NotSupportedError),
    ((ms.ClosedError,), InterfaceError),
    ((ms.ConstraintError,), IntegrityError),
    ((ms.InputError, ms.EvaluationError, ms.TimeError), DataError),
    ((ms.SyntaxError, ms.BindError, ms.NameError, ms.TypeError, ms.CatalogError, ms.StatementError), ProgrammingError),
    ((ms.StateError, ms.ServiceError, ms.LimitError, ms.SetupError, ms.AccessError), OperationalError),
)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ms.Error as error:
        kind = next((kind for known, kind in _KINDS if isinstance(error, known)), DatabaseError)
        raise kind(str(error)) from error


class _ColumnType:
    """What the type of a column is compared with."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


STRING, BINARY, NUMBER, DATETIME, ROWID = map(_ColumnType, ("STRING", "BINARY", "NUMBER", "DATETIME", "ROWID"))
BOOLEAN, OTHER = _ColumnType("BOOLEAN"), _ColumnType("OTHER")

Date, Time, Timestamp, Binary = datetime.date, datetime.time, datetime.datetime, bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    return Timestamp(*time.localtime(ticks)[:6])


def connect(database: Any = None, **options: Any) -> Connection:
    """Open a database, or connect to a service, with the options of `ms.connect`."""
    with _translated():
        return Connection(ms.connect(database, **options))


class Connection:
    """A database; its cursors run statements one after the other, each of them committed by itself."""

    Warning, Error, InterfaceError, DatabaseError = Warning, Error, InterfaceError, DatabaseError
    DataError, OperationalError, IntegrityError = DataError, OperationalError, IntegrityError
    InternalError, ProgrammingError, NotSupportedError = InternalError, ProgrammingError, NotSupportedError

    def __init__(self, database: ms.Database | RemoteDatabase) -> None:
        self.database = database
        self._is_closed = False

    def check_open(self) -> None:
        if self._is_closed:
            raise InterfaceError("the connection is closed")

    def cursor(self) -> Cursor:
        self.check_open()
        return Cursor(self)

    def commit(self) -> None:
        """Nothing to do: every statement is committed when it has run."""
        self.check_open()

    def rollback(self) -> None:
        self.check_open()
        raise NotSupportedError("statements cannot be rolled back: each is committed when it has run")

    def close(self) -> None:
        self.check_open()
        self._is_closed = True
        with _translated():
            self.database.close()

    def __enter__(self) -> Connection:
        self.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_closed:
            self.close()


class Cursor:
    """Runs statements, and gives the rows of the last one."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._result: StatementResult | None = None
        self._is_closed = False

    # Statements

    def execute(self, operation: str, parameters: Given = ()) -> Cursor:
        """Run statements, with a value for each `?`, or by name for `:name`."""
        self._check_open()
        self._result = None
        with _translated():
            self._result = self.connection.database.execute(operation, parameters or None)
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Given]) -> Cursor:
        """Run a statement for each of many rows of values; INSERTs are taken in together."""
        self._check_open()
        with _translated():
            from millstream.language.given_values import with_values

            text = ";\n".join(with_values(operation, values) for values in seq_of_parameters)
        self.execute(text)
        self._result = None
        return self

    # What they gave

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """Name and type of each column of the rows, if there are some."""
        if (rows := self._rows()) is None:
            return None
        return [(field.name, _type_of(field.type), None, None, None, None, None) for field in rows.schema]

    @property
    def rowcount(self) -> int:
        """How many rows the last statement gave or took; -1 where that has no meaning."""
        if (rows := self._rows()) is not None:
            return int(rows.num_rows)
        inserted = getattr(self._result, "insert", None)
        return -1 if inserted is None else int(inserted.accepted)

    @property
    def messages(self) -> list[tuple[type[Warning], str]]:
        """What the author of the last statement should know of the past that it saw."""
        return [] if self._result is None else [(Warning, notice) for notice in self._result.notices]

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._with_rows().fetchone()

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        return self._with_rows().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._with_rows().fetchall()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def _rows(self) -> pa.Table | None:
        return None if self._result is None else self._result.table

    def _with_rows(self) -> StatementResult:
        self._check_open()
        if self._result is None or self._result.table is None:
            raise InterfaceError("the last statement gave no rows")
        return self._result

    # Life

    def _check_open(self) -> None:
        self.connection.check_open()
        if self._is_closed:
            raise InterfaceError("the cursor is closed")

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing to do."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing to do."""

    def close(self) -> None:
        self._check_open()
        self._is_closed = True
        self._result = None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_closed and self.connection is not None:
            self._is_closed = True


def _type_of(kind: pa.DataType) -> _ColumnType:
    import pyarrow as pa

    tests = (
        (STRING, pa.types.is_string, pa.types.is_large_string),
        (BOOLEAN, pa.types.is_boolean),
        (NUMBER, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        (DATETIME, pa.types.is_timestamp, pa.types.is_date, pa.types.is_duration),
        (BINARY, pa.types.is_binary, pa.types.is_large_binary),
    )
    return next((found for found, *known in tests if any(test(kind) for test in known)), OTHER)
