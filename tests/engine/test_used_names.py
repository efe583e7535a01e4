"""The names that are in use are found by what changes from one snapshot to the next."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from millstream.state.snapshot import HistoryFile, Snapshot
from millstream.state.used_names import UsedNames

NAMES = [f"e{file}.seg@{place}+8#0" for file in range(4) for place in range(3)]


def some(dice: random.Random) -> tuple[str, ...]:
    return tuple(dice.sample(NAMES, dice.randint(0, 3)))


def next_snapshot(snapshot: Snapshot, dice: random.Random) -> Snapshot:
    """Something is added, replaced or dropped; the same segment may be in several places."""
    step, file = f"step{dice.randrange(3)}", HistoryFile(f"s/{dice.randrange(9)}.parquet#0", 1, 0, 0)
    match dice.randrange(6):
        case 0:
            return snapshot.with_states({step: {"left": some(dice), "right": some(dice)}})
        case 1:
            return snapshot.without_states([step])
        case 2:
            return snapshot.with_results({step: some(dice)})
        case 3:
            return snapshot.without_results([step])
        case 4:
            return snapshot.with_history({"s": (file,)})
        case _:
            return snapshot.with_history_of({"s": ()})


@given(st.integers(0, 2**32))
def test_what_changes_is_what_differs(seed: int) -> None:
    dice, snapshot = random.Random(seed), Snapshot()
    used = UsedNames(snapshot)
    for _ in range(12):
        before, snapshot = {*snapshot.names()}, next_snapshot(snapshot, dice)
        after = {*snapshot.names()}
        change = used.change_to(snapshot)
        assert (change.added, change.removed) == (after - before, before - after)
        used.apply(change)
        assert len(used) == len(after)
        assert all((name in used) == (name in after) for name in NAMES)
        for name in NAMES:
            file = name.partition("@")[0]
            assert used.in_files_of([name]) == {other for other in after if other.partition("@")[0] == file}
