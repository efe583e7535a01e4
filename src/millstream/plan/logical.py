"""Logical nodes: frozen, checked when built, equal when they mean the same.

Columns are positions, and names are kept for display only, so that equal sub-plans of different queries compare equal
whatever aliases their authors chose. That equality is how plans are shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal as OneOf

from millstream.kernel.aggregation.aggregate_calls import UserAggregate, can_overflow
from millstream.kernel.just_in_time.consumers import Consumer as AskingConsumer
from millstream.kernel.just_in_time.tree_shape import Shape
from millstream.kernel.pending_errors import ERROR
from millstream.kernel.scalar.expressions import TRUE, Expression, columns_used
from millstream.kernel.windows.time import WindowSpecification
from millstream.types import BIGINT, BOOLEAN, STRING, DataType, Field, Schema

UserDefinition = type[UserAggregate]
Kind = OneOf["stream", "relation"]
JoinKind = OneOf["inner", "left", "right", "full", "semi", "anti"]
SetKind = OneOf["union all", "union", "intersect all", "intersect", "except all", "except"]
StreamKind = OneOf["istream", "dstream", "rstream"]
Role = OneOf["", "within", "existence", "domain"]
TableNature = OneOf["", "NON RETROACTIVE", "APPEND ONLY", "STATIC"]


@dataclass(frozen=True)
class Node:
    """Base of all logical nodes."""

    @property
    def kind(self) -> Kind:
        return "relation"

    @property
    def schema(self) -> Schema:
        raise NotImplementedError

    @property
    def children(self) -> tuple[Node, ...]:
        return ()

    def with_children(self, children: tuple[Node, ...]) -> Node:
        return self

    def walk(self) -> Iterator[Node]:
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def transform(self, change: Callable[[Node], Node]) -> Node:
        """Rebuild bottom-up, each node replaced by what `change` makes of it."""
        children = tuple(child.transform(change) for child in self.children)
        return change(self if children == self.children else self.with_children(children))


def _check(condition: bool, message: str) -> None:
    # A plan that fails here was built wrongly by Millstream; users' mistakes are found by the binder.
    if not condition:
        raise AssertionError(message)


@dataclass(frozen=True)
class StreamScan(Node):
    """The elements of a base stream."""

    name: str
    columns: Schema = field(compare=False)
    title: str = field(compare=False)  # the name as it was declared

    @property
    def kind(self) -> Kind:
        return "stream"

    @property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True)
class ChangeSource:
    """The feed of a CHANGES BY table and its key; `malformed` stands for the changes that could not be applied."""

    feed: str
    key: tuple[int, ...]
    malformed: bool = False


@dataclass(frozen=True)
class TableScan(Node):
    """A base relation; `log` says how one that is fed by changes is made from them."""

    name: str
    columns: Schema = field(compare=False)
    title: str = field(compare=False)
    nature: TableNature = ""
    log: ChangeSource | None = None

    @property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True)
class OneRow(Node):
    """The relation of one row without columns, at every instant: what a SELECT without FROM ranges over."""

    @property
    def schema(self) -> Schema:
        return ()


@dataclass(frozen=True)
class _Unary(Node):
    input: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        return replace(self, input=children[0])

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Sample(_Unary):
    """A coin toss per element."""

    percent: float
    seed: int

    def __post_init__(self) -> None:
        _check(self.input.kind == "stream", "SAMPLE of a relation")

    @property
    def kind(self) -> Kind:
        return "stream"


@dataclass(frozen=True)
class Window(_Unary):
    """Stream to relation."""

    window: WindowSpecification

    def __post_init__(self) -> None:
        _check(self.input.kind == "stream", "a window on a relation")


@dataclass(frozen=True)
class RelationToStream(_Unary):
    """ISTREAM, DSTREAM or RSTREAM."""

    operator: StreamKind

    def __post_init__(self) -> None:
        _check(self.input.kind == "relation", f"{self.operator} of a stream")

    @property
    def kind(self) -> Kind:
        return "stream"


@dataclass(frozen=True)
class Filter(_Unary):
    condition: Expression

    def __post_init__(self) -> None:
        _check(self.input.kind == "relation", "a filter on a stream")
        _check(self.condition.type == BOOLEAN, "a condition that is not boolean")
        _check_columns(self.condition, self.input.schema)


@dataclass(frozen=True)
class Project(_Unary):
    """Its role says why it is there where no SELECT says so: `within` a block it drops what subqueries have added; it
    is the select list of a subquery of which only `existence` counts; or the `domain` of a correlated one, a copy of
    what stands elsewhere too."""

    expressions: tuple[Expression, ...]
    names: tuple[str, ...] = field(compare=False)
    role: Role = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check(self.input.kind == "relation", "a projection of a stream")
        _check(len(self.expressions) == len(self.names), "names and expressions differ in number")
        schema = self.input.schema
        for expression in self.expressions:
            _check_columns(expression, schema)

    @cached_property  # whatever is built above asks for it
    def schema(self) -> Schema:
        return tuple(Field(name, e.type) for name, e in zip(self.names, self.expressions, strict=True))


@dataclass(frozen=True)
class Join(Node):
    """Any join; the condition is over the left columns followed by the right ones.

    `foretold` asks an anti join to say ahead when rows come back because their partners leave. That it is what a view
    shows (`of_view`) changes nothing but how it is planned together with others; that it was `attached` to a block, to
    bring it the value of a subquery, nothing but that it is no outer join that somebody wrote.
    """

    left: Node
    right: Node
    join: JoinKind
    condition: Expression = TRUE
    foretold: bool = False
    of_view: bool = field(default=False, compare=False)
    attached: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        _check(self.left.kind == self.right.kind == "relation", "a join of streams")
        _check_columns(self.condition, self.left.schema + self.right.schema)

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        return replace(self, left=children[0], right=children[1])

    @property
    def schema(self) -> Schema:
        return self.left.schema if self.join in ("semi", "anti") else self.left.schema + self.right.schema


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

    def asking_by(self, edge: str, *, static: bool = False) -> AskingConsumer:
        """As the kernel takes it, the keys coming on an edge, and perhaps never changing."""
        return AskingConsumer(edge, self.keys.schema, self.own, self.refuses, self.null_safe, static)


@dataclass(frozen=True)
class ManyJoin(Node):
    """An inner join of several inputs at once; the condition is over the columns of all of them, in order. One that is
    made for others, who ask for some of the rows, may be `shared` by whoever wants all."""

    inputs: tuple[Node, ...]
    condition: Expression = TRUE
    consumers: tuple[Consumer, ...] = field(default=(), kw_only=True, metadata={"fingerprint": "where given"})
    shared: bool = field(default=False, kw_only=True, metadata={"fingerprint": "where given"})

    def __post_init__(self) -> None:
        _check(len(self.inputs) > 1, "a join of one input")
        _check(all(child.kind == "relation" for child in self.inputs), "a join of streams")
        _check_columns(self.condition, self.schema)

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

    shape: Shape = 0
    detection: str = "all"

    @property
    def is_just_in_time(self) -> bool:
        return True


def without_consumers(plan: Node) -> Node:
    """What is joined, without what only asks for it."""
    return plan.transform(lambda node: replace(node, consumers=()) if isinstance(node, ManyJoin) else node)


@dataclass(frozen=True)
class Stamped(_Unary):
    """The rows with the instant at which they start as a further column."""

    def __post_init__(self) -> None:
        _check(self.input.kind == "relation", "instants of a stream")

    @property
    def schema(self) -> Schema:
        return (*self.input.schema, Field("instant", BIGINT))


@dataclass(frozen=True)
class Shortened(_Unary):
    """The rows, each ending so many ticks after an instant at the latest: pairs (column of the instant, ticks)."""

    ends: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        _check(all(self.input.schema[column].type == BIGINT for column, _ in self.ends), "an instant of another type")


@dataclass(frozen=True)
class Matches(_Unary):
    """Combinations of a FROM list whose elements lie within `kept` ticks (None: however far apart), with the instants
    of their elements in the last columns. They are kept without windows, which are applied when a query is asked.

    `timed` tells that there is more to when they hold than these instants: tables, or what other queries made.
    """

    instants: int
    kept: int | None
    timed: bool

    def __post_init__(self) -> None:
        last = self.input.schema[len(self.input.schema) - self.instants :]
        _check(self.instants > 0 and all(f.type == BIGINT for f in last), "matches without instants")


@dataclass(frozen=True)
class Failing(_Unary):
    """The errors of expressions on rows for which `where` is true; that one cannot fail."""

    expressions: tuple[Expression, ...]
    where: Expression = TRUE

    @property
    def schema(self) -> Schema:
        return ERROR


@dataclass(frozen=True)
class Checked(Node):
    """The rows of a plan, and what else makes the query fail: relations of errors."""

    input: Node
    errors: tuple[Node, ...]

    @property
    def kind(self) -> Kind:
        return self.input.kind

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.input, *self.errors)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        return replace(self, input=children[0], errors=children[1:])


@dataclass(frozen=True)
class Guard(_Unary):
    """Nothing, but a failure where the plan below fails."""

    @property
    def schema(self) -> Schema:
        return ()


@dataclass(frozen=True)
class MatchedSelection(_Unary):
    """The matches of many queries over one FROM list, each row once with the queries that want it; `columns` are made
    of the rows that are selected, the last of them being instants."""

    group: str
    key: Expression | None
    columns: tuple[Expression, ...]
    instants: int
    kept: int | None
    timed: bool
    names: tuple[str, ...] = field(compare=False)
    shapes: Mapping[str, Expression] = field(default_factory=dict, compare=False)

    @property
    def schema(self) -> Schema:
        return tuple(Field(name, e.type) for name, e in zip(self.names, self.columns, strict=True))


@dataclass(frozen=True)
class MatchScan(Node):
    """What is kept of a part of a plan, as a source of the plan above it."""

    name: str
    columns: Schema = field(compare=False)
    retracting: bool

    @property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of a GROUP BY; the argument is None for COUNT(*)."""

    function: str
    argument: Expression | None
    distinct: bool
    type: DataType
    definition: UserDefinition | None = None
    told: bool = field(default=False, kw_only=True, metadata={"fingerprint": "where given"})  # its error, not its value

    def __str__(self) -> str:
        distinct = "DISTINCT " if self.distinct else ""
        shown = f"{self.function}({distinct}{'*' if self.argument is None else self.argument})"
        return f"error of {shown}" if self.told else shown

    @property
    def error(self) -> AggregateCall | None:
        """What tells where it fails, as a call of its own; None where it never does."""
        argument = None if self.argument is None else self.argument.type
        if self.definition is None and not can_overflow(self.function, argument):
            return None
        return replace(self, type=STRING, told=True)


@dataclass(frozen=True)
class Aggregate(_Unary):
    """GROUP BY: the keys, then one column per call. Without keys there is always one row."""

    keys: tuple[Expression, ...]
    calls: tuple[AggregateCall, ...]

    def __post_init__(self) -> None:
        _check(self.input.kind == "relation", "an aggregate of a stream")
        for key in self.keys:
            _check_columns(key, self.input.schema)

    @property
    def schema(self) -> Schema:
        keys = tuple(Field(str(key), key.type) for key in self.keys)
        return keys + tuple(Field(str(call), call.type) for call in self.calls)


@dataclass(frozen=True)
class RankedTree(_Unary):
    """The rows of an aggregate with the instants of their elements in the last columns, kept as a tree that answers the
    calls for any window; the first columns are the keys, and calls read columns."""

    instants: int
    keys: int
    calls: tuple[AggregateCall, ...]
    kept: int | None
    shifts: tuple[int | None, ...] = ()  # by how much instants are shifted in its order, where windows differ

    def __post_init__(self) -> None:
        last = self.input.schema[len(self.input.schema) - self.instants :]
        _check(self.instants > 0 and all(f.type == BIGINT for f in last), "a tree without instants")


@dataclass(frozen=True)
class TreeSelection(_Unary):
    """The rows of an aggregate for many queries over one FROM list, each row once, with a tree for each query;
    `columns` are made of the rows that are selected, the last of them being instants."""

    group: str
    key: Expression | None
    columns: tuple[Expression, ...]
    instants: int
    keys: int
    calls: tuple[AggregateCall, ...]
    kept: int | None
    shifts: tuple[int | None, ...]
    names: tuple[str, ...] = field(compare=False)
    shapes: Mapping[str, Expression] = field(default_factory=dict, compare=False)

    @property
    def schema(self) -> Schema:
        return tuple(Field(name, e.type) for name, e in zip(self.names, self.columns, strict=True))


QUERY = Field("query", BIGINT)  # the first column where each query of a group has rows of its own


@dataclass(frozen=True)
class Selection(_Unary):
    """The rows that some query of a group wants, for all its queries at once.

    Without a key each row comes with the set of queries that want it; with one, for queries that ask for `key = value`,
    there is one row for each of them, the query first.
    """

    group: str
    key: Expression | None = None
    shapes: Mapping[str, Expression] = field(default_factory=dict, compare=False)  # what the queries ask, by name

    @property
    def schema(self) -> Schema:
        return self.input.schema if self.key is None else (QUERY, *self.input.schema)


@dataclass(frozen=True)
class Expand(_Unary):
    """One row, the query first, for each query that wants a row."""

    @property
    def schema(self) -> Schema:
        return (QUERY, *self.input.schema)


@dataclass(frozen=True)
class QueryRows(Node):
    """One row from instant 0 on for each query of a group: the query, then NULLs."""

    group: str
    columns: Schema

    @property
    def schema(self) -> Schema:
        return (QUERY, *self.columns)


@dataclass(frozen=True)
class Distinct(_Unary):
    def __post_init__(self) -> None:
        _check(self.input.kind == "relation", "DISTINCT of a stream")


@dataclass(frozen=True)
class SetOperation(Node):
    operation: SetKind
    left: Node
    right: Node

    def __post_init__(self) -> None:
        _check(self.left.kind == self.right.kind == "relation", "a set operation of streams")
        types = [tuple(f.type for f in child.schema) for child in self.children]
        _check(types[0] == types[1], f"{self.operation} of different types")

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        return replace(self, left=children[0], right=children[1])

    @property
    def schema(self) -> Schema:
        return self.left.schema


def _check_columns(expression: Expression, schema: Schema) -> None:
    outside = [index for index in columns_used(expression) if not 0 <= index < len(schema)]
    if outside:
        _check(False, f"{expression} uses columns {outside} of an input with {len(schema)}")


def expressions_of(node: Node) -> list[Expression]:
    """What a node itself computes."""
    match node:
        case Filter() | Join() | ManyJoin():
            return [node.condition]
        case Project():
            return list(node.expressions)
        case Failing():
            return [*node.expressions, node.where]
        case Aggregate():
            return [*node.keys, *(call.argument for call in node.calls if call.argument is not None)]
        case _:
            return []


def map_expressions(node: Node, change: Callable[[Expression], Expression]) -> Node:
    """A node with its own expressions changed."""
    match node:
        case Filter():
            return replace(node, condition=change(node.condition))
        case Project():
            return replace(node, expressions=tuple(map(change, node.expressions)))
        case Join():
            return replace(node, condition=change(node.condition))
        case Failing():
            return replace(node, expressions=tuple(map(change, node.expressions)), where=change(node.where))
        case Aggregate():
            calls = (replace(call, argument=call.argument and change(call.argument)) for call in node.calls)
            return replace(node, keys=tuple(map(change, node.keys)), calls=tuple(calls))
        case _:
            return node


def sources(plan: Node) -> set[StreamScan | TableScan]:
    """The base streams and tables that a plan reads."""
    return {node for node in plan.walk() if isinstance(node, StreamScan | TableScan)}


def has_no_heartbeat(plan: Node) -> bool:
    """Whether only statements change what the plan reads, so that pending changes are all there is to wait for."""
    return all(isinstance(source, TableScan) and source.log is None for source in sources(plan))
