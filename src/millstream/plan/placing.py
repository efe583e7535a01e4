"""Places what can fail, before anything else is done with a plan, so that nothing that is done can change what fails.

The conditions of a block (inner joins, WHERE, EXISTS, IN) are one AND: a row on which one of them is false or NULL does
not fail by another. So a condition f that can fail is split into what never fails and where it does:

    σ_{f and s}(X)  =  σ_f(σ_{POSSIBLE(f)}(σ_s(X)))         POSSIBLE(f): f is true or fails

POSSIBLE(f) goes wherever rules move it; σ_f stays on top of its block, above all that the block joins, and is where the
errors are read off. What that would keep from being joined by hashing, or stands in ON of an outer join or in a
subquery of EXISTS or IN, is left to its value, NULL where it fails; and beside the plan stands a relation of errors:

    the rows of the block on which f fails and all others are true or fail; of EXISTS, those that nothing else lets in

In the plan that comes out, what can fail is found in projections, aggregates and filters on top of blocks only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import (
    TRUE,
    Call,
    Expression,
    columns_used,
    conjunction,
    conjuncts,
    fails,
    map_columns,
    possible,
    shift_columns,
    value_if_any,
)
from millstream.plan import logical as lo
from millstream.plan.expand_joins import columns
from millstream.plan.unread import without_unread
from millstream.types import BOOLEAN

_COMPARISONS = {"=", "<>", "<", "<=", ">", ">=", "<=>"}


def place_failures(plan: lo.Node) -> lo.Node:
    """An equivalent plan that fails by the rules, however it is rewritten from now on."""
    plan = without_unread(plan)
    if not any(can_fail(e) for node in plan.walk() for e in lo.expressions_of(node)):
        return plan
    placing = _Placing()
    placed = placing.place(plan)
    return lo.Checked(placed, tuple(dict.fromkeys(placing.errors))) if placing.errors else placed


def held(condition: Expression) -> Expression:
    """True where the condition is; never fails, and equalities stay equalities, by which rows are hashed."""
    if not can_fail(condition):
        return condition
    if isinstance(condition, Call) and condition.function == "=":
        sides = (value_if_any(side) if can_fail(side) else side for side in condition.arguments)
        return replace(condition, arguments=tuple(sides))
    return value_if_any(condition)


def _possibly(condition: Expression) -> Expression:
    return possible(condition) if can_fail(condition) else condition


@dataclass
class _Block:
    """How the conditions of a block are written this time: `form` of those that can fail, by number and by whether they
    are keys; and the existence that is looked for errors in, if one is. It collects what it meets."""

    form: Callable[[int, Expression, bool], Expression]
    erring: int | None = None
    found: list[tuple[Expression, bool]] = field(default_factory=list)  # over the row of the block; whether it is a key
    existences: int = 0
    in_existence: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class _Part:
    """A part of a block: its plan, and the columns that the original has, as expressions over the plan's row."""

    plan: lo.Node
    columns: tuple[Expression, ...]


class _Placing:
    def __init__(self) -> None:
        self.errors: list[lo.Node] = []

    def place(self, node: lo.Node) -> lo.Node:
        if _is_of_block(node):
            return self._block(node)
        if isinstance(node, lo.Project) and node.role == "domain":
            return _quiet(node)
        if isinstance(node, lo.Join):
            return self._outer(node)
        children = tuple(self.place(child) for child in node.children)
        return node.with_children(children) if node.children else node

    def _outer(self, join: lo.Join) -> lo.Node:
        """ON of an outer join: an AND of its own over the pairs."""
        left, right = self.place(join.left), self.place(join.right)
        parts = conjuncts(join.condition)
        for fragile in filter(can_fail, parts):
            others = [_possibly(part) for part in parts if part is not fragile]
            for failing in _ways_to_fail(fragile):
                pairs = lo.Filter(lo.Join(left, right, "inner"), conjunction([*others, failing]))
                self.errors.append(lo.Failing(pairs, (fragile,)))
        return replace(join, left=left, right=right, condition=conjunction(list(map(held, parts))))

    def _block(self, node: lo.Node) -> lo.Node:
        usual = _Block(lambda number, condition, is_key: held(condition) if is_key else possible(condition))
        part = self._part(node, usual)
        if usual.found or usual.existences:
            # Inputs are placed once: what fails in them is noted already.
            noted, self.errors = self.errors, []
            for number, (_, is_key) in enumerate(usual.found):
                if is_key:
                    noted += self._failing_key(node, number)
            noted += (self._failing_existence(node, number) for number in range(usual.existences))
            self.errors = noted
        on_top = [condition for condition, is_key in usual.found if not is_key]
        plan = lo.Filter(part.plan, conjunction(on_top)) if on_top else part.plan
        if part.columns == columns(plan.schema):
            return plan
        return lo.Project(plan, part.columns, tuple(f.name for f in node.schema))

    def _failing_key(self, node: lo.Node, number: int) -> list[lo.Node]:
        block = _Block(lambda n, condition, _: TRUE if n == number else possible(condition))
        plan, condition = self._part(node, block).plan, block.found[number][0]
        return [lo.Failing(lo.Filter(plan, failing), (condition,)) for failing in _ways_to_fail(condition)]

    def _failing_existence(self, node: lo.Node, number: int) -> lo.Node:
        block = _Block(_as_possible, erring=number)
        part = self._part(node, block)
        return lo.Failing(part.plan, block.in_existence)

    def _part(self, node: lo.Node, block: _Block) -> _Part:
        if isinstance(node, lo.Project) and node.role in ("within", "existence"):
            below = self._part(node.input, block)
            return replace(below, columns=tuple(_over(e, below.columns) for e in node.expressions))
        if isinstance(node, lo.Filter):
            below = self._part(node.input, block)
            return replace(below, plan=self._filtered(below.plan, _over(node.condition, below.columns), block))
        if isinstance(node, lo.Join) and node.join == "inner":
            return self._joined(node, block)
        if isinstance(node, lo.Join) and node.attached:
            left, right = self._part(node.left, block), self.place(node.right)
            found = _beside(left, _Part(right, columns(right.schema)))
            condition = conjunction([held(c) for c in conjuncts(_over(node.condition, found))])
            joined = replace(node, left=left.plan, right=right, condition=condition)
            return _Part(joined, found)
        if isinstance(node, lo.Join) and node.join in ("semi", "anti"):
            return self._existence(node, block)
        placed = self.place(node)
        return _Part(placed, columns(placed.schema))

    def _filtered(self, plan: lo.Node, condition: Expression, block: _Block) -> lo.Node:
        owners = _owners(plan)
        return _selected(plan, [_written(part, owners, block) for part in conjuncts(condition)])

    def _joined(self, node: lo.Join, block: _Block) -> _Part:
        left, before, noted = self._part(node.left, block), len(block.found), block.in_existence
        right, width = self._part(node.right, block), len(left.plan.schema)
        # What the right side has found was over its own row.
        block.found[before:] = [(shift_columns(found, width), is_key) for found, is_key in block.found[before:]]
        if block.in_existence is not noted:
            block.in_existence = tuple(shift_columns(found, width) for found in block.in_existence)
        found = _beside(left, right)
        joined = replace(node, left=left.plan, right=right.plan, condition=TRUE)
        owners = _owners(joined)
        own = [_written(part, owners, block) for part in conjuncts(_over(node.condition, found))]
        return _Part(replace(joined, condition=_all_of(own)), found)

    def _existence(self, node: lo.Join, block: _Block) -> _Part:
        left = self._part(node.left, block)
        inner = _Block(_as_possible)
        right = self._part(node.right, inner)
        for nested in range(inner.existences):
            self.errors.append(self._failing_existence(node.right, nested))
        width = len(left.plan.schema)
        conditions = conjuncts(_over(node.condition, _beside(left, right)))
        conditions += [shift_columns(condition, width) for condition, _ in inner.found]
        fragile = tuple(filter(can_fail, conditions))
        true = conjunction(list(map(held, conditions)))
        if not fragile:
            return replace(left, plan=replace(node, left=left.plan, right=right.plan, condition=true))
        number, block.existences = block.existences, block.existences + 1
        if block.erring is None or block.erring != number:
            lenient = block.erring is not None and node.join == "semi"
            condition = conjunction(list(map(_possibly, conditions))) if lenient else true
            return replace(left, plan=replace(node, left=left.plan, right=right.plan, condition=condition))
        block.in_existence = fragile
        return replace(left, plan=_erring(left.plan, right.plan, conditions, fragile, true))


def _erring(
    left: lo.Node, right: lo.Node, conditions: Sequence[Expression], fragile: Sequence[Expression], true: Expression
) -> lo.Node:
    """Pairs of rows on which a condition of an EXISTS fails and none is false; unless it is true by another partner."""
    ways = [failing for condition in fragile for failing in _ways_to_fail(condition)]
    failing = ways[0]
    for another in ways[1:]:
        failing = Call(BOOLEAN, "or", (failing, another))
    pairs = lo.Filter(lo.Join(left, right, "inner"), conjunction([*map(_possibly, conditions), failing]))
    own = columns(left.schema)
    matched = lo.Project(lo.Filter(lo.Join(left, right, "inner"), true), own, tuple(column.name for column in own))
    width = len(pairs.schema)
    same = [Call(BOOLEAN, "<=>", (column, replace(column, index=column.index + width))) for column in own]
    return lo.Join(pairs, matched, "anti", conjunction(list(same)))


def _is_of_block(node: lo.Node) -> bool:
    match node:
        case lo.Filter() | lo.Project(role="within") | lo.Join(join="inner" | "semi" | "anti"):
            return True
        case lo.Join():
            return node.attached
        case _:
            return False


def _ways_to_fail(condition: Expression) -> list[Expression]:
    """Conditions of which one holds where this one fails: each on as few inputs as can be."""
    if isinstance(condition, Call) and condition.function in _COMPARISONS:
        return [failing for side in condition.arguments if can_fail(side) for failing in _ways_to_fail(side)]
    return [fails(condition)]


def _all_of(conditions: Sequence[Expression]) -> Expression:
    return conjunction([condition for condition in conditions if condition != TRUE])


def _selected(plan: lo.Node, conditions: Sequence[Expression]) -> lo.Node:
    condition = _all_of(conditions)
    return plan if condition == TRUE else lo.Filter(plan, condition)


def _as_possible(number: int, condition: Expression, is_key: bool) -> Expression:
    return possible(condition)


def _written(condition: Expression, owners: Sequence[int], block: _Block) -> Expression:
    """A condition of a block."""
    if not can_fail(condition):
        return condition
    number, is_key = len(block.found), _is_key(condition, owners)
    block.found.append((condition, is_key))
    return block.form(number, condition, is_key)


def _owners(plan: lo.Node) -> list[int]:
    """Of each column of a part of a block the number of the input that it comes from."""
    match plan:
        case lo.Filter() | lo.Join(join="semi" | "anti"):
            return _owners(plan.children[0])
        case lo.Join():
            left = _owners(plan.left)
            return left + [max(left, default=-1) + 1 + owner for owner in _owners(plan.right)]
        case _:
            return [0] * len(plan.schema)


def _is_key(condition: Expression, owners: Sequence[int]) -> bool:
    """Whether it is an equality between two inputs, by which they can be joined."""
    if not (isinstance(condition, Call) and condition.function == "="):
        return False
    one, other = ({owners[index] for index in columns_used(side)} for side in condition.arguments)
    return len(one) == len(other) == 1 and one != other


def _over(expression: Expression, found: Sequence[Expression]) -> Expression:
    return map_columns(expression, lambda column: found[column.index])


def _beside(left: _Part, right: _Part) -> tuple[Expression, ...]:
    width = len(left.plan.schema)
    return (*left.columns, *(shift_columns(column, width) for column in right.columns))


def _quiet(node: lo.Node) -> lo.Node:
    """A copy of what stands elsewhere too, where it fails if it does."""

    def change(part: lo.Node) -> lo.Node:
        if isinstance(part, lo.Filter | lo.Join):
            return lo.map_expressions(part, lambda e: conjunction(list(map(held, conjuncts(e)))))
        return lo.map_expressions(part, lambda e: value_if_any(e) if can_fail(e) else e)

    return node.transform(change)
