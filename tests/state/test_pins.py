"""Pins: what somebody reads stays until the last reader has let it go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream.state.pins import Pins
from millstream.state.snapshot import Snapshot


def test_a_reader_holds_one_set_of_names_at_a_time() -> None:
    pins = Pins()
    assert pins.pin("one", ["a", "b"]) == frozenset()
    pins.pin("other", ["b", "c"])
    assert pins.names == {"a", "b", "c"}
    assert pins.pin("one", ["b"]) == {"a", "b"}
    assert pins.names == {"b", "c"}


def test_what_was_let_go_is_told_once() -> None:
    pins = Pins()
    pins.pin("one", ["a", "b"])
    pins.pin("other", ["b"])
    pins.unpin("one")
    pins.unpin("nobody")
    assert pins.names == {"b"}  # for the other reader, whoever removes files asks first
    assert pins.taken_over() == {"a", "b"}
    assert pins.taken_over() == set()


def test_a_snapshot_that_was_replaced_meanwhile_is_not_the_one_to_read() -> None:
    """A commit in between may have removed what was about to be held."""
    pins, old, new = Pins(), Snapshot(results={"e": ("old",)}), Snapshot(results={"e": ("new",)})
    seen: Iterator[Snapshot] = iter([old, new, new, new])
    with pins.reading(lambda: next(seen), lambda snapshot: snapshot.names()) as found:
        assert found is new
        assert pins.names == {"new"}
    assert pins.names == set()
    assert pins.taken_over() == {"new"}


def test_a_reader_that_fails_lets_go() -> None:
    pins, snapshot = Pins(), Snapshot(results={"e": ("a",)})

    def read() -> None:
        with pins.reading(lambda: snapshot, lambda found: found.names()):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read()
    assert (pins.names, pins.taken_over()) == (set(), {"a"})
