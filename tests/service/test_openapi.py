"""Whatever the OpenAPI page allows, and some of what it does not: the service never fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
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
CHECKS = [
    *(status_code_conformance, content_type_conformance),
    *(response_headers_conformance, response_schema_conformance),
]
pytestmark = pytest.mark.filterwarnings("ignore")  # of schemathesis and what it uses


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ms.connect(engine="inprocess") as db:
        db.execute(SETUP)
        with served(db, limits=ServiceLimits(requests_per_second=0)) as url:
            yield url


def _ask(url: str, examples: int) -> None:
    for found in schemathesis.openapi.from_url(f"{url}/openapi.json").get_all_operations():
        assert isinstance(found, Ok), found
        _ask_one(url, found.ok(), examples)


def _ask_one(url: str, operation: Any, examples: int) -> None:
    @given(data=some.data())
    @settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=True
    )
    def ask(data: some.DataObject) -> None:
        case = data.draw(operation.as_strategy())
        parameters = case.path_parameters or {}
        if "name" in parameters and data.draw(some.booleans()):
            parameters["name"] = data.draw(some.sampled_from(["q", "s", "changed"]))  # what there is
        if case.path.endswith("/follow"):
            case.query = {**(case.query or {}), "timeout": 0.01}
        if case.path == "/v1/run" and isinstance(case.body, dict) and _is_number(case.body.get("until")):
            case.body["until"] = min(case.body["until"], 0.01)
        response = case.call(base_url=url)
        assert response.status_code < 500, (case.as_curl_command(), response.text)
        try:
            case.validate_response(response, checks=CHECKS)
        except FailureGroup as failure:
            raise AssertionError([str(each) for each in failure.exceptions]) from None

    ask()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def test_what_the_page_allows(url: str) -> None:
    _ask(url, 3)


@pytest.mark.slow
def test_very_much_of_it(url: str) -> None:
    _ask(url, 500)
