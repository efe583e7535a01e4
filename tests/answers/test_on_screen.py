"""Columns are straight, whatever is in them: by the places that a terminal gives to each text."""

from __future__ import annotations

import io
import re

import pyarrow as pa
import pytest
from prompt_toolkit.utils import get_cwidth

from millstream.answers.aligned import aligned
from millstream.answers.on_screen import write_table

TEXTS = ["東京", "ascii", "e\u0301te\u0301", "\U0001f680", "\U0001f469\u200d\U0001f680", "ｆｕｌｌ", "한국어", None]
# As terminals place them: two places for what is wide, none for accents, two for what is joined to one emoji.
PLACES = [4, 5, 3, 2, 2, 8, 6, 4]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def table() -> pa.Table:
    return pa.table({"名前": TEXTS, "n": [10**place for place in range(len(TEXTS))]})


def test_plain_text_is_aligned(table: pa.Table) -> None:
    header, rule, *lines, count = aligned(table).split("\n")
    bar = rule.index("+")
    assert (bar, count) == (9, "(8 rows)")
    assert header == f"名前{' ' * 5}| n"
    for line, text, places, number in zip(lines, TEXTS, PLACES, table["n"].to_pylist(), strict=True):
        assert line == f"{text or 'NULL'}{' ' * (8 - places)} | {number:>8}"


def test_what_would_move_the_cursor_is_escaped() -> None:
    shown = aligned(pa.table({"a": ["\x1b[2J", "\u202etxt", "a\tb\n"]}))
    assert shown.split("\n")[2:5] == [r"\x1b[2J", r"\u202etxt", r"a\tb\n"]


def test_on_a_terminal_it_is_as_wide_as_that(table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    write_table(out, pa.table({"名前": TEXTS[:4], "long": ["word " * 12] * 4, "[bold]": [1, 2, 3, 4]}))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()
    assert max(map(get_cwidth, lines)) <= 30
    assert lines[-1] == "(4 rows)"
    assert out.getvalue().count("word") == 48  # nothing is cut
    assert "東京" in out.getvalue()
    assert "[bol" in out.getvalue()  # a name is no markup
    plain = io.StringIO()
    write_table(plain, table)
    assert plain.getvalue() == f"{aligned(table)}\n"
