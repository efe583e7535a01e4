"""Rows that are always put together before they are sent, however few they are."""

from __future__ import annotations

import pytest

from millstream.kernel.aggregation import change_points, combining


def combine_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combining, "LEAST", 0)
    monkeypatch.setattr(combining, "_LOOKED_AT", 0)
    monkeypatch.setattr(change_points, "_ROWS_PER_PANE", 0)
