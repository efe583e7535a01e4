"""What a token may change, by name: `write:alerts_*` is for writing to what is called so, and reading everything."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from millstream.errors import AccessError, InputError

_PATTERN = re.compile(r"[^\s\[\]:,]{1,255}")


@dataclass(frozen=True)
class WritableNames:
    """The names that may be changed, as patterns with * and ?; without any, all."""

    patterns: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        return not self.patterns or any(fnmatchcase(name.lower(), pattern) for pattern in self.patterns)

    def check(self, names: Iterable[str | None], what: str) -> None:
        """Refuse to change what has another name; None stands for all that there is, or for a name to be chosen."""
        if not self.patterns:
            return
        shown = ", ".join(self.patterns)
        for name in names:
            if name is None:
                raise AccessError(
                    f"{what} without a name", detail=f"the token may write to {shown} only", hint="name what is meant"
                )
            if not self.has(name):
                raise AccessError(f'{what} "{name}" is not for this token', detail=f"it may write to {shown} only")


def writable_of(text: str) -> WritableNames:
    """Patterns with commas between."""
    patterns = tuple(part.strip().lower() for part in text.split(","))
    for pattern in patterns:
        if not _PATTERN.fullmatch(pattern):
            raise InputError(
                f"{pattern!r} is no pattern of names",
                hint="write names with * and ?, as in --role write:alerts_*,meter_?",
            )
    return WritableNames(patterns)
