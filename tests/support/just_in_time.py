"""Producers that suspend what nobody needs: their settings, their counts, and the schemas of small examples."""

from __future__ import annotations

from millstream.kernel.just_in_time.gates import JustInTime
from millstream.kernel.just_in_time.tally import Tally
from millstream.kernel.just_in_time.variants.lattice_gate import Lattice
from millstream.kernel.operator import State
from millstream.kernel.scalar.expressions import Column
from millstream.types import BIGINT, Field, Schema

ALWAYS = JustInTime(adaptive=False)
LATTICE = JustInTime(Lattice(), adaptive=False)


def tally(state: State) -> Tally:
    return Tally.of(state["counts"])


# A and B meet by x; S asks for y.
A: Schema = (Field("x", BIGINT), Field("y", BIGINT))
B: Schema = (Field("x", BIGINT), Field("b", BIGINT))
S: Schema = (Field("y", BIGINT),)
Y = Column(BIGINT, 1, "y")
