"""Whatever the OpenAPI page allows, and some of what it does not: the service never fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.described import ask_at_random
from tests.support.serving import served

import millstream as ms
from millstream.service.limits import ServiceLimits

SETUP = """
CREATE STREAM s (k INT, v STRING) TIMESTAMP BY ts;
CREATE TABLE changed (k INT) CHANGES BY op TIMESTAMP BY ts;
REGISTER QUERY q AS SELECT k, v FROM s [RANGE 10];
INSERT INTO s VALUES (1, 'a', 1), (2, NULL, 2);
ADVANCE TO 5
"""
pytestmark = pytest.mark.filterwarnings("ignore")  # of schemathesis and what it uses


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("here"))  # where backups that random requests ask for go
    with ms.connect(engine="inprocess") as db:
        db.execute(SETUP)
        with served(db, limits=ServiceLimits(requests_per_second=0)) as url:
            yield url
    os.chdir(before)


def test_what_the_page_allows(url: str) -> None:
    ask_at_random(url, 3)
