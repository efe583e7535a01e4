"""What a rule must not do to a plan is found right after it."""

from __future__ import annotations

import pytest

from millstream.kernel.scalar.expressions import Column
from millstream.kernel.windows.time import Range, Rows, Unbounded
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.verify import Verifier
from millstream.types import BIGINT, STRING, Field

A, B = Column(BIGINT, 0, "a"), Column(STRING, 1, "b")
STREAM = lo.StreamScan("s", (Field("a", BIGINT), Field("b", STRING)), "S")
WINDOW = lo.Window(STREAM, Range(5))
PLAN = lo.Project(WINDOW, (A,), ("a",))
PAIR = lo.Project(WINDOW, (A, A), ("a", "a"))


def over(window: lo.Node, *columns: Column) -> lo.Node:
    return lo.Project(window, columns, tuple(column.name for column in columns))


def join(**more: object) -> lo.Node:
    parts = {"inputs": (PLAN, PLAN), "shape": (0, 1), **more}
    return over(ph.JoinTree(**parts), A)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (lo.RelationToStream(PLAN, "rstream"), "rule wrong made a stream of a relation"),
        (over(WINDOW, B), "made columns of types"),
        (over(WINDOW, A, A), "made columns of types"),
        (over(lo.Window(STREAM, Rows(5)), A), "made STR of WKS"),
        (over(WINDOW, Column(BIGINT, 1, "b")), "b reads b as BIGINT, which is STRING"),
        (over(lo.Window(STREAM, Rows(5, partition=(2,))), A), "partitioned by columns"),
        (lo.Join(PLAN, over(WINDOW, Column(BIGINT, 1, "b")), "semi"), "b reads b as BIGINT, which is STRING"),
        (join(shape=(0, 0)), "a tree of 2 inputs has the shape"),
        (join(consumers=(ph.Consumer(PAIR, (A,)),)), "a consumer with keys"),
        (join(consumers=(ph.Consumer(PLAN, (Column(BIGINT, 7, "z"),)),)), "z reads column 7 of 2"),
    ],
)
def test_mistakes_are_found(after: lo.Node, message: str) -> None:
    # Rows that may leave at any instant, unless the pattern is what is looked at.
    before = PLAN if "STR of" in message else over(lo.Window(STREAM, Rows(9)), A)
    with pytest.raises(AssertionError, match=message):
        Verifier(before).check("wrong", after)


def test_what_was_monotonic_stays_so() -> None:
    grows = over(lo.Window(STREAM, Unbounded()), A)
    with pytest.raises(AssertionError, match="made WKS of MONO"):
        Verifier(grows).check("wrong", PLAN)
    Verifier(PLAN).check("better", grows)


def test_errors_beside_a_plan_are_no_matter_of_its_rows() -> None:
    Verifier(PLAN).check("place_failures", lo.Checked(PLAN, (lo.Failing(PLAN, (A,)),)))


def test_names_are_for_display_only() -> None:
    Verifier(PLAN).check("merge_projections", lo.Project(WINDOW, (A,), ("z",)))
