"""GROUP BY: its keys, and the sets of them that GROUPING SETS, ROLLUP, CUBE and lists of these name.

GROUP BY a, ROLLUP(b, c)    groups by (a, b, c), by (a, b) and by (a)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from millstream.errors import BindError, NotSupportedError, Place
from millstream.kernel.scalar.coercion import cast
from millstream.kernel.scalar.expressions import Column, Expression, Literal
from millstream.kernel.scalar.functions import call
from millstream.language.blocks import AggregateReference, Block
from millstream.types import BIGINT, INT, TINYINT

_MOST_KEYS = 60  # as many bits as GROUPING_ID has, and a sign
_MOST_SETS = 256
_OF_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_BEHIND = (("rollup", exp.Rollup), ("cube", exp.Cube), ("grouping_sets", exp.GroupingSets))
_Set = tuple[int, ...]  # of keys, by their places


@dataclass(frozen=True)
class GroupingReference(Expression):
    """GROUPING(a) or GROUPING_ID(a, b), before it is known which keys there are."""

    keys: tuple[Expression, ...]
    function: str

    @property
    def children(self) -> tuple[Expression, ...]:
        return ()

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.keys))})"


def grouping_reference(name: str, keys: list[Expression]) -> GroupingReference:
    if name == "grouping" and len(keys) != 1:
        raise BindError(f"grouping takes one key of GROUP BY, not {len(keys)}")
    return GroupingReference(TINYINT if name == "grouping" else BIGINT, tuple(keys), name)


class GroupClause:
    """Binds GROUP BY; `bind` binds one key."""

    def __init__(self, group: exp.Group, bind: Callable[[exp.Expr], Expression], place: Place) -> None:
        self._group, self._bind, self._place = group, bind, place
        self._keys: list[Expression] = []

    def into(self, block: Block) -> None:
        """The keys of a block, and the sets of them, where there are several."""
        group = self._group
        if group.args.get("totals"):
            raise NotSupportedError("WITH TOTALS", hint="use GROUPING SETS", place=self._place)
        if group.args.get("all"):
            block.keys = list(dict.fromkeys(item for item in block.select if not _has_aggregate(item)))
            return
        parts = [self._sets(node) for node in group.expressions]
        plain = [node for node in group.expressions if not isinstance(node, _OF_SETS)]
        for clause, kind in _BEHIND:
            for behind in group.args.get(clause) or []:
                if len(plain) != len(group.expressions):
                    raise BindError(f"{clause.upper()} behind keys that name sets themselves", place=self._place)
                # Spark's and Hive's: GROUP BY a, b WITH ROLLUP, GROUP BY a, b GROUPING SETS (..)
                parts = [self._sets(behind if behind.expressions else kind(expressions=plain))]
        found = [tuple(dict.fromkeys(key for part in chosen for key in part)) for chosen in product(*parts)]
        block.keys = self._keys
        if len(plain) == len(group.expressions) and not any(group.args.get(clause) for clause, _ in _BEHIND):
            return
        if len(found) > _MOST_SETS or len(self._keys) > _MOST_KEYS:
            said = f"GROUP BY names {len(found)} sets of {len(self._keys)} keys"
            raise BindError(said, hint=f"at most {_MOST_SETS} sets of {_MOST_KEYS} keys", place=self._place)
        block.sets = found

    def _sets(self, node: exp.Expr) -> list[_Set]:
        """The sets that a part of GROUP BY names."""
        if isinstance(node, exp.GroupingSets):
            return [found for part in node.expressions for found in self._sets(part)]
        if isinstance(node, exp.Rollup | exp.Cube):
            parts = [self._members(part) for part in node.expressions]
            chosen = [parts[:size] for size in range(len(parts), -1, -1)]
            if isinstance(node, exp.Cube):
                if len(parts) > 12:
                    raise BindError(f"CUBE of {len(parts)} keys", hint="it has 2^n sets", place=self._place)
                chosen = [list(some) for size in range(len(parts), -1, -1) for some in combinations(parts, size)]
            return [tuple(key for part in some for key in part) for some in chosen]
        return [self._members(node)]

    def _members(self, node: exp.Expr) -> _Set:
        if isinstance(node, exp.Tuple):
            return tuple(self._key(part) for part in node.expressions)
        if isinstance(node, exp.Paren):
            return self._members(node.this)
        return (self._key(node),)

    def _key(self, node: exp.Expr) -> int:
        bound = self._bind(node)
        if bound not in self._keys:
            self._keys.append(bound)
        return self._keys.index(bound)


def grouping_value(reference: GroupingReference, block: Block, place: Place) -> Expression:
    """GROUPING and GROUPING_ID over the row (keys, calls, bits) of a GROUP BY: a bit for each key, 1 where the row is
    of a set without it."""
    if block.sets is None:
        raise BindError(f"{reference.function} goes with GROUPING SETS, ROLLUP or CUBE", place=place)
    bits = Column(BIGINT, len(block.keys) + len(block.calls), "grouping_id")
    result: Expression = Literal(BIGINT, 0)
    for key in reference.keys or block.keys:
        if key not in block.keys:
            raise BindError(f"{reference.function} takes keys of GROUP BY, not {key}", place=place)
        shift = Literal(INT, len(block.keys) - 1 - block.keys.index(key))
        bit = call("&", [call("shiftright", [bits, shift]), Literal(BIGINT, 1)])
        result = call("|", [call("shiftleft", [result, Literal(INT, 1)]), bit])
    return cast(result, reference.type)


def _has_aggregate(expression: Expression) -> bool:
    return any(isinstance(node, AggregateReference | GroupingReference) for node in expression.walk())
