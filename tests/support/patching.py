"""Functions of ours that a test looks at while they do what they always do."""

from __future__ import annotations

from typing import Any

import pytest


def count_calls(monkeypatch: pytest.MonkeyPatch, place: object, name: str) -> list[str]:
    """The function does what it did, and every call of it is noted."""
    calls: list[str] = []
    right = getattr(place, name)

    def counted(*arguments: Any, **more: Any) -> Any:
        calls.append(name)
        return right(*arguments, **more)

    monkeypatch.setattr(place, name, counted)
    return calls
