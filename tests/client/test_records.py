"""Python values on their way to a service: each as the wire has it, or refused with the row it stands in."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream.client.records import json_rows


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (None, None),
        (True, True),
        (2**53, str(2**53)),
        (float("nan"), "NaN"),
        (Decimal("12.50"), "12.50"),
        (b"\x00\xff", "AP8="),
        (date(2026, 1, 31), "2026-01-31"),
        (datetime(2026, 1, 31, 10, tzinfo=UTC), "2026-01-31T10:00:00.000000Z"),
        (datetime(2026, 1, 31, 10), "2026-01-31T10:00:00"),
        (timedelta(seconds=-1), -1_000_000),
        (np.int32(7), 7),
        (np.float64(1.5), 1.5),
        (np.bool_(True), True),
    ],
)
def test_values(value: Any, sent: Any) -> None:
    assert json.loads(json_rows("s", [(value,)])) == [[sent]]
    assert json.loads(json_rows("s", [{"a": value}])) == [{"a": sent}]


def test_rows_may_come_from_anything_that_gives_them() -> None:
    assert json.loads(json_rows("s", ((number, number) for number in range(2)))) == [[0, 0], [1, 1]]
    assert json.loads(json_rows("s", [])) == []


@pytest.mark.parametrize("rows", ["rows", b"rows", {"a": 1}, 7, None])
def test_what_are_no_rows(rows: Any) -> None:
    with pytest.raises(ms.InputError, match="s: rows are given as a list"):
        json_rows("s", rows)


@pytest.mark.parametrize(("row", "said"), [("ab", "row 2 is a str"), ({1}, "row 2 is a set"), (({},), "row 2 has a")])
def test_the_row_is_named(row: Any, said: str) -> None:
    with pytest.raises(ms.InputError, match=said):
        json_rows("s", [(1,), row])
