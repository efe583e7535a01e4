"""Whatever a row does to those who look at it, it alone is malformed."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from millstream.spark import landing
from millstream.spark.landing import Landing
from millstream.state.store import MemoryStore
from millstream.types import BIGINT, STRING, Field

LANDING = Landing(MemoryStore(), (Field("v", STRING), Field("ts", BIGINT)), 1)


def pieces(values: list[bytes | None], stamps: list[int | None]) -> tuple[list[object], list[tuple[str, str]]]:
    batch = pa.RecordBatch.from_arrays([pa.array(values).view(pa.string()), pa.array(stamps)], names=["c0", "c1"])
    good: list[object] = []
    malformed: list[tuple[str, str]] = []
    with LANDING.store.file("landing") as writer:
        for piece in landing._pieces(LANDING, iter([batch]), 0, writer):
            frame = LANDING.store.read(piece.name)
            (malformed if piece.malformed else good).extend(frame.rows() if piece.malformed else frame["v"])
    return good, malformed


def test_texts_are_looked_at_first() -> None:
    good, malformed = pieces([b"a", b"x" * 50 + b"\xff" + b"y" * 50, None, b"\xc3\xa9"], [1, 2, 3, None])
    assert good == ["a", None]
    shown = f'column "v" is not UTF-8: ...{"x" * 20}\\xff{"y" * 19}...'
    assert [reason for _, reason in malformed] == [shown, 'timestamp "ts" is NULL']


@pytest.mark.parametrize("kind", [ValueError, pl.exceptions.PanicException])
def test_a_row_that_nobody_can_look_at(monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]) -> None:
    judged = landing._judged

    def fragile(given: Landing, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        if "bad" in rows["c0"].to_list():
            raise kind("no such thing")
        return judged(given, rows)

    monkeypatch.setattr(landing, "_judged", fragile)
    good, malformed = pieces([b"a", b"bad", b"b", b"c", b"bad"], [1, 2, 3, 4, 5])
    assert good == ["a", "b", "c"]
    assert malformed[0] == ('{"v": "bad", "ts": "2"}', f"{kind.__name__}: no such thing")
    assert len(malformed) == 2


def test_what_the_machine_does_is_not_the_rows_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(landing, "_judged", full)
    with pytest.raises(OSError, match="No space"):
        pieces([b"a", b"b"], [1, 2])
