"""Random queries as text against DuckDB: random settings, modes, batches, restarts and times of registration."""

from __future__ import annotations

import pytest
from tests.properties.dice import SeededDice
from tests.text_oracle.cases import CaseMaker
from tests.text_oracle.driver import Refused, check
from tests.text_oracle.kept import KEPT

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


@pytest.mark.parametrize("block", range(15))
def test_answers_are_those_of_duckdb(block: int) -> None:
    check_seeds(range(block * BLOCK, (block + 1) * BLOCK))


@pytest.mark.parametrize("seed", KEPT)
def test_what_once_failed(seed: int) -> None:
    check_seeds(range(seed, seed + 1))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(300))
def test_many_answers_are_those_of_duckdb(block: int) -> None:
    check_seeds(range(1000 + block * BLOCK, 1000 + (block + 1) * BLOCK))
