"""Settings of a database: what `SET name = value` takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from millstream.errors import BindError, NameError, Place, did_you_mean


@dataclass(frozen=True)
class Settings:
    range_bounds: str = field(default="closed", metadata={"choices": ("closed", "half_open")})
    strategy: str = field(default="upa", metadata={"choices": ("upa", "direct", "negative")})
    disabled_rules: str = field(default="", metadata={"text": True})  # names of rewrite rules, with commas between
    max_rstream_rows: int = field(default=10_000_000, metadata={"least": 1})
    sample_seed: int = 0
    expiry_groups: int = field(default=0, metadata={"least": 0})
    shards: int = field(default=0, metadata={"least": 0})  # 0: one per core, in process one
    lazy_interval: int = field(default=5, metadata={"least": 0})  # percent of the window
    shedding: str = field(default="off", metadata={"choices": ("off", "sample")})
    shedding_lag: int = field(default=10, metadata={"least": 0})  # seconds that a source's epoch may take

    def with_value(self, name: str, value: object, place: Place | None = None) -> Settings:
        """The settings with one changed; a wrong name or value is an error at the place."""
        fields = self.__dataclass_fields__
        key = name.lower()
        if key not in fields:
            raise NameError(f'unknown setting "{name}"', hint=did_you_mean(key, fields), place=place)
        chosen: dict[str, Any] = {}
        choices = fields[key].metadata.get("choices")
        if choices:
            value = str(value).lower()
            if value not in choices:
                raise BindError(f"{key} is one of {', '.join(map(repr, choices))}, not {value!r}", place=place)
            chosen[key] = value
            return replace(self, **chosen)
        if fields[key].metadata.get("text"):
            chosen[key] = str(value)
            return replace(self, **chosen)
        if isinstance(value, bool) or not isinstance(value, int):
            raise BindError(f"{key} takes a whole number, not {value!r}", place=place)
        if value < fields[key].metadata.get("least", value):
            raise BindError(f"{key} is at least {fields[key].metadata['least']}, not {value}", place=place)
        chosen[key] = value
        return replace(self, **chosen)
