"""Producers: joins that make rows for several consumers, in one query or in many, which ask for different ones.

                     P  holds a row back while none of its consumers needs it
                   /   \\
        Taken by Q1     Taken by Q2         each has what is made from the first instant on that is open for its query
            |               |
       semi join S1     left join S2        and S1, S2 say to P what they have

Who asks is no part of what P is: it is read off the steps that take its rows (`pipeline`), and changes as queries come
and go. Each of them must have been given the same rows, or what is made later would be missing or be there twice. One
that comes late has been run over history with a P of its own, which made what it needs. So the two are united: each
admits what was ever in at either, once, and gives what that makes to its own consumers; from then on they are alike,
and the older one goes on for all.

    made(P)  =  the join of all rows that were ever admitted

* Rows are admitted by the codes of their keys, that is a few too many, but the same at both: their inputs are the same.
* What has ended for all that can still come is dropped first: at one of them it may have been dropped already.
* Where the further inputs are final to different instants, one of them may have dropped what the other still needs
  for consumers that lag behind: then both admit everything.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Self

import numpy as np

from millstream.kernel.batch import Batch
from millstream.kernel.distribution import Distribution, anywhere, by_key, same_columns
from millstream.kernel.joins.graph import JoinGraph
from millstream.kernel.just_in_time.blacklist import Blacklist
from millstream.kernel.just_in_time.consumers import Alternatives, ConsumerDemand, ConsumerInput, timely
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.storage.segments import codes_of, horizon_of
from millstream.types import Schema

OTHER = "other "  # what the synopses of another one's state begin with, beside the own


class Producer(Operator):
    """A join of inputs that makes what its consumers demand (`consumer_demand`), or everything, whoever reads it
    (None). `admitting` says which rows are admitted beside those that are needed: none, those that are in at an "other"
    one, or "all".

    Where a class of equal columns has one of every input, rows are hashed by it. Otherwise no hash brings together all
    that may meet, and all rows go to one shard.
    """

    schemas: tuple[Schema, ...]
    graph: JoinGraph
    consumer_demand: ConsumerDemand | None
    admitting: str = ""

    @abstractmethod
    def for_consumers(self, alternatives: Alternatives) -> Self:
        """The same for other consumers."""

    @property
    def consumer_inputs(self) -> list[ConsumerInput]:
        """What consumers ask by: the inputs after those that rows are made of."""
        return self.consumer_demand.inputs if self.consumer_demand is not None else []

    @property
    def distribution(self) -> Distribution:
        copies = tuple(
            tuple((index, start + index) for index in range(len(columns)))
            for start, columns in zip(self.graph.starts, self.schemas, strict=True)
        )
        if self.consumer_demand is None:
            return by_key(self.graph.common_keys(), *copies)
        return by_key(self.consumer_demand.keys, *copies, ())

    def merging_with(self, admitting: str) -> Self:
        """The same for the step in which it is united with another one, whose state is given beside its own."""
        merging = copy(self)
        merging.admitting = admitting
        return merging


class ProducerOutput(Operator):
    """The rows of a producer for one of the plans that read it, by the consumers that this has: from the first instant
    on that was not final before, since until then it needed none of them, whoever else did.

    >>> run = Run(ProducerOutput(integers("v"), alternatives=((),)))
    >>> run.step(batch((7, 2, 9, +1)), to=4)
    (7, [2, 9), +1)
    >>> run.step(batch((8, 3, 9, +1)), to=6)
    (8, [5, 9), +1)
    """

    def __init__(self, schema: Schema, alternatives: Alternatives, *, generated: bool = False) -> None:
        self.schema, self.alternatives, self.generated = schema, alternatives, generated

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        del state
        return timely(inputs[0], horizon_of(progress.low_before), generated=self.generated), NO_STATE


def admit_alike(blacklist: Blacklist, admitting: str, *ever_in: Blacklist) -> None:
    """Resume rows that wait: all, or those with a code of a row that was ever in at one of these."""
    found = [codes_of(part.rows)[part.ever_in] for each in ever_in for part in each.parts]
    codes = np.concatenate(found) if found else np.zeros(0, np.uint64)
    for number, part in list(blacklist.waiting()):
        due = ~part.admitted if admitting == "all" else ~part.admitted & np.isin(codes_of(part.rows), codes)
        positions = np.flatnonzero(due)
        blacklist.resume(number, positions, np.zeros(positions.size, np.uint8))
