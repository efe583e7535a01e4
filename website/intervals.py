"""Pictures of weighted intervals for docs/semantics.md, drawn from what queries really answer.

`python -m website.intervals` writes them to docs/drawings; a test compares. Dark lines on white read the same on light
and dark pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import millstream as ms

FOLDER = Path(__file__).parent.parent / "docs" / "drawings"
LAST = 16  # the last instant that is drawn
_LEFT, _TICK, _LANE, _PAD = 250, 34, 22, 14
_COLOURS = {"a": "#2f6db5", "b": "#b5532f", "c": "#2f8f5b", "d": "#7a4fb0"}
_OTHER = "#56616d"


@dataclass(frozen=True)
class Bar:
    """A row from one instant to before another; None is "no end"."""

    label: str
    start: int
    end: int | None
    weight: int = 1


@dataclass(frozen=True)
class Lane:
    """A heading, with the bars below it, or (for streams) the points."""

    title: str
    bars: tuple[Bar, ...] = ()
    points: tuple[tuple[str, int], ...] = ()


def drawn(lanes: Sequence[Lane]) -> str:
    """The lanes one below the other, over one axis of time."""
    parts, y = list[str](), _PAD
    for lane in lanes:
        rows = _packed(lane.bars)
        height = _LANE * max(1, len(rows))
        parts.append(_text(_PAD, y + 15, lane.title, "start", "#1c232b", mono=True))
        for place, row in enumerate(rows):
            parts += [_bar(bar, y + place * _LANE) for bar in row]
        parts += [_point(label, at, y) for label, at in lane.points]
        y += height + 12
        parts.append(f'<line x1="{_PAD}" y1="{y - 7}" x2="{_x(LAST) + _TICK}" y2="{y - 7}" stroke="#e3e7eb"/>')
    height, width = y + 26, _x(LAST) + _TICK + _PAD
    grid = "".join(_grid(tick, y) for tick in range(LAST + 1))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12"><rect width="{width}" height="{height}" rx="6" fill="white"/>'
        f"{grid}{''.join(parts)}</svg>\n"
    )


def _x(tick: int) -> int:
    return _LEFT + tick * _TICK


def _grid(tick: int, bottom: int) -> str:
    line = f'<line x1="{_x(tick)}" y1="6" x2="{_x(tick)}" y2="{bottom}" stroke="#eef1f4"/>'
    return line + _text(_x(tick), bottom + 15, str(tick), "middle", "#56616d")


def _text(x: float, y: float, text: str, anchor: str, colour: str, mono: bool = False) -> str:
    family = ' font-family="monospace"' if mono else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}"{family}>{escape(text)}</text>'


def _colour(label: str) -> str:
    return _COLOURS.get(label[:1], _OTHER)


def _bar(bar: Bar, y: int) -> str:
    end = LAST + 1 if bar.end is None else min(bar.end, LAST + 1)
    colour, width = _colour(bar.label), (end - bar.start) * _TICK - 3
    fill = "white" if bar.weight < 0 else colour
    dashes = ' stroke-dasharray="4 3"' if bar.weight < 0 else ""
    label = bar.label if bar.weight == 1 else f"{bar.label}  {bar.weight:+d}"
    shape = f'<rect x="{_x(bar.start) + 1}" y="{y + 2}" width="{width}" height="{_LANE - 5}" rx="3" fill="{fill}"'
    arrow = "" if bar.end is not None else _text(_x(end) + 2, y + 15, "→", "start", colour)
    colours = f' stroke="{colour}"{dashes}/>'
    return (
        shape
        + colours
        + _text(_x(bar.start) + 7, y + 15, label, "start", colour if bar.weight < 0 else "white")
        + arrow
    )


def _point(label: str, at: int, y: int) -> str:
    colour = _colour(label)
    mark = f'<circle cx="{_x(at) + 4}" cy="{y + 11}" r="4" fill="{colour}"/>'
    return mark + _text(_x(at) + 11, y + 15, label, "start", colour)


def _packed(bars: Sequence[Bar]) -> list[list[Bar]]:
    """The bars in as few rows as there must be, without one over another."""
    rows: list[list[Bar]] = []
    for bar in bars:
        free = next((row for row in rows if (end := row[-1].end) is not None and end <= bar.start), None)
        if free is None:
            rows.append([bar])
        else:
            free.append(bar)
    return rows


# What is drawn

ELEMENTS = (("a", 1), ("b", 3), ("c", 4), ("d", 9))
_DECLARED = "CREATE STREAM S (v STRING) TIMESTAMP BY ts"


def _database() -> ms.Database:
    db = ms.connect(engine="inprocess")
    db.execute(_DECLARED)
    db.insert("S", [*ELEMENTS])
    db.advance(to=3 * LAST)
    return db


def bars_of(query: ms.Query, label: Callable[[dict[str, Any]], str]) -> tuple[Bar, ...]:
    """The runs of rows of a relation, from its changes."""
    opened: dict[str, list[int]] = {}
    found: list[Bar] = []
    for change in query.changes().to_pylist():
        name = label(change)
        if change["_weight"] > 0:
            opened.setdefault(name, []).append(change["_ts"])
        else:
            found.append(Bar(name, opened[name].pop(0), change["_ts"]))
    found += [Bar(name, start, None) for name, starts in opened.items() for start in starts]
    return tuple(sorted((bar for bar in found if bar.start <= LAST), key=lambda bar: (bar.start, bar.label)))


def _elements(name: str = "S", elements: Sequence[tuple[str, int]] = ELEMENTS) -> Lane:
    return Lane(f"the stream {name}", points=tuple(elements))


def _windows(texts: Sequence[str]) -> str:
    with _database() as db:
        lanes = [
            Lane(text, bars_of(db.register(f"SELECT v FROM S {text}"), lambda row: str(row["v"]))) for text in texts
        ]
    return drawn([_elements(), *lanes])


def windows_of_time() -> str:
    return _windows(("[NOW]", "[RANGE 4]", "[RANGE 4 SLIDE 4]", "[TUMBLE 4]", "[HOP 8 SLIDE 4]", "[RANGE UNBOUNDED]"))


def windows_of_rows() -> str:
    return _windows(("[ROWS 1]", "[ROWS 2]", "[ROWS 2 SLIDE 2]", "[SESSION 2]", "[SESSION 2 COMPLETE]"))


def negative_rows() -> str:
    """A window of two rows as it is kept: what leaves is taken back by a row of weight -1."""
    times = [at for _, at in ELEMENTS]
    kept = [Bar(label, at, None) for label, at in ELEMENTS]
    taken = [Bar(label, times[n + 2], None, -1) for n, (label, _) in enumerate(ELEMENTS) if n + 2 < len(times)]
    with _database() as db:
        sum_of = bars_of(db.register("SELECT v FROM S [ROWS 2]"), lambda row: str(row["v"]))
    return drawn([_elements(), Lane("[ROWS 2] as it is kept", (*kept, *taken)), Lane("their sum", sum_of)])


def a_join() -> str:
    """The product of two relations: intervals are intersected, weights multiplied."""
    right = (("c", 2), ("d", 5))
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM L (v STRING) TIMESTAMP BY ts; CREATE STREAM R (w STRING) TIMESTAMP BY ts")
        db.insert("L", [("a", 1), ("b", 6)])
        db.insert("R", [*right])
        db.advance(to=3 * LAST)
        left = bars_of(db.register("SELECT v FROM L [RANGE 5]"), lambda row: str(row["v"]))
        other = bars_of(db.register("SELECT w FROM R [RANGE 3]"), lambda row: str(row["w"]))
        joined = db.register("SELECT v, w FROM L [RANGE 5], R [RANGE 3]")
        pairs = bars_of(joined, lambda row: f"{row['v']}{row['w']}")
    return drawn([Lane("L [RANGE 5]", left), Lane("R [RANGE 3]", other), Lane("L [RANGE 5], R [RANGE 3]", pairs)])


def a_count() -> str:
    """An aggregate changes where rows of its input come and go."""
    with _database() as db:
        rows = bars_of(db.register("SELECT v FROM S [RANGE 4]"), lambda row: str(row["v"]))
        counts = bars_of(db.register("SELECT count(*) AS n FROM S [RANGE 4]"), lambda row: str(row["n"]))
    return drawn([_elements(), Lane("S [RANGE 4]", rows), Lane("count(*)", counts)])


def streams_of_a_relation() -> str:
    """ISTREAM and DSTREAM of a relation, in which a row comes back at the instant at which it leaves."""
    elements = (("a", 1), ("b", 3), ("a", 6))
    with ms.connect(engine="inprocess") as db:
        db.execute(_DECLARED)
        db.insert("S", [*elements])
        db.advance(to=3 * LAST)
        rows = bars_of(db.register("SELECT v FROM S [RANGE 4]"), lambda row: str(row["v"]))
        found = {name: db.register(f"SELECT {name}(v) FROM S [RANGE 4]").result() for name in ("ISTREAM", "DSTREAM")}
        lanes = [
            Lane(f"{name}(v)", points=tuple((row["v"], row["_ts"]) for row in table.to_pylist()))
            for name, table in found.items()
        ]
    return drawn([_elements(elements=elements), Lane("S [RANGE 4]", rows), *lanes])


DRAWINGS: Mapping[str, Callable[[], str]] = {
    "windows_of_time.svg": windows_of_time,
    "windows_of_rows.svg": windows_of_rows,
    "negative_rows.svg": negative_rows,
    "a_join.svg": a_join,
    "a_count.svg": a_count,
    "streams_of_a_relation.svg": streams_of_a_relation,
}


def written() -> Iterator[Path]:
    for name, draw in DRAWINGS.items():
        (FOLDER / name).write_text(draw())
        yield FOLDER / name


if __name__ == "__main__":
    for path in written():
        print(path)  # noqa: T201
