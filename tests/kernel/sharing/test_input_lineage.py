"""Lineage below joins: what is made is all that some query wants, and the rows that nobody wants are not looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.sharing.conditions import SCHEMA, Template, bag, batches, query_state, query_tables, templates

from millstream.kernel.batch import END, START, WEIGHT, Batch, value_columns
from millstream.kernel.joins import pairwise
from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.keys import KEY
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import Horizons, Operator, Progress, State
from millstream.kernel.scalar.expressions import Column, Parameter
from millstream.kernel.scalar.functions import call
from millstream.kernel.sharing import input_lineage, signature_classes
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.input_lineage import InputSelections
from millstream.kernel.sharing.keyed_selection import KeyedSelection
from millstream.kernel.sharing.known_lineage import known_lineage
from millstream.kernel.sharing.lineage import wanted_by
from millstream.kernel.sharing.parameters import QUERIES, QUERY, SHAPE
from millstream.kernel.sharing.signature_classes import SIGNATURE
from millstream.kernel.storage.time_spans import Span
from millstream.types import BIGINT, Field

INTERVAL = [START, END, WEIGHT]


def inputs_of(batch: Batch, widths: Sequence[int]) -> list[Batch]:
    """A batch taken apart by columns into those of several inputs."""
    found, first = [], 0
    for width in widths:
        columns = value_columns(first + width)[first:]
        own = batch.select(*columns, *INTERVAL)
        found.append(own.rename(dict(zip(columns, value_columns(width), strict=True))))
        first += width
    return found


def run(
    operator: Operator, steps: Sequence[Sequence[Batch]], tables: Sequence[State], shared: Collection[int] = ()
) -> list[Batch]:
    """What the join gives step by step; the query table may be another one in each, and in some others keep the rows of
    the first input as well."""
    state: State = {}
    given = []
    for number, (inputs, table) in enumerate(zip(steps, tables, strict=True)):
        frontiers = (number - 1,) * len(inputs), (number,) * len(inputs)
        progress = Progress(*frontiers, {0: Horizons(number, number + 1)} if number in shared else {})
        batch, state = operator.step(inputs, {**state, **table}, progress)
        state = {name: segments for name, segments in state.items() if name != QUERIES}
        given.append(batch)
    return given


def of_queries(batch: Batch, selection: GroupedSelection, table: State, numbers: Sequence[int]) -> dict[int, Counter]:  # type: ignore[type-arg]
    output, _ = selection.step([batch], table, Progress((0,), (0,)))
    columns = value_columns(len(SCHEMA))
    return {query: bag(output.filter(pl.Series(wanted_by(output, query))), columns) for query in numbers}


@contextmanager
def small(**limits: int) -> Iterator[None]:
    """Limits that a few rows reach."""
    with pytest.MonkeyPatch.context() as patched:
        for name, limit in limits.items():
            patched.setattr(input_lineage, name, limit)
        yield


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_every_query_gets_what_it_gets_of_a_join_of_everything(data: st.DataObject) -> None:
    widths = data.draw(st.sampled_from([(4, 7), (1, 10), (6, 5), (3, 4, 4)]))
    shapes = data.draw(st.lists(templates(), min_size=1, max_size=3))
    conditions = {str(number): template.condition for number, template in enumerate(shapes)}
    numbers = data.draw(st.lists(st.integers(0, 2100), unique=True, max_size=8))
    steps = [inputs_of(batch, widths) for batch in data.draw(st.lists(batches(4), min_size=1, max_size=3))]
    tables = [query_state(_some(data, shapes, numbers)) for _ in steps]  # queries come and go
    schemas, first = [], 0
    for width in widths:
        schemas.append(SCHEMA[first : first + width])
        first += width
    asked = InputSelections("selection", widths, GroupedSelection(SCHEMA, conditions))
    if len(widths) == 2 and data.draw(st.booleans()):
        left, right = schemas
        # A promise: of inputs from which no row is ever taken back.
        kept = [all(bool((step[place][WEIGHT] > 0).all()) for step in steps) for place in range(2)]
        lasting = data.draw(st.booleans()) and kept[0], data.draw(st.booleans()) and kept[1]
        joins: list[Operator] = [
            InnerJoin(left, right, (), selections=asked, lasting=lasting),
            InnerJoin(left, right, ()),
        ]
    else:
        joins = [StemJoin(schemas, selections=asked), StemJoin(schemas)]
    limits = data.draw(st.sampled_from([{}, {"_TABLE": 0}, {"_TABLE": 0, "_FLAGS": 0, "_ROWS": 3, "_SAMPLE": 1}]))
    shared = data.draw(st.sets(st.integers(0, 2)))
    with small(**limits), pytest.MonkeyPatch.context() as patched:
        patched.setattr(pairwise, "FEW", 0)
        input_lineage._lineages._held.clear()
        narrow, wide = (run(join, steps, tables, shared) for join in joins)
    for few, many, table in zip(narrow, wide, tables, strict=True):
        assert few.height <= many.height
        selection = GroupedSelection(SCHEMA, conditions)
        assert of_queries(few, selection, table, numbers) == of_queries(many, selection, table, numbers)


def _some(
    data: st.DataObject, shapes: Sequence[Template], numbers: Sequence[int]
) -> Mapping[str, Sequence[pl.DataFrame]]:
    here = [number for number in numbers if data.draw(st.booleans())]
    return {
        str(place): data.draw(query_tables(template, here[place :: len(shapes)]))
        for place, template in enumerate(shapes)
    }


LEFT, RIGHT = (Field("k", BIGINT), Field("v", BIGINT)), (Field("k", BIGINT), Field("w", BIGINT))
ROLES = {"v": 1, "w": 3}


def asking(**limits: Sequence[tuple[int, int]]) -> tuple[InputSelections, State]:
    """Queries that ask for `least <= column < limit`, shape by shape."""
    shapes = {}
    rows: list[tuple[object, ...]] = []
    for shape, bounds in limits.items():
        place = ROLES[shape]
        attribute = Column(BIGINT, place, shape)
        shapes[shape] = call(
            "and", [call(">=", [attribute, Parameter(BIGINT, 0)]), call("<", [attribute, Parameter(BIGINT, 1)])]
        )
        rows += [(len(rows) + number, low, high, shape) for number, (low, high) in enumerate(bounds)]
    table = pl.DataFrame(rows, schema={QUERY: pl.Int64, "c0": pl.Int64, "c1": pl.Int64, SHAPE: pl.String}, orient="row")
    return InputSelections("selection", (2, 2), GroupedSelection(LEFT + RIGHT, shapes)), {QUERIES: (table,)}


def numbered(count: int, keys: int) -> Batch:
    places = np.arange(count)
    columns = {"c0": places % keys, "c1": places, START: 0, END: 9, WEIGHT: 1}
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Int64))


def test_rows_that_nobody_wants_lie_apart_until_somebody_does() -> None:
    """As they came, which costs no sorting; a query that comes later finds them, and they go with their time."""
    rows, nothing = numbered(2_000, 10), numbered(0, 10)
    few, more = asking(v=[(0, 10)]), asking(v=[(0, 10), (1_000, 1_010)])
    join = InnerJoin(LEFT, RIGHT, ((0, 0),), selections=few[0], lasting=(True, True))
    batch, state = join.step([rows, nothing], few[1], Progress((-1, -1), (0, 0)))
    heights = {name: [segment.height for segment in state[name]] for name in ("left", "left unwanted")}
    assert heights == {"left": [10], "left unwanted": [1_990]}
    batch, state = join.step([nothing, numbered(10, 10)], {**state, **few[1]}, Progress((0, 0), (1, 1)))
    assert sorted(batch["c1"]) == [*range(10)]
    late, _ = join.step([nothing, numbered(10, 10)], {**state, **more[1]}, Progress((1, 1), (2, 2)))
    assert sorted(late["c1"]) == [*range(10), *range(1_000, 1_010)]
    assert not join.is_idle(state, Progress((1, 1), (20, 20)))
    _, state = join.step([nothing, nothing], {**state, **few[1]}, Progress((1, 1), (20, 20)))
    assert not any(state.values())


def test_a_row_that_nobody_wants_is_neither_sent_nor_found() -> None:
    selections, table = asking(v=[(0, 10), (5, 20)])
    join = InnerJoin(LEFT, RIGHT, ((0, 0),), selections=selections)
    looked_at = []
    plain = join._candidates
    join._candidates = lambda *a: (looked_at.append(pairs[0].size) or pairs for pairs in plain(*a))  # type: ignore[method-assign, func-returns-value]
    nothing = numbered(0, 1)
    made = run(join, [[numbered(1000, 100), nothing], [nothing, numbered(1000, 100)]], [table, table])[1]
    assert sum(looked_at) == made.height == 20 * 10
    assert sorted(made["c1"].unique()) == [*range(20)]


def test_a_pair_is_made_only_if_one_query_wants_both_rows() -> None:
    """The first query asks about one input, the second about the other: rows of both are wanted, but not every pair."""
    selections, table = asking(v=[(0, 10)], w=[(990, 1000)])
    made = run(
        InnerJoin(LEFT, RIGHT, ((0, 0),), selections=selections), [[numbered(1000, 100), numbered(1000, 100)]], [table]
    )[0]
    assert made.filter((pl.col("c1") >= 10) & (pl.col("c3") < 990)).is_empty()
    assert made.height == 2 * 10 * 10


@pytest.mark.parametrize("queries", [1, 3, 70, 1500])
@pytest.mark.parametrize("probes", [1 << 18, 7])
def test_of_rows_with_many_partners_only_pairs_that_are_wanted_are_looked_at(
    queries: int, probes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges of both inputs: few rows are wanted by the same query."""
    monkeypatch.setattr(signature_classes, "_PROBES", probes)
    dice = np.random.default_rng(queries)
    wide = 2_000 // queries + 1
    bounds = [(low, low + wide) for low in dice.integers(0, 2_000, queries).tolist()]
    place = {name: Column(BIGINT, at, name) for name, at in ROLES.items()}
    condition = call(
        "and", [call(">=", [place["v"], Parameter(BIGINT, 0)]), call("<", [place["v"], Parameter(BIGINT, 1)])]
    )
    condition = call("and", [condition, call(">=", [place["w"], Parameter(BIGINT, 2)])])
    condition = call("and", [condition, call("<", [place["w"], Parameter(BIGINT, 3)])])
    columns = {QUERY: range(queries), "c0": [low for low, _ in bounds], "c1": [high for _, high in bounds]}
    rows = pl.DataFrame(columns | {"c2": columns["c0"][::-1], "c3": columns["c1"][::-1]})
    table: State = {QUERIES: (rows.with_columns(pl.lit("both").alias(SHAPE)),)}
    selection = GroupedSelection(LEFT + RIGHT, {"both": condition})
    join = InnerJoin(LEFT, RIGHT, ((0, 0),), selections=InputSelections("selection", (2, 2), selection))
    nothing, first, second = numbered(0, 1), numbered(1_000, 5), numbered(2_000, 5)
    steps = [[first, nothing], [nothing, second], [first, first]]
    looked_at = []
    found = signature_classes.SignatureClasses._found

    def counted(*given: Any) -> Iterator[Any]:
        for pairs in found(*given):
            looked_at.append(pairs[0].size)
            yield pairs

    monkeypatch.setattr(signature_classes.SignatureClasses, "_found", counted)
    narrow, wide_join = run(join, steps, [table] * 3), run(InnerJoin(LEFT, RIGHT, ((0, 0),)), steps, [table] * 3)
    for few, many in zip(narrow, wide_join, strict=True):
        of_few, of_many = (selection.step([batch], table, Progress((0,), (0,)))[0] for batch in (few, many))
        assert of_few.sort(of_few.columns[:-1]).equals(of_many.sort(of_many.columns[:-1]))
        assert few.n_unique() == of_few[few.columns].n_unique()  # each is wanted by some query
        # The selection knows from the join what it finds by the values of another object with the same rows.
        is_known = known_lineage(few, selection.index(table[QUERIES])) is not None
        assert is_known == (queries in (3, 70) and few.height > 0)
        assert selection.step([few.clone()], table, Progress((0,), (0,)))[0].equals(of_few)
    if queries in (3, 70):
        assert 0 < sum(looked_at) < sum(batch.height for batch in wide_join) / 2


@pytest.mark.parametrize("source", [0, 1])
@pytest.mark.parametrize("salt", [signature_classes._SALT, np.uint64(1)])
def test_pairs_are_found_by_class_and_by_query(source: int, salt: np.uint64, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a key and its mark have the code of another key with another mark. Of rows in order of time those that
    start when they cannot meet are left out."""
    monkeypatch.setattr(signature_classes, "_SALT", salt)
    monkeypatch.setattr(signature_classes, "is_worth_halving", lambda runs: True)
    dice = np.random.default_rng(source)
    flags = [dice.random((count, 64)) < 0.1 for count in (4, 5)]
    of = [dice.integers(0, len(each), 30) for each in flags]  # the class of each signature
    classes = signature_classes.SignatureClasses(of[0], of[1], flags[0], flags[1])
    sides = [
        pl.DataFrame(
            {
                KEY: dice.integers(0, 8, 200).astype(np.uint64),
                SIGNATURE: dice.integers(0, 30, 200),
                START: dice.integers(0, 9, 200),
            }
        ).sort(KEY, START)
        for _ in flags
    ]
    probe, stored = sides[1 - source], sides[source]
    of_probe, of_stored = (of[side][sides[side][SIGNATURE].to_numpy()] for side in (1 - source, source))
    lineage = np.unpackbits(classes.lineage().view(np.uint8), axis=1, bitorder="little").view(np.bool_)
    together = flags[1 - source][of_probe][:, None] & flags[source][of_stored][None]
    expected = together.any(axis=2) & (probe[KEY].to_numpy()[:, None] == stored[KEY].to_numpy()[None])
    for way in classes._ways[source]:
        found = list(classes._found(probe, stored, of_probe, of_stored, way, source))
        i, j, places = (np.concatenate(parts) for parts in zip(*found, strict=True))
        assert sorted(zip(i.tolist(), j.tolist(), strict=True)) == [*zip(*np.nonzero(expected), strict=True)]
        assert (lineage[places] == together[i, j]).all()
    low = dice.integers(0, 5, 200)
    span, starts = Span(low, low + 3), stored[START].to_numpy()
    expected &= (low[:, None] <= starts) & (starts <= low[:, None] + 3)
    found = list(classes._found(probe, stored, of_probe, of_stored, classes._ways[source][0], source, lambda: span))
    i, j, _ = (np.concatenate(parts) for parts in zip(*found, strict=True))
    meeting = {*zip(*(places.tolist() for places in np.nonzero(expected)), strict=True)}
    some = {*zip(i.tolist(), j.tolist(), strict=True)}
    assert some == meeting if salt > 1 else some >= meeting


def test_what_is_kept_does_not_depend_on_who_asks() -> None:
    selections, table = asking(v=[(0, 1)])
    rows = numbered(100, 10)
    states = []
    for join, queries in (
        (InnerJoin(LEFT, RIGHT, ((0, 0),), selections=selections), table),
        (InnerJoin(LEFT, RIGHT, ((0, 0),), selections=selections), {}),
        (InnerJoin(LEFT, RIGHT, ((0, 0),)), {}),
    ):
        _, state = join.step([rows, rows], queries, Progress((-1, -1), (0, 0)))
        states.append(state)
    for state in states[1:]:
        assert state.keys() == states[0].keys()
        for name, segments in state.items():
            assert all(one.equals(other) for one, other in zip(segments, states[0][name], strict=True))


def test_a_query_that_comes_later_finds_what_was_there_before() -> None:
    selections, table = asking(v=[(0, 1)])
    _, more = asking(v=[(0, 1), (7, 9)])
    nothing, rows = numbered(0, 1), numbered(10, 10)
    steps = [[rows, nothing], [nothing, rows], [nothing, rows]]
    made = run(InnerJoin(LEFT, RIGHT, ((0, 0),), selections=selections), steps, [table, table, more])
    assert [sorted(batch["c1"]) for batch in made] == [[], [0], [0, 7, 8]]


def test_roles_of_one_input_have_bits_of_their_own() -> None:
    """A self join: the same segments, of which each role wants other rows."""
    selections, table = asking(v=[(0, 2)], w=[(5, 6)])
    table = {QUERIES: (table[QUERIES][0].filter(pl.col(SHAPE) == "w"),)}
    join = StemJoin(
        [LEFT, RIGHT],
        call("=", [Column(BIGINT, 0, "k"), Column(BIGINT, 2, "k")]),
        edges=["s", "s"],
        selections=selections,
    )
    assert join.stem_of == [0, 0]
    rows = numbered(10, 2)
    made = run(join, [[rows, rows]], [table])[0]
    assert sorted(made.select("c1", "c3").iter_rows()) == [(v, 5) for v in (1, 3, 5, 7, 9)]


def test_of_queries_by_key_the_input_with_the_key_is_selected_from() -> None:
    condition = call(
        "and",
        [
            call("=", [Column(BIGINT, 1, "v"), Parameter(BIGINT, 0)]),
            call(">", [Column(BIGINT, 3, "w"), Parameter(BIGINT, 1)]),
        ],
    )
    selection = KeyedSelection(LEFT + RIGHT, Column(BIGINT, 1, "v"), {"of": condition})
    table: State = {QUERIES: (pl.DataFrame({QUERY: [0, 1, 2], "c0": [3, 4, 3], "c1": [0, 0, 500], SHAPE: ["of"] * 3}),)}
    selections = InputSelections("selection", (2, 2), selection)
    rows = numbered(1000, 10)
    (made,) = run(InnerJoin(LEFT, RIGHT, ((0, 0),), selections=selections), [[rows, rows]], [table])
    (everything,) = run(InnerJoin(LEFT, RIGHT, ((0, 0),)), [[rows, rows]], [{}])
    assert made.height == 200 < everything.height
    few, many = (selection.step([batch], table, Progress((0,), (0,)))[0] for batch in (made, everything))
    assert few.sort(few.columns).equals(many.sort(many.columns))


def test_nobody_asks() -> None:
    selections, _ = asking(v=[(0, 1)])
    rows = numbered(10, 2)
    assert run(InnerJoin(LEFT, RIGHT, ((0, 0),), selections=selections), [[rows, rows]], [{}])[0].is_empty()
