"""What eddies have learnt, as rows: the tickets of grouped filters and of SteMs."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt

from millstream.kernel.eddy.filters import EddyMemory
from millstream.kernel.eddy.stems import StemExperience, StemProspects
from millstream.kernel.multiway.stem_join import ROUTING
from millstream.kernel.pipeline import Pipeline, Step
from millstream.kernel.sharing.grouped_selection import EDDY
from millstream.plan.graph import input_title
from millstream.state.snapshot import Snapshot
from millstream.state.store import Store
from millstream.system.recorder import Row

Learnt = dict[str, tuple[str, ...]]


def learnt(snapshot: Snapshot) -> Learnt:
    """Per eddy (operator, what it routes to) the segments of what it has learnt, on all shards."""
    found: dict[str, tuple[str, ...]] = {}
    for step, synopses in snapshot.states.items():
        for synopsis, names in synopses.items():
            kind = synopsis.rpartition("/")[2]
            if kind in (EDDY, ROUTING) and names:
                found[f"{kind} {step}"] = (*found.get(f"{kind} {step}", ()), *names)
    return found


def rows(eddies: Mapping[str, tuple[str, ...]], store: Store, pipeline: Pipeline) -> list[Row]:
    """Operator, the input that rows came in by (for SteMs), filter or SteM, tickets, their share, and its work."""
    made: list[Row] = []
    steps = {step.name: step for step in pipeline.steps} if eddies else {}
    for eddy, names in eddies.items():
        kind, _, step = eddy.partition(" ")
        for name in names:
            made += _filters(step, name, store) if kind == EDDY else _stems(step, name, store, steps.get(step))
    return made


def _filters(step: str, name: str, store: Store) -> list[Row]:
    memory = EddyMemory([store.read(name)])
    return [
        (step, None, module, memory.of(module).tickets, share, memory.of(module).work)
        for module, share in memory.shares().items()
    ]


def _stems(step: str, name: str, store: Store, joined: Step | None) -> list[Row]:
    segment = store.read(name)
    inputs = isqrt(segment.height)
    titles = ["" if joined is None else input_title(joined, number) for number in range(inputs)]
    called = [f"SteM {number}: {title}" if title else f"SteM {number}" for number, title in enumerate(titles)]
    experience, made = StemExperience.of(inputs, [segment]), list[Row]()
    for origin in range(inputs):
        others = [stem for stem in range(inputs) if stem != origin]
        tickets = StemProspects(experience, origin).tickets(others)
        work = experience.work[origin, others].tolist()
        made += [
            (step, origin, called[stem], given, given / sum(tickets), spent)
            for stem, given, spent in zip(others, tickets, work, strict=True)
        ]
    return made
