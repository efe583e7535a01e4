"""Names on disk do not follow the names of classes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from millstream.kernel.operator import Operator
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.fingerprint import fingerprint
from millstream.plan.tags import STEP_TAGS, TAGS
from millstream.types import BIGINT, Field

ABSTRACT = {lo.Unary, ph.ManyJoin}
NAMED_OTHERWISE = {"Failures", "Checked"}  # their steps are named by the queries that they serve


def _all_below(kind: type[Any]) -> set[type[Any]]:
    return {found for below in type.__subclasses__(kind) for found in (below, *_all_below(below))}


def test_every_node_has_a_tag() -> None:
    nodes = _all_below(lo.Node) - ABSTRACT
    assert nodes <= set(TAGS)


def test_every_operator_that_a_step_is_named_by_has_a_tag() -> None:
    leaves = {
        kind for kind in _all_below(Operator) if not kind.__subclasses__() and kind.__module__.startswith("millstream")
    }
    assert {kind.__name__ for kind in leaves - set(STEP_TAGS)} <= NAMED_OTHERWISE


def test_a_renamed_class_keeps_the_fingerprints_of_its_plans() -> None:
    plan = lo.Distinct(lo.TableScan("t", (Field("a", BIGINT),), "T"))
    before, name = fingerprint(plan), lo.Distinct.__name__
    try:
        lo.Distinct.__name__ = "DuplicateElimination"
        assert fingerprint(plan) == before
    finally:
        lo.Distinct.__name__ = name


def test_a_class_without_a_tag_is_not_written() -> None:
    @dataclasses.dataclass(frozen=True)
    class Unknown:
        value: int

    with pytest.raises(KeyError):
        fingerprint(Unknown(1))
