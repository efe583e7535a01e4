"""Bearer tokens: who may do what. A file holds their hashes, and never the tokens themselves.

A token is 32 random bytes, so that a plain hash of it tells nothing. The file is read again when it changes: a token
that is revoked is refused from the next request on.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from pathlib import Path

from millstream.errors import CatalogError, InputError, NameError, StateError, did_you_mean
from millstream.names import shown_name, why_unusable
from millstream.service.callers import Budget
from millstream.service.writable import WritableNames, writable_of

FILE = "tokens.json"
_PREFIX = "ms_"
_SPAN = re.compile(r"([0-9]{1,6})([dhms])")


class Role(IntEnum):
    """READ asks; WRITE also puts rows in, registers and drops queries; ADMIN also defines, sets and runs."""

    READ = 1
    WRITE = 2
    ADMIN = 3

    def __str__(self) -> str:
        return self.name.lower()


def granted(text: str) -> tuple[Role, WritableNames]:
    """A role as it is written, `write` with the names that it is for: `write:alerts_*`."""
    name, colon, patterns = text.partition(":")
    try:
        role = Role[name.upper()]
    except KeyError:
        raise InputError(f"a role is {', '.join(map(str, Role))}, not {name!r}") from None
    if not colon:
        return role, WritableNames()
    if role != Role.WRITE:
        raise InputError(f"{role} is for all names", hint="only write can be for some, as in --role write:alerts_*")
    return role, writable_of(patterns)


def span_of(text: str) -> timedelta:
    """90d, 12h, 30m or 10s."""
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None:
        raise InputError(f"{text!r} is no span of time", hint="write 90d, 12h, 30m or 10s")
    units = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
    return timedelta(**{units[found[2]]: int(found[1])})


def expiry_of(text: str, now: datetime) -> str:
    """When a token ends: after 90d, 12h or 30m, or at an instant in ISO 8601; in UTC."""
    try:
        if _SPAN.fullmatch(text.strip().lower()):
            at = now + span_of(text)
        else:
            at = datetime.fromisoformat(text.strip())
            at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InputError(f"{text!r} is no time", hint="write 90d, 12h, 30m, or 2027-01-31T12:00") from None
    if at <= now:
        raise InputError(f"{text!r} is over already")
    return at.isoformat(timespec="seconds")


@dataclass(frozen=True)
class Token:
    """A token as it is kept."""

    name: str
    role: str
    hash: str
    created: str
    limits: dict[str, float] = field(default_factory=dict)  # what it may take, where that is less than others may
    expires: str = ""  # in ISO 8601; empty: never

    def has_expired(self, now: datetime | None = None) -> bool:
        return bool(self.expires) and datetime.fromisoformat(self.expires) <= (now or datetime.now(UTC))

    @property
    def budget(self) -> Budget:
        given = self.limits
        return Budget(
            int(given.get("concurrent", 0)),
            float(given.get("seconds", 0)),
            int(given.get("rows", 0)),
            int(given.get("bytes", 0)),
        )


class Tokens:
    """The tokens of a service, in a file that its owner alone may read."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._read_at: tuple[int, int, int] | None = None
        self._by_hash: dict[str, Token] = {}
        self._were_there = False

    def are_asked_for(self) -> bool:
        """Whether there are some, or were since this began: who takes the last one back does not open a service."""
        if not self._were_there:
            self._were_there = len(self) > 0
        return self._were_there

    def __len__(self) -> int:
        return len(self.all())

    def all(self) -> list[Token]:
        with self._lock:
            self._refresh()
            return list(self._by_hash.values())

    def find(self, secret: str) -> Token | None:
        """The token that a caller showed. Looking a hash up tells nothing about others by the time it takes."""
        with self._lock:
            self._refresh()
            return self._by_hash.get(_hash(secret))

    def add(self, name: str, role: Role | str, budget: Budget | None = None, expires: str = "") -> str:
        """Make a token; gives its text, which is nowhere else."""
        granted(str(role))
        reason = why_unusable(name)
        if reason is None and not name.isprintable():
            reason = "it has a character that cannot be shown"
        if reason is not None:
            raise InputError(f'"{shown_name(name)}" cannot be a token\'s name', detail=reason)
        secret = _PREFIX + secrets.token_urlsafe(32)
        with self._changing() as found:
            if any(token.name == name for token in found):
                raise CatalogError(f'there is a token "{name}" already', hint="revoke it first, or choose another name")
            created = datetime.now(UTC).isoformat(timespec="seconds")
            limits = {key: value for key, value in asdict(budget or Budget()).items() if value}
            found.append(Token(name, str(role).lower(), _hash(secret), created, limits, expires))
        return secret

    def rotate(self, name: str, overlap: timedelta = timedelta(0), expires: str | None = None) -> str:
        """Make another text for a token; those before are refused once the overlap is over. It expires as before,
        unless that is said anew."""
        secret, now = _PREFIX + secrets.token_urlsafe(32), datetime.now(UTC)
        with self._changing() as found:
            own = [token for token in found if token.name == name]
            if not own:
                raise _unknown(name, found)
            ends = (now + overlap).isoformat(timespec="seconds")
            last = own[-1]
            kept = [token for token in found if token.name != name]
            if overlap:
                left = (replace(token, expires=min(token.expires or ends, ends)) for token in own)
                kept += [token for token in left if not token.has_expired(now)]
            ends_new = last.expires if expires is None else expires
            created = now.isoformat(timespec="seconds")
            found[:] = [*kept, replace(last, hash=_hash(secret), created=created, expires=ends_new)]
        return secret

    def revoke(self, name: str) -> None:
        with self._changing() as found:
            kept = [token for token in found if token.name != name]
            if len(kept) == len(found):
                raise _unknown(name, found)
            found[:] = kept

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """The tokens to be changed, alone; written when the block ends."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.file.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise StateError(f"{self.file} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = self._load()
            yield found
            self._write(found)
        finally:
            os.close(lock)

    def _write(self, tokens: list[Token]) -> None:
        replacement = self.file.with_suffix(".new")
        content = json.dumps({"tokens": [asdict(token) for token in tokens]}, indent=1)
        replacement.unlink(missing_ok=True)
        with os.fdopen(os.open(replacement, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        replacement.rename(self.file)

    def _load(self) -> list[Token]:
        try:
            return [Token(**token) for token in json.loads(self.file.read_text())["tokens"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StateError(f"{self.file} cannot be read as tokens", detail=str(error)) from None

    def _refresh(self) -> None:
        try:
            found = self.file.stat()
            read_at = found.st_mtime_ns, found.st_size, found.st_ino
        except FileNotFoundError:
            read_at = None
        if read_at != self._read_at or read_at is None:
            self._by_hash = {token.hash: token for token in self._load()}
            self._read_at = read_at


def _unknown(name: str, tokens: Iterable[Token]) -> NameError:
    hint = did_you_mean(name, [token.name for token in tokens])
    return NameError(f'there is no token called "{name}"', hint=hint)


def tokens_of(path: Path | None, file: Path | None) -> Tokens | None:
    """The tokens of a database directory, or of a file; None where there is neither."""
    if file is None and path is None:
        return None
    return Tokens(file or (path or Path()) / FILE)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
