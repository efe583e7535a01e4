"""Plans in which queries differ in several places: both sides of set operations, subqueries and what they are beside.

    K(σ_p1(X1), σ_p2(X2), ..)   =   K'(Selection(X1 + X2 + ..)),   K' taking the parts from one another again

Each place where queries begin to differ is a part. The parts are put together to one core: a row says by a mark of
which part it is, and has the columns of that part, NULL in all others. So there is one selection and one query table,
whose conditions look at the rows of their part only. What stands above reads the rows of each query by part. A part may
be there only because the rows of each query are needed where all queries read the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from millstream.kernel.scalar.expressions import (
    Call,
    Column,
    Expression,
    Literal,
    chained,
    map_columns,
)
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.types import BIGINT, BOOLEAN, DataType, Field, Schema

_MARK = Literal(BIGINT, 1)


@dataclass(frozen=True)
class PartRows:
    """The rows of a part before they are selected: columns of a core, and a condition over these columns."""

    core: lo.Node
    condition: Sequence[Expression]  # all of which must be true
    columns: tuple[Expression, ...]


@dataclass(frozen=True)
class PutTogether:
    """One core of all parts, the condition on it, and where it has the columns of each part."""

    core: lo.Node
    conditions: list[Expression]
    slots: tuple[tuple[int, ...], ...]


def put_together(parts: Sequence[PartRows]) -> PutTogether:
    """Columns of the same type share a place, so that rows are as wide as the widest part."""
    kinds: list[DataType] = [BIGINT] * len(parts)
    needed: list[dict[Expression, int]] = []
    for part in parts:
        taken: dict[Expression, int] = {}
        for column in (*part.columns, *_read(part)):
            if column not in taken:
                taken[column] = _place(column.type, kinds, len(parts), set(taken.values()))
        needed.append(taken)
    conditions: list[Expression] = []
    cores: list[lo.Node] = []
    for number, (part, places) in enumerate(zip(parts, needed, strict=True)):
        by_place = {place: column for column, place in places.items()}
        columns: list[Expression] = [by_place.get(place, Literal(kind, None)) for place, kind in enumerate(kinds)]
        columns[number] = _MARK
        cores.append(lo.Project(part.core, tuple(columns), tuple(f"part {place}" for place in range(len(kinds)))))
        other = Call(BOOLEAN, "isnull", (Column(BIGINT, number, f"part {number}"),))
        for condition in part.condition:
            own = map_columns(condition, lambda c, places=places: Column(c.type, places[c], c.name))  # type: ignore[misc]
            conditions.append(chained("or", [other, own]))
    core = cores[0]
    for further in cores[1:]:
        core = lo.SetOperation("union all", core, further)
    slots = (tuple(places[column] for column in part.columns) for part, places in zip(parts, needed, strict=True))
    return PutTogether(core, conditions, tuple(slots))


def _read(part: PartRows) -> list[Column]:
    """What conditions read of the core."""
    found = {e.index: e for condition in part.condition for e in condition.walk() if isinstance(e, Column)}
    return [found[index] for index in sorted(found)]


def _place(kind: DataType, kinds: list[DataType], first: int, used: set[int]) -> int:
    for place in range(first, len(kinds)):
        if kinds[place] == kind and place not in used:
            return place
    kinds.append(kind)
    return len(kinds) - 1


def rows_of_part(rows: lo.Node, number: int, slots: Sequence[int], names: Schema) -> lo.Node:
    """The rows of a part among those of all, the query in front of both."""
    mark = Column(BIGINT, 1 + number, f"part {number}")
    own = lo.Filter(rows, Call(BOOLEAN, "isnotnull", (mark,)))
    columns = [Column(ph.QUERY.type, 0, ph.QUERY.name)]
    columns += [Column(field.type, 1 + slot, field.name) for slot, field in zip(slots, names, strict=True)]
    return lo.Project(own, tuple(columns), tuple(column.name for column in columns))


def joined_by_query(
    join: lo.Join, left: lo.Node, right: lo.Node, *, expanded: tuple[bool, bool], places: Mapping[Expression, int]
) -> lo.Node:
    """A join of the rows of each query, which stands in front of a side or of both, and of the result. The constants of
    queries that are compared stand behind the columns of the left side, at these places."""
    ahead = int(expanded[0])
    width, wide = len(join.left.schema), len(left.schema)

    def moved(column: Column) -> Column:
        if column.index < width:
            return replace(column, index=column.index + ahead)
        return replace(column, index=column.index - width + wide + expanded[1])

    condition = map_columns(join.condition, moved)
    condition = condition.transform(lambda e: Column(e.type, places[e], str(e)) if e in places else e)
    if all(expanded):
        numbers = (_query(0), _query(wide))
        condition = Call(BOOLEAN, "and", (Call(BOOLEAN, "=", tuple(numbers)), condition))
    joined = replace(join, left=left, right=right, condition=condition)
    own = list(range(ahead, ahead + width))
    own += range(wide + expanded[1], len(joined.schema))  # of which some joins have none
    query: Expression = _query(0 if expanded[0] and join.join != "right" else wide)
    if join.join == "full":
        query = Call(ph.QUERY.type, "coalesce", (_query(0), _query(wide)))
    schema = joined.schema
    columns = [query, *(Column(schema[index].type, index, schema[index].name) for index in own)]
    if [e.index if isinstance(e, Column) else None for e in columns] == list(range(len(schema))):
        return joined
    return lo.Project(joined, tuple(columns), (ph.QUERY.name, *(schema[index].name for index in own)))


def _query(index: int) -> Column:
    return Column(ph.QUERY.type, index, ph.QUERY.name)


def part_schema(columns: Sequence[Expression]) -> Schema:
    return tuple(Field(str(column), column.type) for column in columns)
