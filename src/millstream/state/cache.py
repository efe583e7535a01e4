"""The segments that a process read last, mapped and ready: a segment never changes, so its name is all that counts.

Opening a segment costs more than most steps do with a small one. Segments that were removed meanwhile are forgotten as
others come; until then they hold their place on disk, which is why the cache is bounded by size too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import polars as pl

from millstream.state.store import Store


class CachedStore:
    """A store whose latest segments read stay open, those longest unread being the first to go."""

    def __init__(self, store: Store, entries: int = 512, size: int = 256 << 20) -> None:
        self.store = store
        self._entries, self._size = entries, size
        self._frames: OrderedDict[str, tuple[pl.DataFrame, int]] = OrderedDict()
        self._held = 0

    def write(self, prefix: str, frame: pl.DataFrame) -> str:
        return self.store.write(prefix, frame)

    def read(self, name: str) -> pl.DataFrame:
        if name in self._frames:
            self._frames.move_to_end(name)
            return self._frames[name][0]
        frame = self.store.read(name)
        self._frames[name] = frame, int(frame.estimated_size())
        self._held += self._frames[name][1]
        while self._frames and (len(self._frames) > self._entries or self._held > self._size):
            _, (_, size) = self._frames.popitem(last=False)
            self._held -= size
        return frame

    def remove(self, names: Iterable[str]) -> None:
        self.store.remove(names)
