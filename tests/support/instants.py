"""Operators over random inputs, compared with a recomputation of every instant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
from hypothesis import strategies as st

from millstream.kernel import keys
from millstream.kernel.batch import BORN, INF, batch_schema
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.storage import probing, synopsis
from millstream.types import Schema

Row = tuple[Any, ...]  # values, start, end, weight (and born)
Bag = Counter[tuple[object, ...]]
LAST = 24  # the last instant at which anything starts


def batch(schema: Schema, rows: Sequence[Row], *, born: bool = False) -> pl.DataFrame:
    columns = batch_schema(schema) | ({BORN: pl.Int64()} if born else {})
    return pl.DataFrame(rows, schema=columns, orient="row")


def shown(value: object) -> object:
    """Values so that NaN is equal to itself and -0.0 is not 0.0."""
    return repr(value) if isinstance(value, float) else value


def at(rows: Sequence[Row], width: int, instant: int) -> Bag:
    """R(t) by its definition."""
    bag: Bag = Counter()
    for row in rows:
        start, end, weight = row[width : width + 3]
        if start <= instant < end:
            bag[tuple(map(shown, row[:width]))] += weight
    return Counter({value: count for value, count in bag.items() if count})


@dataclass(frozen=True)
class Source:
    """An input: its rows by the step in which they arrive, and its frontier after each step."""

    rows: list[list[Row]]
    frontiers: list[int]

    def until(self, step: int) -> list[Row]:
        return [row for rows in self.rows[: step + 1] for row in rows]


@st.composite
def sources(
    draw: st.DrawFn,
    values: st.SearchStrategy[Row],
    steps: int,
    retract: bool,
    size: int = 12,
) -> Source:
    frontiers = sorted(draw(st.lists(st.integers(-1, LAST), min_size=steps - 1, max_size=steps - 1)))
    frontiers.append(draw(st.sampled_from([frontiers[-1] if frontiers else -1, 2 * LAST, INF])))
    rows: list[list[Row]] = [[] for _ in range(steps)]

    def arrive(row: Row, start: int, earliest: int) -> int:
        """A row may come early, but not once the frontier has reached its start."""
        latest = max(step for step in range(steps) if step == 0 or frontiers[step - 1] < start)
        step = draw(st.integers(min(earliest, latest), latest))
        rows[step].append(row)
        return step

    for _ in range(draw(st.integers(0, size))):
        value = draw(values)
        start = draw(st.integers(0, LAST - 4))
        end = draw(st.sampled_from([INF, start + 1, start + 3, start + 10]))
        step = arrive((*value, start, end, 1), start, 0)
        if retract and draw(st.booleans()):
            again = draw(st.integers(start, min(end - 1, LAST)))
            arrive((*value, again, end, -1), again, step)
    return Source(rows, frontiers)


def check_steps(
    operator: Operator,
    schemas: Sequence[Schema],
    inputs: Sequence[Source],
    expected: Callable[[list[Bag]], Bag],
    *,
    linear: bool = False,
) -> None:
    """Every step's output is right up to the frontier, and leaves alone what was final before."""
    width, widths = len(operator.schema), [len(schema) for schema in schemas]
    state: State = NO_STATE
    output: list[Row] = []
    frontiers = tuple(-1 for _ in inputs)
    steps = len(inputs[0].frontiers)
    for step in range(steps):
        reached = tuple(source.frontiers[step] for source in inputs)
        progress = Progress(frontiers, reached)
        batches = [batch(schema, source.rows[step]) for schema, source in zip(schemas, inputs, strict=True)]
        new, state = operator.step(batches, state, progress)
        assert dict(new.schema) == batch_schema(operator.schema)
        assert (new["_start"] > progress.low_before).all()
        assert (new["_start"] < new["_end"]).all()
        output += new.rows()
        last = 2 * LAST if linear and step == steps - 1 else min(progress.low, 2 * LAST)
        for instant in range(last + 1):
            arrived = [source.until(step) for source in inputs]
            now = [at(rows, count, instant) for rows, count in zip(arrived, widths, strict=True)]
            assert at(output, width, instant) == expected(now), f"at {instant} after step {step}"
        frontiers = reached


@contextmanager
def odd_sizes(collide: bool) -> Iterator[None]:
    """Chunks of three pairs, segments that are seldom merged, and, if asked for, codes that say nothing."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(probing, "_CHUNK", 3))
        stack.enter_context(patch.object(synopsis, "_SMALLEST_CLASS", 1))
        if collide:
            stack.enter_context(patch.object(keys, "mix_bits", lambda codes: codes & np.uint64(1)))
            for module in ("joins.pairwise", "joins.stem", "relational.multiplicity", "ordering.sort_keys"):
                stack.enter_context(patch(f"millstream.kernel.{module}.are_codes_exact", lambda *_: False))
        yield


small = st.one_of(st.none(), st.integers(-2, 3))
texts = st.sampled_from([None, "", "a", "longer than eight bytes"])
floats = st.sampled_from([None, 0.0, -0.0, math.nan, 1.5])


def rows_held(state: State) -> int:
    return sum(segment.height for segments in state.values() for segment in segments)


def stream_of_windows(
    operator: Operator, arrive: Callable[[int, int], Sequence[pl.DataFrame]], steps: int, ticks: int
) -> int:
    """The most rows held while `ticks` ticks pass in every step."""
    state: State = NO_STATE
    most = 0
    with patch.object(synopsis, "_SMALLEST_CLASS", 3):
        for step in range(steps):
            inputs = arrive(step * ticks, (step + 1) * ticks)
            before, after = step * ticks - 1, (step + 1) * ticks - 1
            progress = Progress((before,) * len(inputs), (after,) * len(inputs))
            _, state = operator.step(inputs, state, progress)
            most = max(most, rows_held(state))
    return most


def window(low: int, high: int, length: int, seed: int = 0) -> pl.DataFrame:
    """One element per tick from low to high, each living for `length` ticks."""
    instants = np.arange(low, high)
    keys = (instants * 7919 + seed) % 97
    ones = np.ones(instants.size, np.int64)
    intervals = {"_start": instants, "_end": instants + length, "_weight": ones}
    return pl.DataFrame({"c0": keys, "c1": keys} | intervals)


def row_window(low: int, high: int, length: int, seed: int = 0) -> pl.DataFrame:
    """The last `length` elements, as rows and retractions without an end."""
    arrived = window(low, high, length, seed)
    left = window(max(low - length, 0), max(high - length, 0), length, seed)
    left = left.with_columns(pl.col("_start") + length, -pl.col("_weight"))
    return pl.concat([arrived, left]).with_columns(pl.lit(INF, pl.Int64).alias("_end"))


def run(operator: Operator, steps: Sequence[tuple[Sequence[pl.DataFrame], Sequence[int]]]) -> list[list[Row]]:
    """The output of each step (inputs, frontiers after it)."""
    state: State = NO_STATE
    before = [-1] * len(steps[0][1])
    outputs = []
    for inputs, after in steps:
        output, state = operator.step(inputs, state, Progress(tuple(before), tuple(after)))
        outputs.append(sorted(output.rows(), key=repr))
        before = list(after)
    return outputs


def run_two(operator: Operator, steps: Sequence[tuple[pl.DataFrame, pl.DataFrame, int, int]]) -> list[list[Row]]:
    """The same of two inputs: each step is (left, right, left's frontier, right's frontier)."""
    return run(operator, [((left, right), (left_after, right_after)) for left, right, left_after, right_after in steps])


def outputs_of(operator: Operator, schemas: Sequence[Schema], inputs: Sequence[Source]) -> list[list[Row]]:
    """The output of each step, as its rows come and its frontiers move."""
    state, before, outputs = NO_STATE, tuple(-1 for _ in inputs), []
    for step in range(len(inputs[0].frontiers)):
        after = tuple(source.frontiers[step] for source in inputs)
        batches = [batch(schema, source.rows[step]) for schema, source in zip(schemas, inputs, strict=True)]
        output, state = operator.step(batches, state, Progress(before, after))
        outputs.append(sorted(output.rows(), key=repr))
        before = after
    return outputs


def random_inputs(seed: int, count: int, steps: int, domain: int) -> list[Source]:
    """Rows of some inputs stay for long, and those of others are few and leave soon: partners come and go."""
    rng = np.random.default_rng(seed)
    inputs = []
    for _ in range(count):
        life, most = (30, 4) if rng.random() < 0.7 else (2, 3)
        rows = []
        for step in range(steps):
            values = rng.integers(1, domain + 1, (int(rng.integers(0, most)), count - 1))
            rows.append([(*map(int, row), step, step + life, 1) for row in values])
        inputs.append(Source(rows, list(range(steps))))
    return inputs
