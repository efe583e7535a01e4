"""A table fed by changes whose key is kept holds what applying them one by one leaves, and tells what it refused."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.inputs import Element
from tests.support.changes import REJECTED, SCHEMA, stepped
from tests.support.instants import LAST, Row, at

from millstream.kernel.relational.change_log import DELETES, UPDATES
from millstream.kernel.relational.keyed_change_log import KeyedChangeLog

KEPT = ("+", "insert", "-", "delete", "update")


def one_by_one(changes: list[Element], until: int) -> tuple[Counter[Row], list[tuple[object, ...]]]:
    """The rows after all changes up to an instant, and the changes that were refused."""
    rows: dict[object, object] = {}
    refused: list[tuple[object, ...]] = []
    for change in sorted((c for c in changes if c.ts <= until), key=lambda c: (c.ts, c.key)):
        k, v, operation = change.values
        if operation in UPDATES:
            rows[k] = v
        elif operation in DELETES and k in rows and rows[k] == v:
            del rows[k]
        elif operation not in DELETES and k not in rows:
            rows[k] = v
        else:
            refused.append((k, v, operation, change.ts))
    return Counter(rows.items()), refused


@given(data=st.data())
@settings(max_examples=150)
def test_rows_and_refusals_are_those_of_a_loop(data: st.DataObject) -> None:
    change = st.tuples(
        st.integers(0, LAST),
        st.none() | st.integers(0, 2),
        st.none() | st.integers(0, 1),
        st.sampled_from(KEPT),
    )
    drawn = data.draw(st.lists(change, max_size=25))
    changes = [Element(ts, (k, v, operation), place) for place, (ts, k, v, operation) in enumerate(drawn)]
    cuts = sorted(data.draw(st.lists(st.integers(0, LAST), max_size=3)))
    output = stepped(KeyedChangeLog(SCHEMA, (0,)), changes, cuts)
    rejected = stepped(KeyedChangeLog(REJECTED, (0,), malformed=True), changes, cuts)
    for instant in range(LAST + 1):
        rows, refused = one_by_one(changes, instant)
        assert at(output, 2, instant) == rows, f"at {instant}"
        assert Counter(row[:4] for row in rejected if row[3] <= instant) == Counter(refused), f"at {instant}"


def test_a_long_life_of_one_key() -> None:
    changes = [Element(n, (1, n // 2, "+-"[n % 2]), n) for n in range(LAST)]
    changes += [Element(n, (1, -1, "+-"[n % 2]), 100 + n) for n in range(LAST)]
    output = stepped(KeyedChangeLog(SCHEMA, (0,)), changes, [2, 5])
    for instant, after in pairwise(range(LAST)):
        assert at(output, 2, instant) == one_by_one(changes, instant)[0]
        assert after > instant
