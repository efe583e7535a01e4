"""What a service counts, as Prometheus reads it."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from millstream.service.work import DatabaseService

_Sample = tuple[Mapping[str, str], float]


def exposition(service: DatabaseService, followers: int) -> str:
    """All metrics in the text format."""
    stats = service.database.stats()
    streams = stats["streams"].items()
    per_stream = {
        name: [({"stream": stream}, float(counts[name])) for stream, counts in streams]
        for name in ("arrived", "late", "malformed", "shed", "heartbeat")
    }
    sinks = [({"sink": name}, float(sink["state"] == "active")) for name, sink in stats["sinks"].items()]
    requests = [({"method": m, "status": str(s)}, float(n)) for (m, s), n in sorted(service.answered.items())]
    states = stats["query_states"]
    counts = {"running": states["running"], "filling": len(states["filling"]), "failed": len(states["failed"])}
    by_state = [({"state": state}, float(count)) for state, count in counts.items()]
    failed = [({"query": name}, 1.0) for name in states["failed"]]
    parts = [
        _family("epoch", "gauge", "The number of the committed epoch.", [({}, stats["epoch"])]),
        _family("queries", "gauge", "Registered queries.", [({}, stats["queries"])]),
        _family("query_states", "gauge", "Registered queries by state.", by_state),
        _family("query_failed", "gauge", "1 for each query that has failed.", failed),
        _family("operators", "gauge", "Operators of the shared pipeline.", [({}, stats["operators"])]),
        _family("state_bytes", "gauge", "Bytes of state of all operators.", [({}, sum(stats["state_bytes"].values()))]),
        _family("elements_total", "counter", "Elements that a stream was offered.", per_stream["arrived"]),
        _family("late_elements_total", "counter", "Elements that came too late.", per_stream["late"]),
        _family("malformed_rows_total", "counter", "Rows that could not be read.", per_stream["malformed"]),
        _family("shed_elements_total", "counter", "Elements that were dropped under load.", per_stream["shed"]),
        _family("heartbeat_ticks", "gauge", "How far a stream is final; -1 where it is not.", per_stream["heartbeat"]),
        _family("sink_active", "gauge", "1 where a sink is served.", sinks),
        _family(
            "sources_failed", "gauge", "1 while reading the sources fails.", [({}, service.sources.error is not None)]
        ),
        _family("followers", "gauge", "Readers that follow queries.", [({}, followers)]),
        _family("requests_total", "counter", "Requests that were answered.", requests),
        _family("requests_refused_total", "counter", "Requests refused for tokens or limits.", [({}, service.refused)]),
        _family("resident_bytes", "gauge", "Memory of the process.", [({}, resident_bytes())]),
    ]
    return "".join(parts)


def _family(name: str, kind: str, text: str, samples: Iterable[_Sample]) -> str:
    lines = [f"# HELP millstream_{name} {text}", f"# TYPE millstream_{name} {kind}"]
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(said)}"' for label, said in labels.items())
        lines.append(f"millstream_{name}{f'{{{shown}}}' if shown else ''} {_number(value)}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def resident_bytes() -> int:
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
