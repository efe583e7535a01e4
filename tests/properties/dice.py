"""Choices of a random case, by Hypothesis or by a seed."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

Option = TypeVar("Option")


class Dice(ABC):
    @abstractmethod
    def pick(self, options: Sequence[Option]) -> Option: ...

    @abstractmethod
    def number(self, least: int, greatest: int) -> int: ...

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent

    def some(self, options: Sequence[Option], least: int, greatest: int) -> list[Option]:
        """Options with repetition."""
        return [self.pick(options) for _ in range(self.number(least, greatest))]


class HypothesisDice(Dice):
    """Every choice is a draw, so that failing cases shrink: to first options, least numbers, and chances not taken."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def pick(self, options: Sequence[Option]) -> Option:
        found: Option = options[0] if len(options) == 1 else self._draw(st.sampled_from(options))
        return found

    def number(self, least: int, greatest: int) -> int:
        found: int = self._draw(st.integers(least, greatest))
        return found


class SeededDice(Dice):
    """The same case for the same seed, and all choices evenly: Hypothesis repeats itself, and prefers what is small."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[Option]) -> Option:
        return self._random.choice(options)

    def number(self, least: int, greatest: int) -> int:
        return self._random.randint(least, greatest)
