"""Settings of a database: what `SET name = value` takes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import Field, dataclass, field, replace
from typing import Any

from millstream.bounds import MAX_SPAN
from millstream.errors import BindError, NameError, Place, did_you_mean

_PER_STREAM = ("shedding", "shedding_lag", "max_lag", "max_lag_rows")


@dataclass(frozen=True)
class Settings:
    range_bounds: str = field(default="closed", metadata={"choices": ("closed", "half_open")})
    timezone: str = field(default="UTC", metadata={"text": True})  # whose clock queries read and write
    strategy: str = field(default="upa", metadata={"choices": ("upa", "direct", "negative")})
    join_plan: str = field(default="auto", metadata={"choices": ("auto", "eddy", "tree", "mjoin")})
    routing: str = field(default="auto", metadata={"choices": ("auto", "ticket", "fixed", "random")})  # of eddies
    jit: str = field(default="auto", metadata={"choices": ("auto", "on", "off")})
    jit_detection: str = field(
        default="all", metadata={"choices": ("all", "single", "bloom", "lattice", "lattice bloom")}
    )
    stem_window: int = field(default=0, metadata={"least": 0})  # ticks that joins by SteMs keep; 0: what is asked for
    disabled_rules: str = field(default="", metadata={"text": True})  # names of rewrite rules, with commas between
    max_rstream_rows: int = field(default=10_000_000, metadata={"least": 1})
    sample_seed: int = 0
    expiry_groups: int = field(default=0, metadata={"least": 0})
    synopses: str = field(default="shared", metadata={"choices": ("shared", "apart")})  # of windows and joins
    join_synopses: str = field(default="shared", metadata={"choices": ("shared", "apart")})  # of joins with RANGE
    memory_budget: int = field(default=0, metadata={"least": 0, "bytes": True})  # 0: a quarter of the machine
    shards: int = field(default=0, metadata={"least": 0})  # 0: one per core, in process one
    lazy_interval: int = field(default=5, metadata={"least": 0})  # percent of the window
    shedding: str = field(default="off", metadata={"choices": ("off", "sample")})
    shedding_lag: int = field(default=10, metadata={"least": 0})  # seconds that a source's epoch may take
    sharing: str = field(default="auto", metadata={"choices": ("auto", "on", "off")})  # of plans, between queries
    replan: str = field(default="auto", metadata={"choices": ("auto", "off")})  # whether plans follow the data
    small_epochs: str = field(default="auto", metadata={"choices": ("auto", "driver", "spark")})  # who runs them
    background_rows: int = field(default=200_000, metadata={"least": 0})  # of history from which on queries do not wait
    slow_epoch: int = field(default=10_000, metadata={"least": 0})  # milliseconds; 0: none is
    max_lag: int = field(default=0, metadata={"least": 0})  # seconds; 0: no matter how far
    max_lag_rows: int = field(default=0, metadata={"least": 0})  # of a source; 0: no matter how many
    max_queries: int = field(default=1_000_000, metadata={"least": 1})
    max_query_rows: int = field(default=0, metadata={"least": 0})  # of one query's result; 0: no limit
    max_query_state: int = field(default=0, metadata={"least": 0, "bytes": True})
    max_value_bytes: int = field(
        default=16 << 20, metadata={"least": 1024, "most": 1 << 30, "bytes": True}
    )  # of one value
    max_column_bytes: int = field(
        default=1 << 30, metadata={"least": 1024, "bytes": True}
    )  # of texts that are made at once
    max_join_pairs: int = field(default=1_000_000_000, metadata={"least": 1})  # that one step looks at
    max_join_rows: int = field(default=50_000_000, metadata={"least": 1})  # that one step makes
    max_join_bytes: int = field(default=512 << 20, metadata={"least": 1024, "bytes": True})  # of these
    max_answer_rows: int = field(default=20_000_000, metadata={"least": 0})  # 0: no limit
    max_answer_bytes: int = field(default=2 << 30, metadata={"least": 0, "bytes": True})
    max_follower_bytes: int = field(default=1 << 30, metadata={"least": 0, "bytes": True})  # for one remote reader
    by_stream: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what single streams do otherwise

    @property
    def disabled(self) -> list[str]:
        """The rewrite rules that are not to be used."""
        return [name.strip() for name in self.disabled_rules.split(",") if name.strip()]

    def of_stream(self, key: str) -> Settings:
        """The settings as they are for one stream."""
        return replace(self, **self.by_stream.get(key, {}))

    def with_stream_value(self, key: str, name: str, value: object, place: Place | None = None) -> Settings:
        """The settings with one changed for a stream."""
        if name.lower() not in _PER_STREAM:
            raise BindError(
                f"{name} is one for all streams", hint=f"FOR goes with {', '.join(_PER_STREAM)}", place=place
            )
        own = getattr(self.with_value(name, value, place), name.lower())
        return replace(self, by_stream={**self.by_stream, key: {**self.by_stream.get(key, {}), name.lower(): own}})

    def without_stream(self, key: str) -> Settings:
        return replace(self, by_stream={other: own for other, own in self.by_stream.items() if other != key})

    def with_stream_renamed(self, key: str, new: str) -> Settings:
        return replace(self, by_stream={new if other == key else other: own for other, own in self.by_stream.items()})

    def with_value(self, name: str, value: object, place: Place | None = None) -> Settings:
        """The settings with one changed; a wrong name or value is an error at the place."""
        fields = {key: known for key, known in self.__dataclass_fields__.items() if key != "by_stream"}
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
        if fields[key].metadata.get("bytes") and isinstance(value, str):
            value = _bytes(key, value, place)
        if isinstance(value, bool) or not isinstance(value, int):
            raise BindError(f"{key} takes a whole number, not {value!r}", place=place)
        if value < fields[key].metadata.get("least", value):
            raise BindError(f"{key} is at least {fields[key].metadata['least']}, not {value}", place=place)
        if abs(value) > MAX_SPAN:
            raise BindError(f"{key} is at most 2^60, not {value}", place=place)
        if value > fields[key].metadata.get("most", value):
            raise BindError(f"{key} is at most {fields[key].metadata['most']}, not {value}", place=place)
        chosen[key] = value
        return replace(self, **chosen)


_UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def _bytes(key: str, text: str, place: Place | None) -> int:
    """A size as people write it: 512 MB, 2GB, 1000000."""
    found = re.fullmatch(r"\s*(\d{1,30})\s*([a-zA-Z]*)\s*", text)
    if found is None or found[2].lower() not in _UNITS:
        raise BindError(f"{key} is a size in bytes, as in '512 MB' or 1000000, not {text[:40]!r}", place=place)
    return int(found[1]) * _UNITS[found[2].lower()]


_ABOUT = {
    "range_bounds": "whether [RANGE n] has n + 1 instants (closed) or n (half_open)",
    "timezone": "whose clock queries read and write",
    "strategy": "how rows leave windows: by the update patterns, by known ends only, or by negative rows",
    "join_plan": "how FROM lists are joined: by cost, by SteMs and an eddy, by a tree, or by SteMs in a fixed order",
    "routing": "which filter or SteM rows go to next, from the next epoch on: by tickets, in a fixed order, by chance",
    "jit": "whether joins hold rows back that have no partners yet",
    "jit_detection": "how joins just in time detect what is not demanded",
    "stem_window": "ticks that joins by SteMs keep at least; 0 keeps what is asked for",
    "disabled_rules": "rewrite rules that are not used, with commas between",
    "max_rstream_rows": "rows of an RSTREAM that are unfolded at most",
    "sample_seed": "what SAMPLE tosses its coins by",
    "expiry_groups": "into how many groups by expiry joins divide what they keep; 0 keeps rows by value",
    "synopses": "whether windows and joins keep rows together",
    "join_synopses": "whether joins with RANGE windows of all sizes keep rows together",
    "memory_budget": "bytes for mapped segments, directories of keys and merges; 0 is a quarter of the machine",
    "shards": "into how many parts state is divided; 0 is one per core",
    "lazy_interval": "percent of a window after which expiry groups are looked at",
    "shedding": "whether elements may be dropped under load",
    "shedding_lag": "seconds that a source's epoch may take before elements are dropped",
    "sharing": "whether queries that differ in constants share one plan",
    "replan": "whether plans follow the data",
    "small_epochs": "who runs epochs on Spark: the driver where a job would take longer to start, always, or never",
    "background_rows": "rows of history from which on a late query's past is worked through in the background",
    "slow_epoch": "milliseconds that an epoch may take before a warning is logged; 0 is no limit",
    "max_lag": "seconds that a stream may be behind the clock before it is logged and shown; 0 is no limit",
    "max_lag_rows": "rows that the source of a stream may be ahead before it is logged and shown; 0 is no limit",
    "max_queries": "queries that may be registered",
    "max_query_rows": "rows that one query's result may have; 0 is no limit",
    "max_query_state": "bytes of state that one query may have; 0 is no limit",
    "max_value_bytes": "bytes that one value may have",
    "max_column_bytes": "bytes of the texts or lists that a function makes for the rows of one step",
    "max_join_pairs": "pairs of rows that a join may look at in one step",
    "max_join_rows": "rows that a join, or an UNNEST, may make in one step",
    "max_join_bytes": "bytes of the rows that a join may make in one step, eight for each of their columns",
    "max_answer_rows": "rows that one answer may have; 0 is no limit",
    "max_answer_bytes": "bytes that one answer may have in memory; 0 is no limit",
    "max_follower_bytes": "bytes that are kept for one remote reader who is slow",
}


def _kind(known: Field[Any]) -> str:
    if "choices" in known.metadata:
        return "choice"
    return "text" if isinstance(known.default, str) else "bytes" if "bytes" in known.metadata else "number"


def described(settings: Settings, fixed: Collection[str] = ()) -> list[dict[str, Any]]:
    """All settings with their values, defaults, choices and what they mean; some cannot be changed any more."""
    return [
        {
            "name": name,
            "value": getattr(settings, name),
            "default": known.default,
            "choices": list(known.metadata["choices"]) if "choices" in known.metadata else None,
            "kind": _kind(known),
            "least": known.metadata.get("least"),
            "most": known.metadata.get("most"),
            "description": _ABOUT.get(name, ""),
            "changeable": name not in fixed,
        }
        for name, known in Settings.__dataclass_fields__.items()
        if name != "by_stream"
    ]
