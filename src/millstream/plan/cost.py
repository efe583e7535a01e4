"""What a plan costs per tick, in nanoseconds: the update-pattern paper's model (section 5.4.1), for our operators.

With r the rates of new rows, N the sizes and d the numbers of distinct values of an operator's inputs:

    selection, projection, union   sum of r            join        r1 log N2 + r2 log N1 + r_out
    δ*                             r1 log N_out        group-by    2 r1
    negation                       2 r1 log d1 + 2 r2 log d2 + premature expirations

Of a negation's right input with N2 rows of d2 keys, a key is absent with the probability exp(-N2 / d2). By counts, rows
end prematurely when an absent key comes; foretold, when a key comes that is there.

The paper scans where we search, so its N became log N. Rows that are taken back double all but group-by and negation,
which look at every row twice anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, log2, prod

from millstream.kernel.scalar.expressions import Call, Column, Expression, Literal, columns_used, conjunction, conjuncts
from millstream.kernel.windows.time import (
    BeginEnd,
    Hop,
    Now,
    Range,
    RangeOn,
    Rows,
    Sessions,
    Tumble,
    Unbounded,
    UserWindow,
    WindowSpecification,
)
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.keys import split_condition
from millstream.plan.analysis.patterns import Pattern, pattern_of

# Nanoseconds per unit of each term, as `millstream bench operator_costs` measures them: windows of 100,000 elements,
# 20,000 keys, batches of 10,000, one thread of a 2-core cloud machine. Only their ratios matter.
ROW, PROBE, DISTINCT, GROUP, COUNT = 15.0, 25.0, 20.0, 460.0, 18.0
# A row given and taken back: what the anti join that is foretold spends more on such rows (110), and as much again
# for whoever reads them.
TAKEN_BACK = 250.0
UNKNOWN_DISTINCT = 1_000.0
UNKNOWN_SELECTIVITY = 1 / 3
HORIZON = 1_000_000  # ticks after which even an unbounded window is looked at


KeptColumns = tuple[
    str, tuple[int, ...]
]  # columns that a join keeps of some rows; these are told by their plan's fingerprint


@dataclass(frozen=True)
class SourceStatistics:
    """What is known of a stream or table: new rows per tick, rows held (tables), distinct values per column, what joins
    keep of it already, and which joins (by the fingerprints of their plans) are made of it and others."""

    rate: float = 1.0
    size: float = UNKNOWN_DISTINCT
    distinct: tuple[float, ...] = ()
    kept: tuple[KeptColumns, ...] = ()
    made: tuple[str, ...] = ()


Statistics = Mapping[str, SourceStatistics]


def made_joins(statistics: Statistics) -> frozenset[str]:
    """The joins of some sources that are made already; those for consumers as `producer_of` calls them."""
    return frozenset(join for known in statistics.values() for join in known.made)


@dataclass(frozen=True)
class Estimate:
    """A relation as the model sees it."""

    rate: float
    size: float
    distinct: tuple[float, ...]

    def scaled(self, factor: float) -> Estimate:
        size = self.size * factor
        return Estimate(self.rate * factor, size, tuple(min(d, max(size, 1.0)) for d in self.distinct))

    def values(self, columns: list[int]) -> float:
        """How many distinct combinations the columns have."""
        return max(1.0, min(prod(self.distinct[column] for column in columns), max(self.size, 1.0)))


# What is known of nodes of one plan, by their identities: each is looked at from many above it.
Known = dict[int, Estimate]


def cost(plan: lo.Node, statistics: Statistics) -> float:
    """Per tick, over all operators of the plan."""
    known: Known = {}
    return sum(own_cost(node, statistics, known) for node in plan.walk())


def own_cost(node: lo.Node, statistics: Statistics, known: Known) -> float:
    """Of one operator."""
    inputs = [estimate(child, statistics, known) for child in node.children]
    twice = 2 if any(c.kind == "relation" and pattern_of(c) == Pattern.STR for c in node.children) else 1
    match node:
        case lo.Join(join="inner" | "left" | "right" | "full" | "semi"):
            left, right = inputs
            probes = left.rate * log2(right.size + 2) + right.rate * log2(left.size + 2)
            return twice * (PROBE * probes + ROW * estimate(node, statistics, known).rate)
        case lo.Join() | lo.SetOperation(operation="except" | "except all"):
            return _cost_of(_negation(node, inputs))
        case lo.SetOperation(operation="union all"):
            return twice * ROW * sum(child.rate for child in inputs)
        case lo.Distinct() | lo.SetOperation():
            return twice * DISTINCT * sum(c.rate for c in inputs) * log2(estimate(node, statistics, known).size + 2)
        case lo.Aggregate():
            return GROUP * 2 * inputs[0].rate
        case _:
            return twice * ROW * sum(child.rate for child in inputs)


@dataclass(frozen=True)
class _Negation:
    """What the model knows of a negation: its inputs, and the numbers of their keys."""

    left: Estimate
    right: Estimate
    own_keys: float
    other_keys: float

    @property
    def common(self) -> float:
        """The part of the left rows whose keys occur on the right at all: as if keys were drawn from one set."""
        return min(1.0, self.other_keys / self.own_keys)

    @property
    def absent(self) -> float:
        """The part of the time that a key of the right is not there."""
        return exp(-self.right.size / self.other_keys)

    @property
    def premature(self) -> float:
        """Rows per tick that end prematurely, by counts."""
        return self.common * self.absent * self.right.rate * self.left.size / self.own_keys

    @property
    def premature_if_foretold(self) -> float:
        return self.common * (1 - self.absent) * self.left.rate


def _negation(node: lo.Node, inputs: list[Estimate]) -> _Negation:
    left, right = inputs
    width = len(left.distinct)
    own, other = list(range(width)), list(range(len(right.distinct)))
    if isinstance(node, lo.Join):
        pairs, _ = split_condition(node.condition, width)
        own = [key.index for key, _, _ in pairs if isinstance(key, Column)] or own
        other = [key.index - width for _, key, _ in pairs if isinstance(key, Column)] or other
    return _Negation(left, right, left.values(own), right.values(other))


def _cost_of(negation: _Negation) -> float:
    own, other = log2(negation.own_keys + 2), log2(negation.other_keys + 2)
    counting = 2 * COUNT * (negation.left.rate * own + negation.right.rate * other)
    return counting + TAKEN_BACK * negation.premature


def is_foretelling_cheaper(join: lo.Join, statistics: Statistics) -> bool:
    """Whether an anti join should say ahead when rows come back: counting spared, against rows taken back."""
    negation = _negation(join, [estimate(child, statistics) for child in join.children])
    spared = negation.right.rate * (2 * COUNT - DISTINCT) * log2(negation.other_keys + 2)
    return TAKEN_BACK * (negation.premature_if_foretold - negation.premature) < spared


def estimate(node: lo.Node, statistics: Statistics, known: Known | None = None) -> Estimate:
    """Rate, size and distinct values of a node's output."""
    known = {} if known is None else known
    if id(node) not in known:
        known[id(node)] = _estimate(node, statistics, known)
    return known[id(node)]


def _estimate(node: lo.Node, statistics: Statistics, known: Known) -> Estimate:
    match node:
        case lo.StreamScan() | lo.TableScan():
            return _of_source(node, statistics)
        case lo.Window():
            stream = estimate(node.input, statistics, known)
            size = min(_rows_in(node.window, stream.rate), stream.rate * HORIZON)
            more = len(node.schema) - len(stream.distinct)
            distinct = (*(min(d, max(size, 1.0)) for d in stream.distinct), *(max(size, 1.0),) * more)
            return replace(stream, size=size, distinct=distinct)
        case lo.Filter():
            child = estimate(node.input, statistics, known)
            return child.scaled(_left_by(node.condition, child))
        case lo.Project():
            child = estimate(node.input, statistics, known)
            kept = tuple(
                child.distinct[e.index] if isinstance(e, Column) else max(child.size, 1.0) for e in node.expressions
            )
            return replace(child, distinct=kept)
        case lo.Join():
            return _of_join(node, statistics, known)
        case ph.ManyJoin():
            return estimate(in_pairs(node), statistics)
        case lo.Distinct():
            child = estimate(node.input, statistics, known)
            size = child.values(list(range(len(child.distinct))))
            return child.scaled(min(1.0, size / max(child.size, 1.0)))
        case lo.Aggregate():
            child = estimate(node.input, statistics, known)
            columns = [key.index for key in node.keys if isinstance(key, Column)]
            groups = child.values(columns) if node.keys else 1.0
            return Estimate(2 * child.rate, groups, (groups,) * len(node.schema))
        case lo.SetOperation():
            left, right = (estimate(child, statistics, known) for child in node.children)
            if node.operation.startswith("union"):
                return replace(left, rate=left.rate + right.rate, size=left.size + right.size)
            return left.scaled(0.5)
        case _ if node.children:
            child = estimate(node.children[0], statistics, known)
            more = len(node.schema) - len(child.distinct)
            return replace(child, distinct=child.distinct + (max(child.size, 1.0),) * more)
        case _:
            return Estimate(0.0, 1.0, (1.0,) * len(node.schema))


def _of_source(node: lo.StreamScan | lo.TableScan, statistics: Statistics) -> Estimate:
    known = statistics.get(node.name, SourceStatistics())
    distinct = known.distinct or (UNKNOWN_DISTINCT,) * len(node.schema)
    if isinstance(node, lo.StreamScan):
        return Estimate(known.rate, known.rate, distinct)
    return Estimate(0.0, known.size, distinct)


def _rows_in(window: WindowSpecification, rate: float) -> float:
    match window:
        case Rows():
            return float(window.rows)
        case Now() | UserWindow():
            return rate
        case RangeOn():
            return rate * HORIZON  # nobody knows how fast the column rises
        case Sessions():
            return rate * max(window.gap, 1)
        case Range() | Tumble() | Hop():
            return rate * max(window.size, 1)
        case BeginEnd(begin=None):
            return rate * max(window.begin_age - window.end_age, 1)
        case Unbounded() | BeginEnd():
            return rate * HORIZON


def selectivity(node: lo.Filter, statistics: Statistics) -> float:
    """The part of the rows that a selection leaves."""
    return _left_by(node.condition, estimate(node.input, statistics))


def _left_by(condition: Expression, child: Estimate) -> float:
    return prod(_fraction(part, child) for part in conjuncts(condition))


def _fraction(condition: Expression, child: Estimate) -> float:
    if isinstance(condition, Call) and condition.function == "=":
        columns = [part for part in condition.arguments if isinstance(part, Column)]
        if columns and any(isinstance(part, Literal) for part in condition.arguments):
            return 1 / child.distinct[columns[0].index]
    return UNKNOWN_SELECTIVITY


def in_pairs(node: ph.ManyJoin) -> lo.Node:
    """The inputs joined one after the other, each by what the condition says of those so far."""
    joined, left = node.inputs[0], conjuncts(node.condition)
    for child in node.inputs[1:]:
        width = len(joined.schema) + len(child.schema)
        decided = [part for part in left if all(index < width for index in columns_used(part))]
        left = [part for part in left if part not in decided]
        joined = lo.Join(joined, child, "inner", conjunction(decided))
    return joined


def _of_join(node: lo.Join, statistics: Statistics, known: Known) -> Estimate:
    left, right = (estimate(child, statistics, known) for child in node.children)
    width = len(left.distinct)
    keys, residual = split_condition(node.condition, width)
    own = left.values([key.index for key, _, _ in keys if isinstance(key, Column)])
    other = right.values([key.index - width for _, key, _ in keys if isinstance(key, Column)])
    fraction = (1 / max(own, other)) * UNKNOWN_SELECTIVITY ** len(residual)
    if node.join == "semi":
        return left.scaled(min(1.0, other / own))
    if node.join == "anti":
        return left.scaled(max(0.05, 1 - min(1.0, other / own)))
    size = left.size * right.size * fraction
    rate = (left.rate * right.size + right.rate * left.size) * fraction
    return Estimate(rate, size, tuple(min(d, max(size, 1.0)) for d in left.distinct + right.distinct))
