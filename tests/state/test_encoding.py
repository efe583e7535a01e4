"""What is encoded with what was kept of the texts before says the same as all of it encoded anew."""

from __future__ import annotations

import json

from millstream.state.encoding import Encoding
from millstream.state.snapshot import HistoryFile, QueryTable, Snapshot, SourceProgress, from_json, to_json


def snapshots() -> list[Snapshot]:
    first = Snapshot().with_progress({"s": SourceProgress(4)}).with_states({"a": {"0/x": ("n1",)}, "b": {}})
    more = first.with_next_epoch(7).with_states({"a": {"0/x": ("n1", "n2")}}).with_results({"a": ("r",)})
    files = more.with_history({"s": (HistoryFile("f", 3, 0, 4),)}).with_query_tables({"b": QueryTable(("t",), ("w",))})
    fewer = files.without_states(["a"]).with_failures({'"b" \n': {"error": "é"}}).with_backfills(["e"])
    return [first, first, more, files, fewer, first]


def test_each_snapshot_is_encoded_as_it_is() -> None:
    encoding = Encoding()
    for snapshot in snapshots():
        found = json.loads(encoding.snapshot(snapshot))
        assert found == json.loads(json.dumps(to_json(snapshot)))
        assert from_json(found, ()) == snapshot


def test_each_catalog_is_encoded_as_it_is() -> None:
    encoding, (a, b, c) = Encoding(), ({"name": "a"}, {"name": "b"}, {"name": "a"})
    for catalog in ((), (a,), (a, b), (b,), (b, c, a), (a, a)):
        assert json.loads(encoding.catalog(catalog)) == [*catalog]


def test_what_stays_is_not_encoded_again() -> None:
    encoding, first = Encoding(), snapshots()[0]
    encoding.snapshot(first)
    before = encoding._parts["states"]
    encoding.snapshot(first.with_states({"b": {"1/y": ("n",)}}))
    assert encoding._parts["states"]["a"] is before["a"]
    assert encoding._parts["states"]["b"] is not before["b"]
