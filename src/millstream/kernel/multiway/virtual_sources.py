"""One eddy for different FROM lists: joins that go on with the pairs that another join makes.

    S join T   and   S join T join U   make each pair of S and T once

The pairs of two inputs are a virtual source of a join of more inputs, as in CACQ: where a query's FROM list is complete
they leave for its selection, and for others they go on to the SteMs that are left. The join that makes them makes what
either of its readers may want, for the queries of both groups at once. What each of the joins keeps is what it would
keep alone: so it is decided between steps, by which joins there are, who goes on with whose pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import Operator
from millstream.kernel.sharing.selections_of_groups import AskedPairs, SelectionsOfGroups


@dataclass(frozen=True)
class JoinStep:
    """A step as far as it matters here."""

    name: str
    operator: Operator
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class LinkedJoin:
    """A join with whom it has to do with: the step whose pairs it goes on with, and the selections that it makes pairs
    for beside its own."""

    operator: Operator
    pairs: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


def virtual_sources(steps: Sequence[JoinStep]) -> dict[str, LinkedJoin]:
    """The joins of some steps, linked with each other."""
    makers: dict[tuple[str, ...], list[tuple[str, InnerJoin]]] = {}
    found: dict[str, LinkedJoin] = {}
    of_more: list[tuple[JoinStep, StemJoin]] = []
    for step in steps:
        if isinstance(step.operator, InnerJoin):
            pairwise = step.operator.base or step.operator
            found[step.name] = LinkedJoin(pairwise)
            if pairwise.is_plain:
                makers.setdefault(step.inputs, []).append((step.name, pairwise))
        elif isinstance(step.operator, StemJoin):
            of_more.append((step, step.operator.base or step.operator))
    asked: dict[str, list[AskedPairs]] = {}
    for step, join in of_more:
        link = next(_links(join, step.inputs, makers), None)
        if link is None:
            found[step.name] = LinkedJoin(join)
            continue
        maker, inputs = link
        found[step.name] = LinkedJoin(_taking(join, inputs), (maker,))
        if join.selections is not None:
            asked.setdefault(maker, []).append(AskedPairs(join.selections, inputs))
    for name, others in asked.items():
        base = found[name].operator
        if isinstance(base, InnerJoin) and base.selections is not None:
            tables = tuple(each.selections.step for each in others)
            found[name] = LinkedJoin(_serving(base, tuple(others)), tables=tables)
    return found


def _links(
    join: StemJoin, edges: tuple[str, ...], makers: dict[tuple[str, ...], list[tuple[str, InnerJoin]]]
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Who makes all pairs of two of its inputs that the join wants, and of which ones."""
    if join.gates or len(edges) < 3 or not makers:
        return
    common = join.graph.common_keys()
    for one, other in permutations(range(len(edges)), 2):
        keys = {*zip(common[one], common[other], strict=True)}
        for name, maker in makers.get((edges[one], edges[other]), ()):
            is_same = {*maker.keys} == keys and maker.windows == (join.windows[one], join.windows[other])
            if is_same and _is_all(join, one, other) and _makes_enough(maker, join):
                yield name, (one, other)


def _is_all(join: StemJoin, one: int, other: int) -> bool:
    """Whether what all inputs have in common is all that two of them must have."""
    both = frozenset({one, other})
    equal = [each for each in join.graph.classes if both <= each.inputs]
    everywhere = all(len(each.inputs) == len(join.schemas) and not each.null_safe for each in equal)
    return everywhere and not any(condition.inputs <= both for condition in join.graph.conditions)


def _makes_enough(maker: InnerJoin, join: StemJoin) -> bool:
    """Whether it makes everything, or can be told what the queries of the other join want."""
    if maker.selections is None:
        return True
    return join.selections is not None and maker.selections.is_indexed and join.selections.is_indexed


# The same operators each time: what is planned by them stays as it is.


@lru_cache(maxsize=256)
def _taking(join: StemJoin, inputs: tuple[int, int]) -> StemJoin:
    return join.taking(inputs)


@lru_cache(maxsize=256)
def _serving(join: InnerJoin, others: tuple[AskedPairs, ...]) -> InnerJoin:
    assert join.selections is not None
    return join.for_selections(SelectionsOfGroups(join.selections, others))
