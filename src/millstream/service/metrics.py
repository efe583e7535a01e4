"""What a service counts, as Prometheus reads it.

What happens is counted when it does (requests, epochs, deliveries); what there is is looked at when somebody asks, from
what is in memory. No label has the name of a query: 10,000 queries are as cheap to look at as one. Streams and sinks
have labels, the first so many of them; the others are summed up as `_others`.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from millstream.inspection.epochs import EpochSeen

if TYPE_CHECKING:
    from millstream.service.work import DatabaseService

PREFIX = "millstream_"
OTHERS = "_others"
_MOST = 500  # streams, and sinks, that have labels of their own
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_PHASE_SECONDS = (0.0001, 0.001, 0.01, 0.1, 1, 10)


class Metrics:
    """Of one service."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            f"{PREFIX}requests", "Requests that were answered.", ("method", "status"), registry=registry
        )
        self._request_seconds = Histogram(
            f"{PREFIX}request_seconds",
            "How long requests took, by what was asked; those that follow until they end.",
            ("route",),
            registry=registry,
            buckets=_SECONDS,
        )
        self._refused = Counter(
            f"{PREFIX}requests_refused", "Requests refused for tokens or limits.", registry=registry
        )
        self._epoch_seconds = Histogram(
            f"{PREFIX}epoch_seconds", "How long epochs took.", registry=registry, buckets=_SECONDS
        )
        self._phase_seconds = Histogram(
            f"{PREFIX}epoch_phase_seconds",
            "How long each phase of an epoch took.",
            ("phase",),
            registry=registry,
            buckets=_PHASE_SECONDS,
        )
        self._phases: dict[str, Histogram] = {}

    def serve(self, service: DatabaseService, followers: Callable[[], int]) -> Callable[[], None]:
        """Count what a service and its database do; gives what ends that."""
        now = _Now(service, followers)
        self.registry.register(now)
        end = service.database.inspection.epochs.observe(self.epoch)

        def ended() -> None:
            end()
            self.registry.unregister(now)

        return ended

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def refused(self) -> None:
        self._refused.inc()

    def epoch(self, seen: EpochSeen) -> None:
        self._epoch_seconds.observe(seen.seconds)
        for phase, seconds in seen.phases.items():
            if (known := self._phases.get(phase)) is None:
                known = self._phases[phase] = self._phase_seconds.labels(phase)
            known.observe(seconds)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """All metrics in the format that is liked best, and that format."""
        encode, kind = choose_encoder(accept)
        return encode(self.registry), kind


_Samples = Iterable[tuple[Mapping[str, str], float]]


class _Now(Collector):
    """What there is just now."""

    def __init__(self, service: DatabaseService, followers: Callable[[], int]) -> None:
        self._service, self._followers = service, followers

    def collect(self) -> Iterator[Metric]:
        found = self._service.database.inspection.measured()
        yield _gauge("epoch", "The number of the committed epoch.", found.epoch)
        ran = [({"ran": ran}, float(count)) for ran, count in found.epochs_run.items()]
        yield _counter("epochs", "Epochs since the database was opened, by who ran them.", ran)
        yield _gauge("queries", "Registered queries.", sum(found.states.values()))
        yield _family("query_states", "Registered queries by state.", _labelled("state", found.states))
        asked = _labelled("what", found.invocations)
        yield _counter("invocations", "Answers that were asked for and given, by what was asked.", asked)
        yield _gauge("operators", "Operators of the shared pipeline.", found.operators)
        yield _gauge("state_bytes", "Bytes of state of all operators.", found.state_bytes)
        yield from self._streams(found.streams)
        yield from _finals(found.finals)
        yield from self._sinks(found.sinks)
        yield from _pools(found.pools)
        yield from self._own()

    def _streams(self, streams: Mapping[str, Mapping[str, float | None]]) -> Iterator[Metric]:
        counted = (
            ("elements", "Elements that a stream was offered.", "arrived"),
            ("late_elements", "Elements that came too late.", "late"),
            ("malformed_rows", "Rows that could not be read.", "malformed"),
            ("shed_elements", "Elements that were dropped under load.", "shed"),
        )
        for name, text, key in counted:
            values = {stream: found[key] for stream, found in streams.items()}
            yield _counter(name, text, _labelled("stream", _few(values, sum)))
        looked_at = (
            ("heartbeat_ticks", "How far a stream is final; -1 where it is not.", "heartbeat"),
            ("stream_lag_seconds", "How far the heartbeat of a stream is behind the clock.", "lag"),
            ("source_rows_behind", "Rows that a source has and that were not taken in yet, where it tells.", "behind"),
            ("stream_open_rows", "Elements that have come and are not final yet.", "open"),
        )
        for name, text, key in looked_at:
            values = {stream: found[key] for stream, found in streams.items()}
            yield _family(name, text, _labelled("stream", _few(values, min if key == "heartbeat" else max)))

    def _sinks(self, sinks: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
        for name, text, key, joined in _OF_SINKS:
            values = _few({sink: found[key] for sink, found in sinks.items()}, joined)
            if key == "deliveries":
                yield _counter(name, text, _labelled("sink", values))
            else:
                yield _family(name, text, _labelled("sink", values))

    def _own(self) -> Iterator[Metric]:
        service = self._service
        yield _gauge("sources_failed", "1 while reading the sources fails.", service.sources.error is not None)
        yield _gauge("followers", "Readers that follow queries.", self._followers())
        if (connections := service.connections) is not None:
            yield _gauge("connections", "Connections that are open.", connections.by_address.total())
            text = "Connections that were refused, or too slow."
            yield _counter("connections_refused", text, [({}, float(connections.refused))])
        threads, busy, waiting = service.pools()
        yield _family("pool_threads", "Threads that work for requests, by what for.", _labelled("pool", threads))
        yield _family("pool_busy", "Of these, those that work.", _labelled("pool", busy))
        yield _family("pool_waiting", "Pieces of work that wait for a thread.", _labelled("pool", waiting))
        yield _gauge("resident_bytes", "Memory of the process.", resident_bytes())
        yield _gauge("degraded", "1 while something asks for attention, as /healthz says.", service.is_degraded)


_OF_SINKS: tuple[tuple[str, str, str, Callable[[Iterable[float]], float]], ...] = (
    ("sink_active", "1 where a sink is served.", "active", min),
    ("sink_deliveries", "Deliveries that a sink has taken.", "deliveries", sum),
    ("sink_waiting_rows", "Changes that a sink has not taken yet.", "rows", sum),
    ("sink_waiting_bytes", "The bytes of these.", "bytes", sum),
)


def _finals(finals: Mapping[str, float]) -> Iterator[Metric]:
    """Of queries whose instants are times of day: of the one that is least far, and of the one that is farthest."""
    ages = {name: time.time() - instant for name, instant in finals.items()}
    text = "How far the answers of queries are behind the clock: the least and the most."
    yield _family("final_age_seconds", text, _labelled("of", ages))


def _pools(pools: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    """Memory of this process and of those of its tasks together: processes come and go, and have no labels."""
    for name, text, key in (
        ("memory_pool_budget_bytes", "Bytes that segments and directories of keys may take.", "budget"),
        ("memory_pool_used_bytes", "Bytes that they take.", "used"),
        ("memory_pool_peak_bytes", "The most that they took at a time.", "peak"),
    ):
        yield _gauge(name, text, sum(pool[key] for pool in pools.values()))
    refused = float(sum(pool["refused"] for pool in pools.values()))
    yield _counter("memory_pool_refused", "How often there was no room.", [({}, refused)])


def _few(values: Mapping[str, float | None], joined: Callable[[Iterable[float]], float]) -> dict[str, float]:
    """The first, and what the others are together."""
    known = {name: float(value) for name, value in values.items() if value is not None}
    if len(known) <= _MOST:
        return known
    names = [*known]
    rest = {OTHERS: float(joined([known[name] for name in names[_MOST:]]))}
    return {name: known[name] for name in names[:_MOST]} | rest


def _labelled(label: str, values: Mapping[str, Any]) -> _Samples:
    return [({label: name}, float(value)) for name, value in values.items()]


def _gauge(name: str, text: str, value: float) -> Metric:
    return _family(name, text, [({}, float(value))])


def _family(name: str, text: str, samples: _Samples) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}{name}", text)
    for labels, value in samples:
        family.add_sample(family.name, dict(labels), value)
    return family


def _counter(name: str, text: str, samples: _Samples) -> Metric:
    family = CounterMetricFamily(f"{PREFIX}{name}", text)
    for labels, value in samples:
        family.add_sample(f"{family.name}_total", dict(labels), value)
    return family


def resident_bytes() -> int:
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
