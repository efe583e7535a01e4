"""Random queries as text against DuckDB: random settings, modes, batches, restarts and times of registration."""

from __future__ import annotations

import pytest
from tests.text_oracle.kept import KEPT
from tests.text_oracle.seeds import BLOCK, check_seeds


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
