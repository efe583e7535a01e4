"""Joins of several inputs at once: how they are run, and who needs which of their rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from millstream.kernel.just_in_time.consumers import Consumer as KernelConsumer
from millstream.kernel.just_in_time.tree_shape import Nesting
from millstream.kernel.scalar.expressions import TRUE, Expression
from millstream.plan.nodes.node import Node, check, check_columns
from millstream.types import Schema


@dataclass(frozen=True)
class Consumer:
    """What stands above a join of several inputs and needs only those of its rows whose values `own` are among the
    `keys` of another relation, or are not among them (`refuses`), or were when the row was generated (`as_of`). A row
    is needed where all consumers of one `alternative` need it."""

    keys: Node
    own: tuple[Expression, ...]
    refuses: bool = False
    as_of: bool = False
    null_safe: bool = False
    alternative: int = 0

    def with_edge(self, edge: str, *, static: bool = False) -> KernelConsumer:
        """As the kernel takes it, the keys coming on an edge, and perhaps never changing."""
        return KernelConsumer(edge, self.keys.schema, self.own, self.refuses, self.null_safe, static)


@dataclass(frozen=True)
class ManyJoin(Node):
    """An inner join of several inputs at once; the condition is over the columns of all of them, in order. One that is
    made for others, who ask for some of the rows, may be `shared` by whoever wants all."""

    inputs: tuple[Node, ...]
    condition: Expression = TRUE
    consumers: tuple[Consumer, ...] = field(default=(), kw_only=True, metadata={"fingerprint": "where given"})
    shared: bool = field(default=False, kw_only=True, metadata={"fingerprint": "where given"})

    def __post_init__(self) -> None:
        check(len(self.inputs) > 1, "a join of one input")
        check(all(child.kind == "relation" for child in self.inputs), "a join of streams")
        check_columns(self.condition, self.schema)

    @property
    def computed(self) -> tuple[Expression, ...]:
        return (self.condition,)

    @property
    def children(self) -> tuple[Node, ...]:
        return (*self.inputs, *(consumer.keys for consumer in self.consumers))

    def with_children(self, children: tuple[Node, ...]) -> Node:
        keys = children[len(self.inputs) :]
        consumers = (replace(one, keys=node) for one, node in zip(self.consumers, keys, strict=True))
        return replace(self, inputs=children[: len(self.inputs)], consumers=tuple(consumers))

    @property
    def is_just_in_time(self) -> bool:
        return False

    @property
    def schema(self) -> Schema:
        return tuple(field for child in self.inputs for field in child.schema)


@dataclass(frozen=True)
class StemJoin(ManyJoin):
    """By SteMs, in an order that is chosen for each chunk of rows ("ticket") or fixed for each input ("fixed"); with
    `jit`, rows that some SteM has nothing for are held back."""

    routing: str = "ticket"
    jit: bool = False

    @property
    def is_just_in_time(self) -> bool:
        return self.jit


@dataclass(frozen=True)
class JoinTree(ManyJoin):
    """As a tree that stores what its inner joins give, just in time; `detection` says how it knows what is needed."""

    shape: Nesting = 0
    detection: str = "all"

    @property
    def is_just_in_time(self) -> bool:
        return True


def without_consumers(plan: Node) -> Node:
    """What is joined, without what only asks for it."""
    return plan.transform(lambda node: replace(node, consumers=()) if isinstance(node, ManyJoin) else node)
