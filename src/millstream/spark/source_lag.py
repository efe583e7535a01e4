"""How many rows a source has that were not taken in yet, as far as Spark's report of its last batch tells.

    endOffset     {"orders": {"0": 120, "1": 75}}     up to where the batch went
    latestOffset  {"orders": {"0": 150, "1": 75}}     up to where the source has rows: 30 are left

Offsets that are whole numbers, in whatever they are nested, are counted: Kafka's are, by topic and partition, and those
of sources in Python that report a latest one. Files have no such offsets, and tell nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def rows_behind(progress: Mapping[str, Any] | None) -> int | None:
    """Of a query's report, as JSON; None where it does not tell."""
    found = [_of_source(source) for source in (progress or {}).get("sources", ())]
    known = [rows for rows in found if rows is not None]
    return sum(known) if known else None


def _of_source(source: Mapping[str, Any]) -> int | None:
    end, latest = (dict(_numbers(_parsed(source.get(name)))) for name in ("endOffset", "latestOffset"))
    if not latest:
        return None
    # A partition that is new has all of its rows still to come.
    return sum(max(0, reached - end.get(place, 0)) for place, reached in latest.items())


def _parsed(offset: object) -> object:
    """What Spark reports, which PySpark gives as a text of JSON."""
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return None  # a source's own words: they tell nothing


def _numbers(offset: object, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    if isinstance(offset, Mapping):
        for name, inner in offset.items():
            yield from _numbers(inner, (*place, str(name)))
    elif isinstance(offset, int) and not isinstance(offset, bool):
        yield place, offset
