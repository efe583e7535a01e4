"""What is set for the whole process while a text is read comes back, whoever leaves last."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from threading import Barrier, Thread

import pytest

from millstream.language.nesting import room_to_nest, without_collecting


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    limit, collecting = sys.getrecursionlimit(), gc.isenabled()
    yield
    sys.setrecursionlimit(limit)
    (gc.enable if collecting else gc.disable)()


def test_the_last_of_several_threads_puts_back_what_was() -> None:
    before = sys.getrecursionlimit()
    entered, one_left = Barrier(2), Barrier(2)
    seen: list[tuple[int, bool]] = []

    def first() -> None:
        with room_to_nest(), without_collecting():
            entered.wait(60)
        one_left.wait(60)

    def second() -> None:
        with room_to_nest(), without_collecting():
            entered.wait(60)
            one_left.wait(60)
            seen.append((sys.getrecursionlimit(), gc.isenabled()))

    threads = [Thread(target=first), Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == [(8_000, False)]
    assert (sys.getrecursionlimit(), gc.isenabled()) == (before, True)


def test_many_threads_that_come_and_go() -> None:
    before = sys.getrecursionlimit()
    least = []

    def work() -> None:
        for _ in range(200):
            with room_to_nest():
                least.append(sys.getrecursionlimit())

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert min(least) == 8_000
    assert sys.getrecursionlimit() == before


def test_what_others_have_set_stays() -> None:
    with room_to_nest():
        sys.setrecursionlimit(9_000)
    assert sys.getrecursionlimit() == 9_000
    with room_to_nest():
        assert sys.getrecursionlimit() == 9_000
    assert sys.getrecursionlimit() == 9_000
    gc.disable()
    with without_collecting():
        pass
    assert not gc.isenabled()


def test_an_error_and_a_thread_that_is_too_deep_to_go_back() -> None:
    before = sys.getrecursionlimit()
    with pytest.raises(KeyError), room_to_nest():
        raise KeyError
    assert sys.getrecursionlimit() == before

    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        else:
            room.__exit__(None, None, None)

    room = room_to_nest()
    room.__enter__()
    deep(before + 100)
    with room_to_nest():
        pass
    assert sys.getrecursionlimit() == before
