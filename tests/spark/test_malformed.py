"""What is said about lines that are no rows."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.spark.malformed import Grammar, as_text
from millstream.types import BIGINT, INT, STRING, Field

COLUMNS = (Field("k", INT), Field("v", STRING), Field("ts", BIGINT))
NOTHING = None, None, None


@pytest.mark.parametrize(
    ("format_", "options", "raw", "parsed", "reason"),
    [
        ("csv", {}, "1", NOTHING, "1 value, not 3"),
        ("csv", {}, "1,2,3,4", (1, "2", 3), "4 values, not 3"),
        ("csv", {"sep": "|"}, "x|y|3", (None, "y", 3), "column \"k\": 'x' is not INT"),
        ("csv", {"nullvalue": "-"}, "-,y,z", (None, "y", None), "column \"ts\": 'z' is not BIGINT"),
        ("csv", {"sep": "||"}, "1||2", NOTHING, "2 values, not 3"),
        ("json", {}, '{"k": 3, "v": "x"}', NOTHING, "cannot be read as json"),
        (
            "json",
            {},
            "{",
            NOTHING,
            "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        ("json", {}, "7", NOTHING, "not a JSON object"),
        ("json", {}, '{"k": {"a": 1}}', NOTHING, 'column "k": {"a": 1} is not INT'),
        ("json", {}, '{"k": 1.5, "ts": 3}', (None, None, 3), 'column "k": 1.5 is not INT'),
        ("json", {}, '{"other": 1}', NOTHING, "cannot be read as json"),
        ("json", {}, '{"k": "' + "x" * 200 + '"}', NOTHING, 'column "k": \'' + "x" * 79 + "... is not INT"),
    ],
)
def test_reasons(format_: str, options: dict[str, str], raw: str, parsed: tuple[Any, ...], reason: str) -> None:
    assert Grammar(format_, options).reason(raw, COLUMNS, parsed) == reason


def test_rows_without_a_text() -> None:
    assert as_text(COLUMNS, (1, "ü", None)) == '{"k": 1, "v": "ü", "ts": null}'
