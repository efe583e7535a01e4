"""The other half of the random cases, in a file of its own so that two cores share them."""

from __future__ import annotations

import pytest
from tests.text_oracle.seeds import BLOCK, check_seeds


@pytest.mark.parametrize("block", range(15, 30))
def test_answers_are_those_of_duckdb(block: int) -> None:
    check_seeds(range(block * BLOCK, (block + 1) * BLOCK))
