"""What a query has of the past, which is less than all where it came after some was cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Past:
    """Of each stream the instant from which on there are elements, where that is not all; the first answerable instant
    that follows; whether the state of others is of no use, since it tells of more; and what is to be told."""

    kept: Mapping[str, int] = field(default_factory=dict)
    first: int = 0
    apart: bool = False
    notices: tuple[str, ...] = ()

    def entry(self) -> dict[str, Any]:
        """For the catalog."""
        found = {"past": [self.first, dict(self.kept)]} if self.kept else {}
        return {**found, "notices": list(self.notices)} if self.notices else found


WHOLE = Past()
