"""Plans where the steps of a pipeline run: in which stage of an epoch's job, and by which columns rows travel there.

Stage 0 runs where the rows of the sources are read, every further one on the shards, behind one shuffle. Rows are sent
by the hash of a step's key columns where they do not lie that way already: hashed by some of those columns, or all on
one shard. A stage is as deep as the exchanges below it, so that an epoch has as many shuffles as its plan is deep.

State stays on its shard, epoch after epoch, whatever queries come and go. So where a step's rows lie must follow from
the plan below the step alone: from no other step, from no source that is silent for once, and from no statistics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from millstream.errors import EvaluationError
from millstream.kernel.batch import BEFORE_TIME, Batch, empty_batch
from millstream.kernel.distribution import MAX_SHARDS, Columns, Copies
from millstream.kernel.operator import NO_STATE, Combiner, Operator, Progress
from millstream.kernel.pipeline import Pipeline, Step, taken
from millstream.kernel.stepping import stepped
from millstream.plan.lowering.lower import CLOCK

# How the rows of an edge lie: for each position of the hash, the columns that hold its value. Without positions all
# rows are on one shard; None says that they are anywhere.
Spread = tuple[frozenset[int], ...] | None
ON_ONE_SHARD: Spread = ()
SCATTERED = None


@dataclass(frozen=True, eq=False)
class PlacedStep:
    """A step and where it runs: how each input is sent to it (the columns to hash; None where rows stay), how its
    output lies, and what an empty batch of it looks like.

    `keyed` steps run on every shard; a step that is `on_first_shard` there only, with or without rows.
    """

    step: Step
    routes: tuple[Columns | None, ...]
    spread: Spread
    keyed: bool
    on_first_shard: bool
    layout: Batch


def place(
    pipeline: Pipeline, sources: Mapping[str, Batch], shards: int, known: Mapping[Step, PlacedStep]
) -> list[PlacedStep]:
    """All steps of a pipeline, placed; `sources` gives the columns of its sources, `known` what was placed before."""
    # With one shard all rows lie together from the start; the clock has none.
    spreads: dict[str, Spread] = {
        source: ON_ONE_SHARD if shards == 1 or source == CLOCK else SCATTERED for source in sources
    }
    layouts = dict(sources)
    placed = []
    for step in pipeline.steps:
        found = known.get(step) or _place(step, [spreads[e] for e in step.read], [layouts[e] for e in step.read])
        spreads[step.name], layouts[step.name] = found.spread, found.layout
        placed.append(found)
    return placed


def _place(step: Step, spreads: Sequence[Spread], layouts: Sequence[Batch]) -> PlacedStep:
    distribution = step.operator.distribution
    copies = [distribution.copies_of(place) for place in range(len(spreads))]
    if distribution.keys is None:
        routes: tuple[Columns | None, ...] = (None,) * len(spreads)
        keyed = on_first_shard = False
    else:
        keys = [distribution.key_of(place) for place in range(len(spreads))]
        made_of = len(step.inputs)  # who else asks must not move its state
        positions = _agreed(keys[:made_of], spreads[:made_of])
        # On one shard consumers need no columns to be hashed by.
        wanted = [tuple(key[position] for position in positions) if key else () for key in keys]
        routes = tuple(None if _lies_by(s, columns) else columns for s, columns in zip(spreads, wanted, strict=True))
        keyed, on_first_shard = bool(positions), not any(keys)
    arriving = [s if r is None else _by(r) for s, r in zip(spreads, routes, strict=True)]
    spread = _kept(arriving, copies, len(step.operator.schema))
    return PlacedStep(
        step, routes, spread, keyed, on_first_shard, _layout(step.operator, taken([*layouts], step.widths))
    )


def _agreed(keys: Sequence[Columns], spreads: Sequence[Spread]) -> tuple[int, ...]:
    """The positions of the key to hash by: those that an input lies by already, or else all.

    What lies on one shard meets every key, but the others should not have to come there.
    """
    met = [_positions(spread, key) for spread, key in zip(spreads, keys, strict=True)]
    if all(positions == () for positions in met):
        return ()
    return next((positions for positions in met if positions), tuple(range(len(keys[0]))))


def _positions(spread: Spread, key: Columns) -> tuple[int, ...] | None:
    """The positions of the key that rows are hashed by; None where they are hashed by anything else."""
    if spread is None:
        return None
    found = [next((p for p, column in enumerate(key) if column in columns), None) for columns in spread]
    return None if None in found else tuple(position for position in found if position is not None)


def _by(columns: Columns) -> Spread:
    return tuple(frozenset({column}) for column in columns)


def _lies_by(spread: Spread, columns: Columns) -> bool:
    if spread is None or len(spread) != len(columns):
        return False
    return all(column in equal for column, equal in zip(columns, spread, strict=True))


def _kept(spreads: Sequence[Spread], copies: Sequence[Copies], width: int) -> Spread:
    """How an output lies whose inputs lie so.

    Where inputs have columns of their own in the output, as in joins, a row has the values of all of them; where they
    share columns, as in unions, it has those of one or another.
    """
    moved = []
    for spread, pairs in zip(spreads, copies, strict=True):
        if spread is None or len(spread) != len(spreads[0] or ()):
            return SCATTERED
        moved.append([{out for column, out in pairs if column in equal and out < width} for equal in spread])
    outputs = [{out for _, out in pairs} for pairs in copies]
    shared = sum(len(columns) for columns in outputs) > len(set().union(*outputs))
    merge = set.intersection if shared else set.union
    kept = tuple(frozenset(merge(*equal)) for equal in zip(*moved, strict=True))
    return kept if all(kept) else SCATTERED


def _layout(operator: Operator, inputs: Sequence[Batch]) -> Batch:
    """The columns of an operator's output, those beside the values too, asked of itself."""
    before_time = (BEFORE_TIME,) * len(inputs)
    try:
        return stepped(operator, inputs, NO_STATE, Progress(before_time, before_time))[0].clear()
    except EvaluationError:
        return empty_batch(operator.schema)  # it will say so itself when it is run


@dataclass(frozen=True)
class StageStep:
    """A step as a stage runs it: its inputs are flows, which are edges or what became of them in an exchange. The last
    so many (`consumer_inputs`) only say what consumers ask by: what happens to them is not the step's."""

    name: str
    operator: Operator
    edges: tuple[str, ...]
    inputs: tuple[str, ...]
    on_first_shard: bool
    consumer_inputs: int = 0
    table_of: str = ""  # the selection whose query table it reads too
    other_tables: tuple[str, ...] = ()  # those of others for which it makes something
    sums: str = ""  # the flow of totals that may stand for rows of its input
    widths: tuple[int, ...] = ()  # of inputs that are sources, as its plan knows them

    def breaking(self, failures: Mapping[str, EvaluationError], flows: Sequence[str]) -> list[EvaluationError]:
        """Of the failures those of its inputs, whether these are told by edges or by flows."""
        return [failures[flow] for flow in flows[: len(flows) - self.consumer_inputs] if flow in failures]


@dataclass(frozen=True)
class Send:
    """A flow that leaves for the next stage: `edge` hashed by columns, or (None) staying on its shard. Where only one
    step reads it, its combiner may put rows together; the totals that it makes are a flow of their own."""

    flow: str
    edge: str
    columns: Columns | None
    combiner: Combiner | None = None

    @property
    def sums(self) -> str:
        return sums_of(self.flow)


def sums_of(flow: str) -> str:
    """The flow of totals that stand for rows of another one."""
    return f"{flow} in sums"


@dataclass(frozen=True)
class Stage:
    """What a shard does between two shuffles: run steps, send flows."""

    steps: tuple[StageStep, ...] = ()
    sends: tuple[Send, ...] = ()


@dataclass(frozen=True, eq=False)
class StagePlan:
    """The stages of an epoch, for so many shards; `layouts` has an empty batch for every flow."""

    shards: int
    stages: tuple[Stage, ...]
    layouts: Mapping[str, Batch]

    @property
    def shuffles(self) -> int:
        return len(self.stages) - 1


def make_stages(
    placed: Sequence[PlacedStep], sources: Mapping[str, Batch], concerned: Set[str], speaking: Set[str], shards: int
) -> StagePlan:
    """The stages of an epoch in which `concerned` steps run and only the `speaking` sources have rows."""
    levels = dict.fromkeys(speaking, 0)  # of the edges that may carry rows
    steps: dict[int, list[StageStep]] = {0: []}
    sends: dict[int, dict[str, Send]] = {}
    layouts = dict(sources) | {each.step.name: each.layout for each in placed}
    flow_layouts: dict[str, Batch] = {}
    taking_part = [each for each in placed if each.step.name in concerned]
    readers = Counter(
        _flow(edge, route) for each in taking_part for edge, route in zip(each.step.read, each.routes, strict=True)
    )
    for each in taking_part:
        step = each.step
        routes = list(zip(step.read, each.routes, strict=True))
        arrivals = [levels[edge] + (route is not None) for edge, route in routes if edge in levels]
        level = max([*arrivals, 1 if each.keyed else 0])
        flows = tuple(_flow(edge, route) for edge, route in routes)
        is_only_reader = len(flows) == 1 and readers[flows[0]] == 1
        is_only_reader = is_only_reader and not _has_more(layouts[step.read[0]], step.widths)
        combiner = step.operator.combiner if is_only_reader else None
        sums = ""
        for flow, (edge, route) in zip(flows, routes, strict=True):
            flow_layouts[flow] = flow_layouts[edge] = layouts[edge]
            if edge not in levels:
                continue
            start = levels[edge]
            if route is not None:
                sends.setdefault(start, {})[flow] = send = Send(flow, edge, route, combiner)
                if combiner is not None and combiner.layout is not None:
                    sums, flow_layouts[send.sums] = send.sums, combiner.layout
                start += 1
            for passing in range(start, level):
                sends.setdefault(passing, {}).setdefault(flow, Send(flow, flow, None))
        levels[step.name] = level
        flow_layouts[step.name] = each.layout
        steps.setdefault(level, []).append(
            StageStep(
                step.name,
                step.operator,
                step.timed,
                flows,
                each.on_first_shard,
                len(step.consumer_edges),
                step.table_of,
                step.other_tables,
                sums,
                step.widths,
            )
        )
    stages = (
        Stage(tuple(steps.get(level, ())), tuple(sends.get(level, {}).values())) for level in range(max(steps) + 1)
    )
    return StagePlan(shards, tuple(stages), flow_layouts)


def first_tasks(plan: StagePlan, parts: int) -> int:
    """How many tasks share what arrived."""
    return min(plan.shards, max(1, parts))


def _has_more(source: Batch, widths: Sequence[int]) -> bool:
    """Whether a source has columns that the one that reads it does not know."""
    return taken([source], widths)[0].width < source.width


def _flow(edge: str, route: Columns | None) -> str:
    return edge if route is None else f"{edge} by {','.join(map(str, route))}"


@dataclass
class StagePlanner:
    """Plans epochs, and remembers: pipelines hardly change from one epoch to the next."""

    shards: int
    _known: dict[Step, PlacedStep] = field(default_factory=dict)
    _plans: dict[tuple[Pipeline, Set[str], Set[str]], StagePlan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.shards <= MAX_SHARDS:
            raise ValueError(f"{self.shards} shards: there are 1 to {MAX_SHARDS}")

    def forget(self) -> None:
        """Sources have other columns."""
        self._plans.clear()
        self._known.clear()

    def plan(
        self, pipeline: Pipeline, sources: Mapping[str, Batch], concerned: Set[str], speaking: Set[str]
    ) -> StagePlan:
        key = pipeline, frozenset(concerned), frozenset(speaking)
        if key not in self._plans:
            placed = place(pipeline, sources, self.shards, self._known)
            if len(self._plans) >= _REMEMBERED:
                self._plans.clear()
                self._known.clear()
            self._known.update((each.step, each) for each in placed)
            self._plans[key] = make_stages(placed, sources, concerned, speaking, self.shards)
        return self._plans[key]


_REMEMBERED = 64
