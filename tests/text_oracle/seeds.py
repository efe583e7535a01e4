"""Blocks of random cases by their seeds."""

from __future__ import annotations

from tests.properties.dice import SeededDice
from tests.text_oracle.cases import CaseMaker
from tests.text_oracle.driver import Refused, check

BLOCK = 10


def check_seeds(seeds: range) -> None:
    """Few of them may be refused: those of the strategy `direct`, and what DESIGN leaves to users."""
    refused = 0
    for seed in seeds:
        try:
            check(CaseMaker(SeededDice(seed)).case())
        except Refused:
            refused += 1
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert refused <= max(len(seeds) * 0.6, 1)
