"""Each test with a database here, with the same one over HTTP, and with that for who awaits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.awaiting import blocking
from tests.support.serving import served

import millstream as ms


@pytest.fixture(params=["local", "remote", "awaited"])
def db(request: pytest.FixtureRequest) -> Iterator[Any]:
    with ms.connect(engine="inprocess") as local:
        if request.param == "local":
            yield local
            return
        with served(local) as url, ms.connect(url) if request.param == "remote" else blocking(url) as remote:
            yield remote
