"""Stream-to-relation: which elements of a stream are in a window at an instant.

Every function answers that for one t, from the elements up to t, as section 6.1 of the CQL paper and DESIGN.md define
R(t). None of them says from when to when an element stays: that is the engine's way of putting it, and the two must
agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tests.oracle.errors import OracleError
from tests.oracle.inputs import Element


@dataclass(frozen=True)
class Bound:
    """One end of BEGIN .. END: `offset` ticks before the instant that is asked about, or a fixed instant."""

    now: bool
    ticks: int

    def at(self, t: int) -> int:
        return t - self.ticks if self.now else self.ticks


@dataclass(frozen=True)
class Window:
    """`size` None is UNBOUNDED; `partition` holds column positions."""

    kind: Literal["NOW", "RANGE", "TUMBLE", "HOP", "SESSION", "ROWS", "BEGIN"]
    size: int | None = None
    slide: int | None = None
    partition: tuple[int, ...] = ()
    begin: Bound | None = None
    end: Bound | None = None
    complete: bool = False  # of a SESSION: when it is over

    @property
    def step(self) -> int | None:
        """By how much a window of time slides."""
        return self.size if self.kind == "TUMBLE" else self.slide if self.kind in ("RANGE", "HOP") else None

    def bounds(self, t: int) -> tuple[int, int]:
        """window_start and window_end at t."""
        if self.kind == "SESSION":
            return -1, -1  # each has its own
        if self.size is None or self.step in (None, 1):
            raise OracleError("the window has no bounds")
        end = t // self.step * self.step
        return end - self.size, end

    @property
    def monotonic(self) -> bool:
        """What came into the window never leaves it."""
        if self.kind == "BEGIN":
            return self.begin is not None and not self.begin.now
        return self.kind in ("RANGE", "ROWS") and self.size is None


UNBOUNDED = Window("RANGE")


def contents(window: Window, elements: Sequence[Element], t: int, *, half_open: bool) -> list[Element]:
    """The window at t over elements in timestamp order (ties already broken), all of them with ts <= t."""
    match window.kind:
        case "NOW":
            return [e for e in elements if e.ts == t]
        case "RANGE" if half_open:
            return _range_half_open(elements, t, window.size, window.slide)
        case "RANGE":
            return _range_closed(elements, t, window.size, window.slide)
        case "TUMBLE":
            assert window.size is not None
            return _tumble(elements, t, window.size)
        case "HOP":
            assert window.size is not None
            assert window.slide is not None
            return _hop(elements, t, window.size, window.slide)
        case "SESSION":
            return [element for element, _, _ in sessions(window, elements, t, half_open=half_open)]
        case "ROWS":
            return _rows(elements, window.size, window.slide, window.partition)
        case "BEGIN":
            assert window.begin is not None
            assert window.end is not None
            return [e for e in elements if window.begin.at(t) <= e.ts <= window.end.at(t)]


def _range_closed(elements: Sequence[Element], t: int, size: int | None, slide: int | None) -> list[Element]:
    """The paper's definition, section 6.1.4; [RANGE T] is [RANGE T SLIDE 1]."""
    length = slide or 1
    if t < length - 1:
        return []
    newest = t // length * length
    oldest = 0 if size is None else max(newest - size, 0)
    return [e for e in elements if oldest <= e.ts <= newest]


def _range_half_open(elements: Sequence[Element], t: int, size: int | None, slide: int | None) -> list[Element]:
    """The last T ticks without the oldest one: an element at t - T has just left."""
    newest = t // (slide or 1) * (slide or 1)
    return [e for e in elements if e.ts <= newest and (size is None or newest - size < e.ts)]


def _tumble(elements: Sequence[Element], t: int, size: int) -> list[Element]:
    """The last whole window: those of [0, T), [T, 2T), ... partition the stream, and each is seen when it is over."""
    end = t // size * size
    return [e for e in elements if end - size <= e.ts < end]


def _hop(elements: Sequence[Element], t: int, size: int, slide: int) -> list[Element]:
    """The last of the windows [kL - T, kL) that is over."""
    end = t // slide * slide
    return [e for e in elements if end - size <= e.ts < end]


def sessions(window: Window, elements: Sequence[Element], t: int, *, half_open: bool) -> list[tuple[Element, int, int]]:
    """The elements u such that RANGE g of their partition is non-empty at every instant of [u, t]; or those of sessions
    that ended at an instant c, c <= t < c + g, at which it was empty again. With the first and the last instant of
    their session at t."""
    assert window.size is not None
    found = []
    for element in elements:
        key = [element.values[i] for i in window.partition]
        own = sorted(e.ts for e in elements if [e.values[i] for i in window.partition] == key)
        held = window.size + (0 if half_open else 1)
        before = [a for a, b in itertools.pairwise(own) if b <= element.ts and b - a > held]
        first = min(ts for ts in own if not before or ts > before[-1])
        last, over = first, first
        for ts in own:
            if first <= ts and (ts <= over or ts == first):
                last, over = ts, ts + held
        shown = over <= t < over + window.size if window.complete else element.ts <= t < over
        if shown:
            found.append((element, first, last))
    return found


def _rows(
    elements: Sequence[Element], size: int | None, slide: int | None, partition: tuple[int, ...]
) -> list[Element]:
    """The last N, in each partition; with a slide, the last N of the first floor(n / L) * L that came."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for position, element in enumerate(elements):
        groups.setdefault(tuple(element.values[i] for i in partition), []).append(position)
    visible: list[int] = []
    for group in groups.values():
        seen = group[: len(group) // slide * slide] if slide else group
        visible += seen if size is None else seen[max(len(seen) - size, 0) :]
    return [elements[position] for position in sorted(visible)]


def change_instants(window: Window, elements: Sequence[Element], upto: int) -> set[int]:
    """Instants among which are all those at which the window changes: generous, not exact.

    Only for time that is too long to visit every instant of it.
    """
    spans = [0, window.size or 0]
    spans += [bound.ticks for bound in (window.begin, window.end) if bound is not None and bound.now]
    step = window.step
    spans += [window.size + 1, 2 * window.size, 2 * window.size + 1] if window.kind == "SESSION" and window.size else []
    found = {0, (step or 1) - 1}
    for moment in {e.ts + span for e in elements for span in spans}:
        found |= {moment - 1, moment, moment + 1}
        if step:
            found |= {(moment // step + k) * step for k in range(-1, 4)}
    return {t for t in found if 0 <= t <= upto}
