"""Choices of a random case. All of them are Hypothesis draws, so that failing cases shrink: the first option is the
simplest, and chances shrink to no."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

Option = TypeVar("Option")


class Dice:
    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def pick(self, options: Sequence[Option]) -> Option:
        found: Option = options[0] if len(options) == 1 else self._draw(st.sampled_from(options))
        return found

    def number(self, least: int, greatest: int) -> int:
        found: int = self._draw(st.integers(least, greatest))
        return found

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent

    def some(self, options: Sequence[Option], least: int, greatest: int) -> list[Option]:
        """Options with repetition."""
        return [self.pick(options) for _ in range(self.number(least, greatest))]
