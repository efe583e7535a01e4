"""Percentiles, MODE, LISTAGG, MAX_BY and marked FIRST and LAST over random rows, in steps, against brute force."""

from __future__ import annotations

import math
import random
from typing import Any
from unittest import mock

import pytest
from tests.kernel.aggregation.aggregates import SCHEMA, B, K, N, Runner, S, X, batch, comparable, row, simple

from millstream.errors import EvaluationError
from millstream.kernel.aggregation import all_values
from millstream.kernel.aggregation.aggregate import Aggregate, AggregateCall
from millstream.kernel.batch import INF
from millstream.types import BIGINT, DOUBLE, STRING

CALLS = (
    AggregateCall("percentile_cont", X, False, DOUBLE, options=(0.3, False)),
    AggregateCall("percentile_cont", X, True, DOUBLE, options=(0.9, True)),
    AggregateCall("percentile_disc", N, False, BIGINT, options=(0.4, False)),
    AggregateCall("percentile_disc", N, False, BIGINT, options=(0.4, True)),
    AggregateCall("mode", N, False, BIGINT, options=(False,)),
    AggregateCall("mode", S, False, STRING, options=(True,)),
    AggregateCall("listagg", S, False, STRING, options=(";",)),
    AggregateCall("listagg", S, True, STRING, options=("",)),
    AggregateCall("listagg", S, False, STRING, others=(N,), options=(",", True, True)),
    AggregateCall("max_by", S, False, STRING, others=(N,)),
    AggregateCall("min_by", S, False, STRING, others=(N,)),
)
Row = tuple[Any, ...]


def _percentile(values: list[float], share: float, descending: bool) -> float | None:
    values = sorted(values, reverse=descending)
    if not values:
        return None
    position = (len(values) - 1) * share
    low, high = values[math.floor(position)], values[math.ceil(position)]
    if low == high:
        return low
    return (math.ceil(position) - position) * low + (position - math.floor(position)) * high


def _brute(call: AggregateCall, rows: list[Row]) -> Any:
    assert call.argument is not None
    values = [r[call.argument] for r in rows if r[call.argument] is not None]
    if call.function in ("max_by", "min_by"):
        marked = [r for r in rows if r[call.others[0]] is not None]
        pick = max if call.function == "max_by" else min
        best = pick(marked, key=lambda r: (r[call.others[0]], r[call.argument or 0] or ""), default=None)
        return best and best[call.argument]
    if call.distinct:
        values = list(set(values))
    if call.function == "percentile_cont":
        return _percentile(values, float(call.options[0]), bool(call.options[1]))
    if not values:
        return None
    if call.function == "percentile_disc":
        in_order = sorted(values, reverse=bool(call.options[1]))
        return in_order[max(math.ceil(len(in_order) * float(call.options[0])) - 1, 0)]
    if call.function == "mode":
        most = max(map(values.count, values))
        return (max if call.options[0] else min)(v for v in values if values.count(v) == most)
    if call.others:  # DESC NULLS FIRST
        named = [r for r in rows if r[call.argument] is not None]
        named.sort(key=lambda r: (r[N] is not None, -(r[N] or 0), r[call.argument or 0]))
        return str(call.options[0]).join(r[call.argument] for r in named)
    return str(call.options[0]).join(sorted(values))


def _random_rows(dice: random.Random, count: int, retractions: bool) -> list[Row]:
    """Rows with intervals; with retractions, some are taken back before their end."""
    rows: list[Row] = []
    for _ in range(count):
        values = (
            dice.choice(("a", "b")),
            dice.choice((None, 1, 2, 2, 3, 7)),
            dice.choice((None, 0.5, 1.5, -2.0, 8.0)),
            None,
            dice.choice((None, "u", "v", "w")),
            None,
        )
        start = dice.randrange(20)
        end = dice.choice((start + 1, start + dice.randrange(1, 12), INF))
        rows.append((*values, start, end, dice.choice((1, 1, 2))))
        if retractions and dice.random() < 0.3:
            cut = dice.randrange(start, min(end, 25))
            rows.append((*values, cut, end, -rows[-1][-1]))
    return rows


def _steps(rows: list[Row], dice: random.Random, runner: Runner) -> None:
    """The rows in batches by where they begin, so that none begins at or before the frontier."""
    cuts = sorted({dice.randrange(-1, 26) for _ in range(4)} | {30})
    waiting = sorted(rows, key=lambda r: r[-3])
    for low in cuts:
        due = [r for r in waiting if r[-3] <= low]
        waiting = [r for r in waiting if r[-3] > low]
        early = [r for r in waiting if dice.random() < 0.2]
        waiting = [r for r in waiting if r not in early]
        runner.step(batch(due + early), low)


@pytest.mark.parametrize("keys", [(), (K,)])
@pytest.mark.parametrize("retractions", [True, False])
def test_against_brute_force(keys: tuple[int, ...], retractions: bool) -> None:
    with mock.patch.object(all_values, "_UNFOLDED", 7):
        for seed in range(25):
            dice = random.Random(seed)
            rows = _random_rows(dice, dice.randrange(1, 14), retractions)
            runner = Runner(Aggregate(SCHEMA, keys, CALLS, retractions=retractions))
            _steps(rows, dice, runner)
            for instant in range(27):
                _check(runner, rows, keys, instant)


def _check(runner: Runner, rows: list[Row], keys: tuple[int, ...], instant: int) -> None:
    net: dict[Row, int] = {}
    for *values, start, end, weight in rows:
        if start <= instant < end:
            net[tuple(values)] = net.get(tuple(values), 0) + weight
    here = [values for values, copies in net.items() for _ in range(copies)]
    groups = {tuple(r[key] for key in keys) for r in here} if keys else {()}
    wanted = []
    for group in groups:
        own = [r for r in here if tuple(r[key] for key in keys) == group]
        wanted.append((*group, *(_brute(call, own) for call in CALLS)))
    found = sorted(map(repr, runner.at(instant)))
    assert found == sorted(repr(comparable(r)) for r in wanted), instant


def test_first_and_last_of_marked_rows() -> None:
    marked = [
        AggregateCall("first", N, False, BIGINT, others=(B,)),
        AggregateCall("last", N, False, BIGINT, others=(B,)),
    ]
    for retractions in (True, False):
        runner = simple(marked, retractions=retractions)
        rows = [(*row(i=i)[:-1], mark, at, INF, 1) for i, mark, at in ((None, None, 0), (None, True, 1), (5, True, 2))]
        runner.step(batch([*rows, (*row(i=9)[:-1], None, 3, INF, 1)]), 5)
        assert [*runner.at(0)] == [(None, None)]
        assert [*runner.at(1)] == [(None, None)]
        assert [*runner.at(4)] == [(None, 5)]


def test_a_list_that_is_too_large_fails() -> None:
    runner = simple([AggregateCall("listagg", S, False, STRING, options=(",",))])
    with (
        mock.patch.object(all_values, "value_limit", return_value=3),
        pytest.raises(EvaluationError, match=r"listagg\(s\) is larger than"),
    ):
        runner.step(batch([(None, None, None, None, "ab", None, 0, INF, 2)]), 5)
