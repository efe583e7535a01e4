"""Settings for experiments choose what they say, and the default is none of it."""

from __future__ import annotations

import pytest

from millstream.kernel.just_in_time.detection import ALL
from millstream.kernel.just_in_time.gates import JustInTime
from millstream.kernel.storage.expiry_groups import ExpiryGrouped, Fifo
from millstream.kernel.storage.synopsis import Consolidated, Synopsis
from millstream.kernel.windows.time import Range
from millstream.plan import nodes as lo
from millstream.plan.lowering.variants import DETECTIONS, synopsis_by_pattern
from millstream.settings import Settings
from millstream.types import BIGINT, Field

SCAN = lo.StreamScan("s", (Field("k", BIGINT),), "s")
WINDOW = lo.Window(SCAN, Range(100))
OTHER = lo.Window(SCAN, Range(9))


def test_every_detection_that_can_be_set_is_there() -> None:
    fields = Settings.__dataclass_fields__
    assert {*fields["jit_detection"].metadata["choices"]} == {*DETECTIONS}
    assert DETECTIONS[Settings().jit_detection] is ALL is JustInTime().detection
    assert len({*DETECTIONS.values()}) == len(DETECTIONS)


@pytest.mark.parametrize(
    ("plan", "groups", "expected"),
    [
        (WINDOW, 0, Consolidated()),
        (WINDOW, 10, Fifo(100, 10, 5)),
        (lo.SetOperation("union all", WINDOW, OTHER), 10, ExpiryGrouped(100, 10, 5)),
        (lo.SetOperation("except all", WINDOW, OTHER), 10, Consolidated()),
    ],
    ids=["not set", "WKS", "WK", "STR"],
)
def test_expiry_groups_are_chosen_by_the_update_pattern(plan: lo.Node, groups: int, expected: Synopsis) -> None:
    assert synopsis_by_pattern(plan, groups, lazy_interval=5) == expected
