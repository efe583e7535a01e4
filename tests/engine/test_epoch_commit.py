"""What an epoch commits follows from the snapshot before it and from what its task made."""

from __future__ import annotations

from millstream.engine.epochs.commit import after_epoch
from millstream.engine.epochs.merging import ResultMerge
from millstream.engine.epochs.parts import late_key
from millstream.engine.epochs.task import EpochOutcome
from millstream.state.snapshot import HistoryFile, QueryTable, Snapshot, SourceProgress

BEFORE = Snapshot(
    sources={"s": SourceProgress(arrived=5)},
    states={"window": {"0/rows": ("w1",)}, "idle": {"0/rows": ("i1",)}},
    query_tables={"selection": QueryTable(admitted=("q0",), waiting=("q1",))},
    results={"window": ("r1", "r2")},
)


def test_concerned_steps_hold_what_was_made_and_others_what_they_held() -> None:
    made = EpochOutcome(states={"window": {"0/rows": ("w2",)}}, results={"window": ("r3",)})
    found = after_epoch(BEFORE, made, {"window"}, {})
    assert found.states["window"] == {"0/rows": ("w2",)}
    assert found.states["idle"] == {"0/rows": ("i1",)}
    assert found.results == {"window": ("r1", "r2", "r3")}


def test_a_concerned_step_that_made_nothing_holds_nothing() -> None:
    assert "window" not in after_epoch(BEFORE, EpochOutcome(), {"window"}, {}).states


def test_queries_stay_in_their_tables() -> None:
    made = EpochOutcome(states={"selection": {"0/eddy": ("e1",)}})
    found = after_epoch(BEFORE, made, {"selection"}, {})
    assert found.states["selection"] == {"0/eddy": ("e1",)}
    assert found.query_tables == BEFORE.query_tables


def test_of_failed_steps_only_the_error_is_kept() -> None:
    made = EpochOutcome(states={"window": {"0/rows": ("w2",)}}, results={"window": ("r3",)})
    found = after_epoch(BEFORE, made, {"window"}, {"window": {"primary": "division by zero"}})
    assert "window" not in found.states
    assert found.results == {"window": ("r1", "r2")}
    assert found.failures == {"window": {"primary": "division by zero"}}


def test_late_and_shed_elements_are_counted() -> None:
    late = late_key("s")
    made = EpochOutcome(late={"s": 2}, shed={"s": 1}, history={late: (HistoryFile("l", 2, 8, 8),)})
    found = after_epoch(BEFORE, made, (), {})
    assert (found.progress("s").late, found.progress("s").shed, found.progress("s").arrived) == (2, 1, 5)
    assert found.progress(late).last_change == 8


def test_merged_results_are_in_place_of_those_they_were_made_of() -> None:
    merge = ResultMerge("window", ("r1", "r2"), 0, None, made=("m",))
    found = after_epoch(BEFORE, EpochOutcome(results={"window": ("r3",)}, merged=(merge,)), (), {})
    assert found.results == {"window": ("m", "r3")}
