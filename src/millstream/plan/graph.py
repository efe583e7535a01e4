"""A plan as a graph for people: sources, operators, SteMs, and the edges that rows take.

    source ──▶ filter ──▶ SteM ──▶ join ──▶ aggregate ──▶ output (so many queries)

It is made of the steps that run, and not of what queries say: operators that queries share are one node, and rows that
several joins keep are one SteM. Where there are very many, those that do the same to the same are one node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from millstream.kernel.pipeline import Pipeline, Step
from millstream.kernel.relational.failures import Failing, Failures
from millstream.kernel.windows.elements import Elements
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.patterns import Pattern, pattern_of
from millstream.plan.explain import describe
from millstream.plan.grouping import QUERY_ROWS
from millstream.plan.kept_columns import Stem, stems
from millstream.plan.lowering.lower import CLOCK
from millstream.plan.structures import kind_of, structure_of, synopsis_name
from millstream.types import show_schema

MOST_NODES = 150  # before those that do the same become one
PATTERNS = {Pattern.MONO: "MONOTONIC", Pattern.WKS: "WEAKEST", Pattern.WK: "WEAK", Pattern.STR: "STRICT"}
OUTPUT, STEM, SOURCE = "output", "stem", "source"
_LABEL = 200  # characters


@dataclass(frozen=True)
class GraphNode:
    """One operator, or `steps` that do the same; `edge` is the one whose rows it gives. Of a SteM, `keepers` are the
    joins that keep it, each with the name of the synopsis; of an output, `queries` is how many show it."""

    id: str
    kind: str
    label: str
    edge: str
    pattern: str | None = None
    structure: str | None = None
    steps: tuple[str, ...] = ()
    keepers: tuple[tuple[str, str], ...] = ()
    queries: int = 0
    state: str = "running"


@dataclass(frozen=True)
class GraphEdge:
    """Rows that go from one node to another; `edge` is what the pipeline calls them. One that is only awaited says how
    far the other is final."""

    start: str
    end: str
    edge: str
    pattern: str | None = None
    is_awaited: bool = False

    @property
    def id(self) -> str:
        return f"{self.start}>{self.end}"


@dataclass(frozen=True)
class PlanGraph:
    """Nodes by their names, the edges between them, and by step or source the node that it is in."""

    nodes: Mapping[str, GraphNode] = field(default_factory=dict)
    edges: tuple[GraphEdge, ...] = ()
    of_step: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Shown:
    """An edge that queries show: how many, what to call them, and whether they run."""

    edge: str
    queries: int
    label: str
    state: str = "running"


def output_of(edge: str) -> str:
    """The node of the queries that show an edge."""
    return f"{OUTPUT}-{edge}"


def graph_of(
    pipeline: Pipeline,
    shown: Sequence[Shown],
    *,
    label_of: Callable[[str], str] = str,
    failed: Sequence[Step] = (),
    most: int = MOST_NODES,
) -> PlanGraph:
    """The graph of a pipeline, and of steps that have failed; `label_of` says what sources are called."""
    steps = {step.name: step for step in (*pipeline.steps, *failed)}
    of_step = node_names(steps.values(), most)
    building = _Building(steps, of_step, label_of)
    building.add_steps({step.name for step in failed}, with_stems=len(steps) <= most)
    building.add_outputs(shown)
    return PlanGraph(building.nodes, tuple(building.edges.values()), of_step)


class _Building:
    """Nodes and edges as they are found."""

    def __init__(self, steps: Mapping[str, Step], of_step: dict[str, str], label_of: Callable[[str], str]) -> None:
        self._steps, self._of_step, self._label_of = steps, of_step, label_of
        self.nodes: dict[str, GraphNode] = {}
        self.edges: dict[tuple[str, str, bool], GraphEdge] = {}

    def add_steps(self, failed: set[str], *, with_stems: bool) -> None:
        members: dict[str, list[Step]] = {}
        for name, step in self._steps.items():
            members.setdefault(self._of_step[name], []).append(step)
        kept = dict(self._stems()) if with_stems else {}
        for node, steps in members.items():
            for step in steps:
                for edge in (edge for edge in step.timed if edge not in self._of_step):
                    self._add_source(edge)
            self.nodes[node] = _node_of(node, steps, failed)
        for node, steps in members.items():
            for step in steps:
                self._link(node, step, kept)

    def _add_source(self, edge: str) -> None:
        kind = "queries" if edge.startswith(QUERY_ROWS) else SOURCE
        label = "Clock" if edge == CLOCK else "Query table" if kind == "queries" else self._label_of(edge)
        self.nodes[edge] = GraphNode(edge, kind, label, edge)
        self._of_step[edge] = edge

    def _stems(self) -> Iterator[tuple[tuple[str, int], GraphNode]]:
        """By step and the number of its input: the SteM that it keeps."""
        found: dict[Stem, list[tuple[Step, Stem]]] = {}
        for step in self._steps.values():
            for stem in stems(step) if kind_of(step.operator) == "join" else ():
                found.setdefault(stem, []).append((step, stem))
        for stem, keepers in found.items():
            kept = stem.arrangement
            children = [child for step, own in keepers if (child := _input_of(step, own.number)) is not None]
            made = GraphNode(
                f"{STEM}-{_digest(stem.edge, repr(kept))}",
                STEM,
                _cut(f"SteM of {_rows_of(children) or self._label_of(stem.edge)}"),
                stem.edge,
                _pattern(children[0]) if children else None,
                synopsis_name(kept[-1] if isinstance(kept, tuple) else None),
                keepers=tuple((step.name, own.synopsis) for step, own in keepers),
            )
            yield from (((step.name, own.number), made) for step, own in keepers)

    def _link(self, node: str, step: Step, kept: Mapping[tuple[str, int], GraphNode]) -> None:
        for number, edge in enumerate(step.read):
            start, stem = self._of_step[edge], kept.get((step.name, number))
            if stem is not None:
                self.nodes[stem.id] = stem
                self._add_edge(start, stem.id, edge)
                start = stem.id
            self._add_edge(start, node, edge)
        for edge in step.awaited:
            self._add_edge(self._of_step[edge], node, edge, is_awaited=True)

    def _add_edge(self, start: str, end: str, edge: str, *, is_awaited: bool = False) -> None:
        key = start, end, is_awaited
        if start != end and key not in self.edges:
            self.edges[key] = GraphEdge(start, end, edge, self.nodes[start].pattern, is_awaited)

    def add_outputs(self, shown: Sequence[Shown]) -> None:
        """One for each edge that is shown; where edges have become one, one for these together."""
        for each in shown:
            if each.edge not in self._of_step and each.edge not in self._steps and each.state == "running":
                self._add_source(each.edge)  # a query for all of a source
            start = self._of_step.get(each.edge)
            name = output_of(start or each.edge)
            known = self.nodes.get(name)
            if known is not None:
                count = known.queries + each.queries
                self.nodes[name] = replace(known, queries=count, label=f"{count:,} queries")
                continue
            pattern = None if start is None else self.nodes[start].pattern
            self.nodes[name] = GraphNode(
                name, OUTPUT, each.label, each.edge, pattern, queries=each.queries, state=each.state
            )
            if start is not None:
                self._add_edge(start, name, each.edge)


# What nodes are called, and what they say


def node_names(steps: Iterable[Step], most: int) -> dict[str, str]:
    """By step the name of its node: its own, or where there are more than so many that of all steps that do the same to
    the same; where these are too many as well, of all of a kind that are equally far from the sources."""
    steps = list(steps)
    if len(steps) <= most:
        return {step.name: step.name for step in steps}
    known: dict[str, str] = {}
    for step in steps:
        inputs = sorted({known.get(edge, edge) for edge in step.read})
        known[step.name] = _digest(type(step.operator).__name__, *inputs)
    if len({*known.values()}) > most:
        depth: dict[str, int] = {}
        for step in steps:
            depth[step.name] = 1 + max((depth.get(edge, 0) for edge in step.read), default=0)
            known[step.name] = _digest(type(step.operator).__name__, str(depth[step.name]))
    counts = Counter(known.values())
    return {name: name if counts[alike] == 1 else f"many-{alike}" for name, alike in known.items()}


def _node_of(name: str, steps: Sequence[Step], failed: Collection[str]) -> GraphNode:
    first, label = steps[0], step_label(steps[0])
    if len(steps) > 1:
        label = _cut(f"{len(steps):,} × {type(first.operator).__name__}, as {label}")
    return GraphNode(
        name,
        kind_of(first.operator),
        label,
        first.name,
        step_pattern(first),
        structure_of(first.operator),
        tuple(step.name for step in steps),
        state="failed" if all(step.name in failed for step in steps) else "running",
    )


def step_label(step: Step, *, cut: bool = True) -> str:
    """A step in one line: what stands in the plan that it was lowered from."""
    plan, kind = step.plan, kind_of(step.operator)
    if isinstance(step.operator, Failing):
        label = f"Errors of {', '.join(map(str, step.operator.expressions))}"
    elif isinstance(step.operator, Elements):
        label = "Elements one by one"
    elif kind == "errors" or not isinstance(plan, lo.Node):
        label = "Check errors" if kind == "errors" else type(step.operator).__name__
    else:
        joins = (node for node in plan.walk() if isinstance(node, lo.Join | ph.ManyJoin))
        label = describe(next(joins, plan) if kind == "join" else plan)
    return _cut(label) if cut else label


def step_detail(step: Step) -> list[str]:
    """What else there is to say of a step: its plan's line in EXPLAIN in full, and how its state is kept."""
    plan, structure = step.plan, structure_of(step.operator)
    if not isinstance(plan, lo.Node):
        return []
    lines = [step_label(step, cut=False), f"{plan.kind} {show_schema(step.operator.schema)}"]
    return lines + ([f"state: {structure}"] if structure else [])


def step_pattern(step: Step) -> str | None:
    """How the rows of a step leave; None of a stream, and of errors."""
    gives_errors = isinstance(step.operator, Failing | Failures)
    return _pattern(step.plan) if isinstance(step.plan, lo.Node) and not gives_errors else None


def _pattern(plan: lo.Node) -> str | None:
    return PATTERNS[pattern_of(plan)] if plan.kind == "relation" else None


def input_title(step: Step, number: int) -> str:
    """What comes by an input of a join, shortly."""
    child = _input_of(step, number)
    return "" if child is None else _cut(_rows_of([child]))


def _input_of(step: Step, number: int) -> lo.Node | None:
    """The plan of an input of a join."""
    plan = step.plan if isinstance(step.plan, lo.Node) else None
    found = () if plan is None else (node for node in plan.walk() if isinstance(node, lo.Join | ph.ManyJoin))
    join = next(iter(found), None)
    return None if join is None or number >= len(join.children) else join.children[number]


def _rows_of(children: Sequence[lo.Node]) -> str:
    """What a SteM keeps: a stream in the windows that joins impose on it, or what an operator makes."""
    nodes = [node for child in children for node in child.walk()]
    titles = dict.fromkeys(node.title for node in nodes if isinstance(node, lo.StreamScan | lo.TableScan))
    if len(titles) != 1:
        return describe(children[0]) if children else ""
    windows = dict.fromkeys(str(node.window) for node in nodes if isinstance(node, lo.Window))
    return f"{', '.join(titles)} {', '.join(windows)}".strip()


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()


def _cut(text: str) -> str:
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 3]}..."
