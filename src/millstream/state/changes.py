"""What a commit changes of the snapshot before it, as JSON: most commits change little of a large snapshot.

Of a section (`SECTIONS`) those keys are said whose values are other objects, and those that are gone. Of a tuple that
has only become longer, what was added to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from millstream.state.snapshot import SECTIONS, SINGLE, Snapshot, section_from_json

_GONE, _MORE = "-", "+"  # behind the name of a section: keys that are gone, and what is added to values
_GROWING = ("history", "results", "inserts")


def change(before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """But for the catalog, which is kept apart."""
    said: dict[str, Any] = {name: getattr(after, name) for name in SINGLE}
    for name, plain in SECTIONS.items():
        old, new = getattr(before, name), getattr(after, name)
        if old is not new:
            _say_section(said, name, old, new, plain)
    return said


def _say_section(
    said: dict[str, Any], name: str, old: Mapping[str, Any], new: Mapping[str, Any], plain: Callable[[Any], object]
) -> None:
    whole, more = dict[str, object](), dict[str, object]()
    for key, value in new.items():
        known = old.get(key)
        if known is value:
            continue
        if name in _GROWING and known and known == value[: len(known)]:
            if len(value) > len(known):
                more[key] = plain(value[len(known) :])
        else:
            whole[key] = plain(value)
    gone = [key for key in old if key not in new]
    for sign, found in (("", whole), (_MORE, more), (_GONE, gone)):
        if found:
            said[f"{name}{sign}"] = found


def changed(before: Snapshot, said: Mapping[str, Any]) -> Snapshot:
    """The snapshot that a change was made to."""
    found: dict[str, Any] = {name: said[name] for name in SINGLE}
    for name in SECTIONS:
        whole, more, gone = (said.get(f"{name}{sign}") for sign in ("", _MORE, _GONE))
        if whole or more or gone:
            old = getattr(before, name)
            added = section_from_json(name, more or {})
            found[name] = {
                **{key: value for key, value in old.items() if key not in (gone or ())},
                **section_from_json(name, whole or {}),
                **{key: old[key] + values for key, values in added.items()},
            }
    return replace(before, **{**found, "backfills": tuple(found["backfills"])})
