"""CACQ's figures 12 and 13: stock quotes joined with articles, for queries that differ in which quotes they want.

The rivals are plans of our own operators. PushDown selects below, in a join for each query; PullUp joins once for all,
and selects above, query by query. Millstream is given the queries one by one and decides itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, best_at_each, find, in_turns
from bench.harness.pictures import lines

import millstream as ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRICES, FUNCTIONS = "price > x, by queries, {} articles", "function of the quote, by articles per quote"
MILLSTREAM, PULL_UP, PUSH_DOWN = "millstream", "PullUp", "PushDown"
PLANS = {
    MILLSTREAM: "SET sharing = 'auto'",
    PULL_UP: "SET sharing = 'off'; SET disabled_rules = 'push_selections'",
    PUSH_DOWN: "SET sharing = 'off'",
}
STREAMS = """
    CREATE STREAM stocks (symbol INT, price DOUBLE) TIMESTAMP BY ts;
    CREATE STREAM articles (symbol INT, text STRING) TIMESTAMP BY ts
"""
JOIN = "SELECT * FROM stocks [RANGE 1000000] JOIN articles [RANGE 1000000] ON stocks.symbol = articles.symbol WHERE "
QUERIES, FANOUTS = (1, 2, 5, 10, 20, 50, 100, 200), (1, 10, 100)
PRICE, FUNCTION = "stocks.price > {!r}e0", "considered(price, {!r}e0)"
ASKING = 100  # queries with functions
TIMES_PULL_UP = (0.9, 0.9, 5.0)  # wanted with so many articles: with few, a function is asked as often either way
SPIN = 20e-6  # seconds that a function takes for a value


def considered(price: pl.Series, least: pl.Series) -> pl.Series:
    """A function that takes its time, as an investor's would."""
    until = time.perf_counter() + SPIN * len(price)
    while time.perf_counter() < until:
        pass
    return price > least


def run(plan: str, condition: str, limits: Sequence[float], quotes: pl.DataFrame, articles: pl.DataFrame) -> Sample:
    """Articles first, then a quote, so that what is made once is made, then a batch of quotes, which is measured."""
    with ms.connect(engine="inprocess") as db:
        db.create_function("considered", considered, returns="boolean")
        db.execute(f"{STREAMS}; {PLANS[plan]}")
        queries = [db.register(JOIN + condition.format(limit)) for limit in limits]
        db.insert("articles", articles)
        db.insert("stocks", [(0, 100.0, 1)])
        queries[0].result()
        begun, clock = time.process_time(), time.perf_counter()
        db.insert("stocks", quotes)
        sample = Sample(quotes.height, time.process_time() - begun, time.perf_counter() - clock)
        db.advance(to=10)
        return Sample(sample.elements, sample.cpu, sample.wall, sum(q.result().num_rows for q in queries))


def tables(count: int, articles: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    dice = np.random.default_rng(5)
    quotes = pl.DataFrame({"symbol": np.arange(count, dtype=np.int32), "price": dice.random(count) * 100, "ts": 2})
    about = np.repeat(np.arange(count, dtype=np.int32), articles)
    texts = pl.DataFrame({"symbol": about, "text": ["news " * 40] * about.size, "ts": 1})
    return quotes, texts


def limits(count: int) -> list[float]:
    """All quotes are wanted by some query."""
    return [0.0, *np.round(np.random.default_rng(6).random(count - 1) * 100, 3).tolist()]


def trials(settings: Settings) -> list[Trial]:
    size = 2_250 if settings.quick else 22_500
    asking = 10 if settings.quick else ASKING
    prices = [
        Trial(
            f"{count} queries, {fanout} articles",
            partial(_measure, PRICES.format(fanout), count, PRICE, limits(count), size // fanout, fanout, settings),
        )
        for fanout in FANOUTS
        for count in (QUERIES[::3] if settings.quick else QUERIES)
    ]
    functions = [
        Trial(
            f"{fanout} articles",
            partial(_measure, FUNCTIONS, fanout, FUNCTION, limits(asking), 30, fanout, settings),
        )
        for fanout in FANOUTS
    ]
    return prices + functions


def _measure(
    case: str, at: int, condition: str, wanted: Sequence[float], count: int, fanout: int, settings: Settings
) -> list[Measurement]:
    quotes, articles = tables(count, fanout)
    runs: dict[str, Callable[[], Sample]] = {
        plan: partial(run, plan, condition, wanted, quotes, articles) for plan in PLANS
    }
    best = in_turns(runs, 1 if settings.quick else 5)
    if len({sample.rows_out for sample in best.values()}) != 1:
        raise AssertionError(f"{case} {at}: plans differ in their answers")
    return [Measurement(case, plan, at, sample) for plan, sample in best.items()]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    result = []
    for fanout in FANOUTS:
        case = PRICES.format(fanout)
        found = [best.nanoseconds / m.nanoseconds for m, best in best_at_each(measurements) if _is_ours(m, case)]
        if found:
            result.append(Bar(f"prices, {fanout} articles: of the better rival, at worst", min(found), 0.9))
    for fanout, wanted in zip(FANOUTS, TIMES_PULL_UP, strict=True):
        ours, pulled = (find(measurements, FUNCTIONS, plan, fanout) for plan in (MILLSTREAM, PULL_UP))
        if ours is not None and pulled is not None:
            name = f"functions, {fanout} articles: times PullUp"
            result.append(Bar(name, pulled.nanoseconds / ours.nanoseconds, wanted))
    return result


def _is_ours(measurement: Measurement, case: str) -> bool:
    return (measurement.case, measurement.variant) == (case, MILLSTREAM)


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    figure.set_size_inches(9, 4)
    for axes, case in zip(figure.subplots(1, 2), (PRICES.format(1), FUNCTIONS), strict=True):
        lines(axes, [m for m in measurements if m.case == case], lambda m: m.milliseconds)
        axes.set_title(case, fontsize=8)
        axes.set_ylabel("ms per 1,000 quotes", fontsize=8)
        axes.legend(frameon=False, fontsize=8)


EXPERIMENT = Experiment("stocks_and_articles", "quotes joined with articles for many queries", trials, bars, draw)
