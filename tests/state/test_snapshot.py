"""A snapshot is edited by its own methods: each changes one thing, and leaves the one it was made from alone."""

from __future__ import annotations

import json
from dataclasses import replace

from millstream.state.snapshot import (
    HistoryFile,
    RunProgress,
    SinkCursor,
    Snapshot,
    SourceProgress,
    from_json,
    to_json,
)

FULL = Snapshot(
    epoch=3,
    clock=7,
    sources={"s": SourceProgress(heartbeat=7), "t": SourceProgress()},
    history={"s": (HistoryFile("h1", 2, 0, 5),), "t": ()},
    states={"join": {"0/left": ("a",)}, "group": {"0/rows": ("b",)}},
    results={"join": ("r1",), "group": ("r2",)},
    failures={"filter": {"primary": "no"}, "group#4": {"primary": "no"}},
    sinks={"out": SinkCursor(until=5)},
    queries={"group": 5},
    backfills=("late",),
    catalog=({"kind": "stream"},),
)


def test_history_and_results_are_appended() -> None:
    more = HistoryFile("h2", 1, 6, 6)
    found = FULL.with_history({"s": (more,), "t": ()}).with_results({"join": ("r3",), "new": ()})
    assert [file.name for file in found.history["s"]] == ["h1", "h2"]
    assert found.results == {"join": ("r1", "r3"), "group": ("r2",)}
    assert FULL.results["join"] == ("r1",)


def test_history_and_results_are_put_in_place_of_others() -> None:
    merged = HistoryFile("m", 2, 0, 5)
    found = FULL.with_history_of({"s": (merged,)}).with_results_of({"join": ("m1",)})
    assert found.history["s"] == (merged,)
    assert found.results == {"join": ("m1",), "group": ("r2",)}


def test_an_epoch_goes_on_and_the_clock_never_back() -> None:
    assert FULL.with_next_epoch(clock=4).clock == 7
    assert FULL.with_next_epoch(clock=9).clock == 9
    assert FULL.with_next_epoch().epoch == 4


def test_a_dropped_source_leaves_nothing() -> None:
    found = FULL.without_sources(["s"])
    assert "s" not in found.sources
    assert "s" not in found.history
    assert sorted(found.names()) == ["a", "b", "r1", "r2"]


def test_states_failures_and_sinks_come_and_go() -> None:
    found = FULL.with_states({"join": {"0/right": ("c",)}}).without_states(["group"])
    assert found.states == {"join": {"0/right": ("c",)}}
    assert FULL.with_failures({"join": {"primary": "x"}}).without_failures(["filter", "group#4"]).failures == {
        "join": {"primary": "x"}
    }
    assert FULL.with_sink("out", SinkCursor(until=6)).sinks["out"].until == 6
    assert FULL.without_sink("out").sinks == {}


def test_backfills_and_numbers_of_queries() -> None:
    assert FULL.with_backfills(["later"]).backfills == ("late", "later")
    assert FULL.with_backfills(["later"]).without_backfills({"late"}).backfills == ("later",)
    assert FULL.with_number_of_queries({"group": 6}).queries == {"group": 6}


def test_only_what_shown_edges_need_is_left() -> None:
    found = FULL.only(shown={"group"}, needed={"group"})
    assert found.states == {"group": {"0/rows": ("b",)}}
    assert found.results == {"group": ("r2",)}
    assert found.failures == {"group#4": {"primary": "no"}}  # of a query of the group
    assert found.queries == {"group": 5}
    assert found.backfills == ()
    assert found.history == FULL.history


def test_the_catalog_stays_where_nothing_is_declared() -> None:
    assert FULL.with_catalog(None) is FULL
    assert FULL.with_catalog(()).catalog == ()


RUN = RunProgress(
    ("a", "b"), {"s": 3}, {"s": 9}, {"s": 12}, 10, {"join": {"0/left": ("x",)}}, {"a": ("y",)}, {"q": ("z",)}
)


def test_how_far_runs_through_history_are() -> None:
    found = FULL.with_backfills(["a", "b"]).with_run(RUN)
    assert {"x", "y", "z"} <= {*found.names()}
    assert from_json(json.loads(json.dumps(to_json(found))), found.catalog) == found
    further = replace(RUN, edges=("b",), rows=20)
    assert found.with_run(further).runs == {"b": further}  # there is one for an edge
    assert found.without_runs(["c"]) is found
    assert not found.without_runs(["b"]).runs
    # It goes on for as long as somebody waits for it.
    once = found.without_edges(["a"], [])
    assert once.runs == {"a": RUN}
    assert not once.without_edges(["b"], []).runs
    assert found.only(["b"], []).runs == {"a": RUN}
    assert not found.only(["c"], []).runs
    group = replace(RUN, edges=("g",), queries=(1, 4))
    of_group = FULL.with_run(group)
    assert from_json(json.loads(json.dumps(to_json(of_group))), of_group.catalog) == of_group
    assert of_group.without_edges(["a"], []).runs == {"g": group}
    assert not of_group.without_edges(["g"], []).runs
