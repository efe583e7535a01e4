"""Partners judged by Bloom filters instead of indexes: some rows seem to have one that have none."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.kernel.just_in_time.blacklist import Flags
from millstream.kernel.just_in_time.partners import Link
from millstream.kernel.keys import Codes
from millstream.kernel.operator import Segment
from millstream.kernel.storage.bloom import bloom_of


@dataclass(frozen=True)
class BloomLink(Link):
    """Rows that do not count have set their bits too."""

    def has_code(self, segment: Segment, flags: Flags | None, codes: Codes) -> Flags:
        return bloom_of(segment, self.access.stored).may_have(codes)
