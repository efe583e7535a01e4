"""A fixture for tests that a database passes here and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.serving import served

import millstream as ms


@pytest.fixture(params=["local", "remote"])
def db(request: pytest.FixtureRequest) -> Iterator[Any]:
    with ms.connect(engine="inprocess") as local:
        if request.param == "local":
            yield local
            return
        with served(local) as url, ms.connect(url) as remote:
            yield remote
