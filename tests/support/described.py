"""Random requests that the OpenAPI page of a service allows, and some that it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as some
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    *(status_code_conformance, content_type_conformance),
    *(response_headers_conformance, response_schema_conformance),
]


def operations(url: str) -> list[Any]:
    """All that the page describes."""
    found = [*schemathesis.openapi.from_url(f"{url}/openapi.json").get_all_operations()]
    described = [each.ok() for each in found if isinstance(each, Ok)]
    assert len(described) == len(found), found
    return described


def ask_at_random(url: str, examples: int, look: Callable[[Any], None] = lambda response: None, number: int = 0) -> int:
    """At most so many requests of each kind, others for each number; gives how many there were. Whoever looks at the
    answers may say what is wrong with them."""
    return sum(_ask_one(url, operation, examples, look, number) for operation in operations(url))


def _ask_one(url: str, operation: Any, examples: int, look: Callable[[Any], None], number: int) -> int:
    asked = 0

    @seed(number)
    @given(data=some.data())
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def ask(data: some.DataObject) -> None:
        nonlocal asked
        asked += 1
        case = data.draw(operation.as_strategy())
        parameters = case.path_parameters or {}
        if "name" in parameters and data.draw(some.booleans()):
            parameters["name"] = data.draw(some.sampled_from(["q", "s", "changed"]))  # what there is
        if case.path.endswith(("/follow", "/plan/events")):  # which go on for as long as somebody listens
            case.query = {**(case.query or {}), "timeout": 0.01}
        if case.path == "/v1/run" and isinstance(case.body, dict) and _is_number(case.body.get("until")):
            case.body["until"] = min(case.body["until"], 0.01)
        response = case.call(base_url=url)
        assert response.status_code < 500 or response.status_code == 503, (case.as_curl_command(), response.text)
        look(response)
        try:
            case.validate_response(response, checks=CHECKS)
        except FailureGroup as failure:
            raise AssertionError([str(each) for each in failure.exceptions]) from None

    ask()
    return asked


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
