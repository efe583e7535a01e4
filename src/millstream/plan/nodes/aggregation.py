"""GROUP BY, and the calls of aggregates in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from millstream.kernel.aggregation.aggregate_calls import Option, UserAggregate, can_overflow
from millstream.kernel.scalar.expressions import Expression
from millstream.plan.nodes.node import Unary, check, check_columns
from millstream.types import STRING, DataType, Field, Schema

UserDefinition = type[UserAggregate]


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of a GROUP BY; the argument is None for COUNT(*). `others` are the arguments behind the first one,
    and what its rows are put into order by; `options` are constants that it takes."""

    function: str
    argument: Expression | None
    distinct: bool
    type: DataType
    definition: UserDefinition | None = None
    gives_error: bool = field(
        default=False, kw_only=True, metadata={"fingerprint": "where given"}
    )  # its error, not its value
    others: tuple[Expression, ...] = field(default=(), kw_only=True, metadata={"fingerprint": "where given"})
    options: tuple[Option, ...] = field(default=(), kw_only=True, metadata={"fingerprint": "where given"})

    def __str__(self) -> str:
        distinct = "DISTINCT " if self.distinct else ""
        first = "*" if self.argument is None else str(self.argument)
        shown = f"{self.function}({distinct}{', '.join([first, *map(str, self.others), *map(repr, self.options)])})"
        return f"error of {shown}" if self.gives_error else shown

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """What is computed of the rows that it sees."""
        return () if self.argument is None else (self.argument, *self.others)

    def over(self, change: Callable[[Expression], Expression]) -> AggregateCall:
        """The call with its arguments changed."""
        if self.argument is None:
            return self
        return replace(self, argument=change(self.argument), others=tuple(map(change, self.others)))

    @property
    def error(self) -> AggregateCall | None:
        """What tells where it fails, as a call of its own; None where it never does."""
        argument = None if self.argument is None else self.argument.type
        if self.definition is None and not can_overflow(self.function, argument):
            return None
        return replace(self, type=STRING, gives_error=True)


@dataclass(frozen=True)
class Aggregate(Unary):
    """GROUP BY: the keys, then one column per call. Without keys there is always one row."""

    keys: tuple[Expression, ...]
    calls: tuple[AggregateCall, ...]

    def __post_init__(self) -> None:
        check(self.input.kind == "relation", "an aggregate of a stream")
        for key in self.keys:
            check_columns(key, self.input.schema)

    @property
    def computed(self) -> tuple[Expression, ...]:
        return (*self.keys, *(argument for call in self.calls for argument in call.arguments))

    @property
    def schema(self) -> Schema:
        keys = tuple(Field(str(key), key.type) for key in self.keys)
        return keys + tuple(Field(str(call), call.type) for call in self.calls)
