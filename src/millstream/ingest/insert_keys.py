"""Keys of inserts, by which one that is sent again counts once.

    rows + key ──▶ one commit ──▶ the same rows + key ──▶ what the first was answered
                                  other rows + key    ──▶ refused

A key is kept with a digest of its rows for a day. A key that counts, `name#17`, takes the place of those with smaller
numbers of the same name: whoever sends it has been answered before. So a producer that counts has one key, however long
it goes on. Other keys are kept by the hour in which they came, so that hours are forgotten as wholes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Protocol

import polars as pl
import pyarrow as pa

from millstream.errors import ConstraintError, InputError, LimitError
from millstream.state.snapshot import KeyedInsert, Snapshot

_DAY, _HOUR = 24 * 3600, 3600  # seconds
_MOST = 1_000_000  # keys at a time
_LONGEST = 200  # characters
_COUNTING = re.compile(r"(?P<name>.+)#(?P<number>[0-9]{1,18})")
_HOURS = "hour "

Inserts = Mapping[str, tuple[KeyedInsert, ...]]


class HasSnapshot(Protocol):
    @property
    def snapshot(self) -> Snapshot: ...


class InsertKeys:
    """The keys of a database. All of it is asked under the engine's lock."""

    def __init__(self, engine: HasSnapshot, now: Callable[[], float]) -> None:
        self._engine, self._now = engine, now
        self._read: Inserts | None = None  # which of the snapshot's are in the index
        self._known: dict[str, KeyedInsert] = {}

    def find(self, key: str, digest: str) -> KeyedInsert | None:
        """What was answered to the same insert before; other rows under a key are refused."""
        before = self._index().get(name_of(key))
        if before is None or before.at < self._now() - _DAY:
            return None
        if before.key != key:
            if _number(before.key) < _number(key):
                return None
            raise ConstraintError(
                f'the key "{key}" comes after "{before.key}"',
                detail="keys that end in # and a number count: what came before the last one was answered",
                hint="send inserts of one such name one after the other",
            )
        if before.digest != digest:
            raise ConstraintError(
                f'the key "{key}" was used for other rows',
                detail=f"{before.accepted} rows were accepted under it; nothing was inserted now",
                hint="give each insert a key of its own",
            )
        return before

    def with_insert(self, key: str, digest: str, accepted: int, late: int, among: Inserts | None = None) -> Inserts:
        """The keys to commit with the rows of a new insert, without those of more than a day ago; `among` those of
        other inserts of the same commit."""
        now, inserts = self._now(), self._engine.snapshot.inserts if among is None else among
        kept = {part: found for part, found in inserts.items() if not _is_old(part, found, now)}
        found = KeyedInsert(key, digest, now, accepted, late)
        if sum(map(len, kept.values())) >= _MOST and name_of(key) not in self._index():
            raise LimitError(
                f"there are {_MOST:,} keys of inserts of the last 24 hours",
                detail="nothing was inserted",
                hint='let keys count ("name#1", "name#2", ..): only the last of these is kept; or insert more at once',
            )
        if name_of(key) != key:
            return {**kept, name_of(key): (found,)}
        hour = f"{_HOURS}{int(now // _HOUR)}"
        return {**kept, hour: (*kept.get(hour, ()), found)}

    def _index(self) -> dict[str, KeyedInsert]:
        """By key, or by the name of those that count."""
        inserts, read = self._engine.snapshot.inserts, self._read
        if inserts is not read:
            old = {} if read is None else read
            if any(part not in inserts for part in old):
                self._known, old = {}, {}
            for part, found in inserts.items():
                before = old.get(part, ())
                if found is not before:
                    more = found[len(before) :] if part.startswith(_HOURS) else found
                    self._known.update((name_of(insert.key), insert) for insert in more)
            self._read = inserts
        return self._known


def checked_key(key: object) -> str | None:
    """A key as it is given; what cannot be one is refused."""
    if key is None:
        return None
    if not isinstance(key, str) or not 0 < len(key) <= _LONGEST or not (key.isascii() and key.isprintable()):
        raise InputError(
            f"{str(key)[:_LONGEST]!r} cannot be the key of an insert",
            hint=f"it is a text of 1 to {_LONGEST} printable ASCII characters",
        )
    return key


def digest_of(target: str, table: pa.Table) -> str:
    """The same for the same rows, however they came: what lies below NULL is none of them."""
    found, frame = blake2b(repr((target, table.column_names)).encode(), digest_size=16), pl.DataFrame(table)
    for column in frame.get_columns():
        missing = column.is_null()
        values = column.cast(pl.UInt8) if column.dtype == pl.Boolean else column
        values = values.fill_null(_ANYTHING.get(type(values.dtype), 0)) if _is_plain(values.dtype) else values
        for part in (missing.cast(pl.UInt8), values):
            for batch in pl.DataFrame([part.rename("c")]).rechunk().to_arrow().to_batches():
                found.update(batch.serialize())
    return found.hexdigest()


_ANYTHING: dict[type[pl.DataType], object] = {pl.String: "", pl.Binary: b""}


def _is_plain(kind: pl.DataType) -> bool:
    return kind.is_integer() or kind.is_float() or kind in (pl.String, pl.Binary)


def name_of(key: str) -> str:
    """What keys go by: those that count, by the name without the number."""
    found = _COUNTING.fullmatch(key)
    return key if found is None else f"#{found['name']}"


def _number(key: str) -> int:
    found = _COUNTING.fullmatch(key)
    return -1 if found is None else int(found["number"])


def _is_old(part: str, found: tuple[KeyedInsert, ...], now: float) -> bool:
    if part.startswith(_HOURS):
        return (int(part.removeprefix(_HOURS)) + 1) * _HOUR < now - _DAY
    return found[-1].at < now - _DAY
