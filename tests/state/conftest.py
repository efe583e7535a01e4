"""Fixtures of the tests that kill the engine."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.state.crashes import answers, feed


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    path = tmp_path_factory.mktemp("undisturbed") / "db"
    assert feed(path) == 0
    return answers(path)
