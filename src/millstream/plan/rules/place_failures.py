"""Places what can fail, before anything else is done with a plan, so that nothing that is done can change what fails.

The conditions of a block (inner joins, WHERE, EXISTS, IN) are one AND: a row on which one of them is false or NULL does
not fail by another. So a condition f that can fail is split into what never fails and where it does:

    σ_{f and s}(X)  =  σ_f(σ_{POSSIBLE(f)}(σ_s(X)))         POSSIBLE(f): f is true or fails

POSSIBLE(f) goes wherever rules move it; σ_f stays on top of its block, above all that the block joins, and is where the
errors are read off. What that would keep from being joined by hashing, or stands in ON of an outer join or in a
subquery of EXISTS or IN, is left to its value, NULL where it fails; and beside the plan stands a relation of errors:

    the rows of the block on which f fails and all others are true or fail; of EXISTS, those that nothing else lets in

Of an EXISTS inside of another, these are the rows of the outer one with the rows inside on which that fails.

In the plan that comes out, what can fail is found in projections, aggregates and filters on top of blocks only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from millstream.kernel.aggregation.accumulators import OVERFLOW_HINT
from millstream.kernel.aggregation.aggregate_values import SEVERAL_HINT
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import (
    TRUE,
    Call,
    Case,
    Column,
    Expression,
    Literal,
    Reported,
    columns_used,
    conjunction,
    conjuncts,
    error_text,
    fails,
    map_columns,
    possible,
    shift_columns,
)
from millstream.plan import nodes as lo
from millstream.plan.algebra.error_relations import Errors, ErrorSeparation, Noted, held, possibly, tried
from millstream.plan.algebra.outer_joins import columns
from millstream.plan.rules.context import Context
from millstream.types import BOOLEAN, STRING

_COMPARISONS = {"=", "<>", "<", "<=", ">", ">=", "<=>"}


def place_failures(plan: lo.Node, context: Context) -> lo.Node:
    """An equivalent plan that fails by the rules, however it is rewritten from now on."""
    if not any(_has_errors(node) or any(map(can_fail, node.computed)) for node in plan.walk()):
        return plan
    placing = _Placing()
    placed = placing.place(plan)
    # What reports errors has been put where it is read, but for what stands on top of a block.
    errors = tuple(dict.fromkeys(found for _, found in placing.errors + placing.of_streams))
    return lo.Checked(placed, errors) if errors else placed


# Existences that can fail: as they are where nothing fails; or true, or true or failing, also where something does.
_Reading = OneOf["usual", "sure", "possible"]
_OPPOSITE: dict[_Reading, _Reading] = {"usual": "usual", "sure": "possible", "possible": "sure"}


@dataclass
class _Block:
    """How the conditions of a block are written this time: `form` of those that can fail, by number and by whether they
    are keys; `reading` of existences; and that which is looked for errors in, if one is. It collects what it meets."""

    form: Callable[[int, Expression, bool], Expression]
    reading: _Reading = "usual"
    erring: int | None = None
    found: list[tuple[Expression, bool]] = field(default_factory=list)  # over the row of the block; whether it is a key
    existences: int = 0
    in_existence: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class _Part:
    """A part of a block: its plan, and the columns that the original has, as expressions over the plan's row."""

    plan: lo.Node
    columns: tuple[Expression, ...]


@dataclass(frozen=True)
class _Partners:
    """What an existence is about: rows, and conditions over pairs with them, of which some can fail."""

    plan: lo.Node
    conditions: Sequence[Expression]
    fragile: tuple[Expression, ...]
    existences: int  # inside, that can fail
    erring: tuple[Expression, ...]  # of that which is looked for errors in
    source_errors: Errors | None  # of what the rows are made of

    @property
    def ways(self) -> int:
        """In how many ways it can fail: by conditions of its own, each existence inside that can, or its source."""
        return bool(self.fragile) + self.existences + (self.source_errors is not None)


class _Placing:
    def __init__(self) -> None:
        self.errors: list[tuple[int, lo.Failing]] = []  # each with how many blocks it lies below the outermost
        self.of_streams: list[tuple[int, lo.Failing]] = []  # which fail as they come, whatever is read of them
        self.depth = 0

    def place(self, node: lo.Node) -> lo.Node:
        if _is_of_block(node):
            part = self._block(node)
            if part.columns == columns(part.plan.schema):
                return part.plan
            return lo.Project(part.plan, part.columns, tuple(f.name for f in node.schema))
        if isinstance(node, lo.Project) and not node.role and _is_of_block(node.input):
            return self._selected(node)
        if isinstance(node, lo.Project) and node.role == "domain":
            return _quiet(node)
        if isinstance(node, lo.Join):
            return self._outer(node)
        noted = self.errors
        if node.kind == "stream":
            self.errors = self.of_streams
        children = tuple(self.place(child) for child in node.children)
        self.errors = noted
        return node.with_children(children) if node.children else node

    def _selected(self, node: lo.Project) -> lo.Node:
        """The SELECT list of a block: what it makes of aggregates fails where that is chosen."""
        part = self._block(node.input)
        if any(map(can_fail, part.columns)):
            return replace(node, input=part.plan, expressions=tuple(_over(e, part.columns) for e in node.expressions))
        names = tuple(f.name for f in node.input.schema)
        plain = part.columns == columns(part.plan.schema)
        return replace(node, input=part.plan if plain else lo.Project(part.plan, part.columns, names))

    def _outer(self, join: lo.Join) -> lo.Node:
        """ON of an outer join: an AND of its own over the pairs."""
        left, right = self.place(join.left), self.place(join.right)
        parts = conjuncts(join.condition)
        for fragile in filter(can_fail, parts):
            others = [possibly(part) for part in parts if part is not fragile]
            for failing in _ways_to_fail(fragile):
                pairs = lo.Filter(lo.Join(left, right, "inner"), conjunction([*others, failing]))
                self._note(lo.Failing(pairs, (fragile,)))
        return replace(join, left=left, right=right, condition=conjunction(list(map(held, parts))))

    def _block(self, node: lo.Node) -> _Part:
        usual = _Block(lambda number, condition, is_key: held(condition) if is_key else possible(condition))
        part = self._part(node, usual)
        if usual.found or usual.existences:
            # Inputs are placed once: what fails in them is noted already.
            noted, self.errors = self.errors, []
            keys = (number for number, (_, is_key) in enumerate(usual.found) if is_key)
            found = [failing for number in keys for failing in self._failing_key(node, number)]
            found += (self._failing_existence(node, number) for number in range(usual.existences))
            self.errors = noted
            for failing in found:
                self._note(failing)
        on_top = [condition for condition, is_key in usual.found if not is_key]
        return replace(part, plan=lo.Filter(part.plan, conjunction(on_top))) if on_top else part

    def _note(self, errors: lo.Failing) -> None:
        self.errors.append((self.depth, errors))

    def _failing_key(self, node: lo.Node, number: int) -> list[lo.Failing]:
        block = _Block(lambda n, condition, _: TRUE if n == number else possible(condition))
        plan, condition = self._part(node, block).plan, block.found[number][0]
        return [lo.Failing(lo.Filter(plan, failing), (condition,)) for failing in _ways_to_fail(condition)]

    def _failing_existence(self, node: lo.Node, number: int) -> lo.Failing:
        block = _Block(_as_possible, "possible", number)
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
        if isinstance(node, lo.Aggregate) and _has_errors(node):
            return _reporting(replace(node, input=self.place(node.input)))
        if isinstance(node, lo.Join) and node.attached:
            return self._attached(node, self._part(node.left, block))
        if isinstance(node, lo.Join) and _is_padded(node):
            return _attaching(node, _whole(self.place(node.left)), self._value(node.right))
        if isinstance(node, lo.Join) and node.join in ("semi", "anti"):
            return self._existence(node, block)
        self.depth += 1
        source = self.place(node)
        self.depth -= 1
        return _whole(source)

    def _attached(self, node: lo.Join, left: _Part) -> _Part:
        """A block with the value of a subquery, and beside it what failed on the way to it: to be read with it."""
        noted, self.errors = self.errors, []
        value, width = self._value(node.right), len(left.plan.schema)
        inside, self.errors = self.errors, noted
        keys = len(conjuncts(node.condition))
        below = [Noted(errors, depth > self.depth) for depth, errors in inside]
        separated = ErrorSeparation(value.plan, below, keys, above=2)
        attached = _attaching(node, left, replace(value, plan=separated.plan))
        operands = [_over(part.children[0], left.columns) for part in conjuncts(node.condition)]
        texts: list[Expression] = [error_text(e) for e in operands if can_fail(e)]
        plan, own = attached.plan, len(left.columns) + keys
        suffices = _suffices(node.right, shift_columns(value.columns[keys], width))
        for errors in separated.errors:
            at = len(plan.schema)
            pairs = zip(operands[: errors.keys], columns(errors.plan.schema), strict=False)
            same = [Call(BOOLEAN, "<=>", (tried(one), shift_columns(other, at))) for one, other in pairs]
            plan = lo.Join(plan, errors.least, "left", conjunction(list(same)))
            text: Expression = Column(STRING, at + errors.keys, "error")
            if suffices is not None and not errors.source:
                text = Case(STRING, ((suffices, Literal(STRING, None)),), text)
            texts.append(text)
        found = [*attached.columns]
        for text in texts:
            found[own:] = [Reported(column.type, column, text) for column in found[own:]]
        return _Part(plan, tuple(found))

    def _value(self, node: lo.Node) -> _Part:
        """What is attached to a block: where that is no value, as of two rows, it is for the block to read."""
        if isinstance(node, lo.Aggregate) and _has_errors(node):
            return self._block(node)
        if not (isinstance(node, lo.Project) and isinstance(node.input, lo.Aggregate) and _has_errors(node.input)):
            return _whole(self.place(node))
        part = self._block(node.input)
        own, width = columns(part.plan.schema), len(part.plan.schema)
        others = tuple(e for e in node.expressions if not isinstance(e, Column))
        names = (*(field.name for field in part.plan.schema), *map(str, others))
        places = {e: Column(e.type, width + place, str(e)) for place, e in enumerate(others)}
        found = (part.columns[e.index] if isinstance(e, Column) else places[e] for e in node.expressions)
        return _Part(lo.Project(part.plan, (*own, *others), names), tuple(found))

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
        found = _columns_of_both(left, right)
        joined = replace(node, left=left.plan, right=right.plan, condition=TRUE)
        owners = _owners(joined)
        own = [_written(part, owners, block) for part in conjuncts(_over(node.condition, found))]
        return _Part(replace(joined, condition=_all_of(own)), found)

    def _existence(self, node: lo.Join, block: _Block) -> _Part:
        left = self._part(node.left, block)
        partners = self._partners(node, left, _Block(_as_possible))
        first = block.existences
        block.existences += partners.ways
        if block.erring is not None and first <= block.erring < block.existences:
            return replace(left, plan=self._erring(node, left, partners, block.erring - first, block))
        reading = block.reading if node.join == "semi" else _OPPOSITE[block.reading]
        if partners.existences and reading != "usual":
            partners = self._partners(node, left, _Block(_as_possible, reading))
        form = possibly if reading == "possible" else held
        condition = conjunction(list(map(form, partners.conditions)))
        joined = replace(node, left=left.plan, right=partners.plan, condition=condition)
        return replace(left, plan=_as_read(joined, partners.source_errors, block.reading))

    def _partners(self, node: lo.Join, left: _Part, inner: _Block) -> _Partners:
        noted, self.errors = self.errors, []
        right, width = self._part(node.right, inner), len(left.plan.schema)
        inside, self.errors = self.errors, noted
        separated = ErrorSeparation(right.plan, [Noted(errors, True) for _, errors in inside])
        conditions = conjuncts(_over(node.condition, _columns_of_both(left, right)))
        conditions += [shift_columns(condition, width) for condition, _ in inner.found]
        erring = tuple(shift_columns(condition, width) for condition in inner.in_existence)
        fragile = tuple(filter(can_fail, conditions))
        return _Partners(separated.plan, conditions, fragile, inner.existences, erring, separated.all_errors)

    def _erring(self, node: lo.Join, left: _Part, partners: _Partners, way: int, block: _Block) -> lo.Node:
        """Pairs of rows on which an EXISTS fails in this way and none is false, unless another makes it true."""
        sure, own = partners, way == 0 and bool(partners.fragile)
        if partners.source_errors is not None and way == partners.ways - 1:
            text = Column(STRING, len(left.plan.schema), "error")
            block.in_existence = (Reported(BOOLEAN, TRUE, text),)
            return lo.Join(left.plan, partners.source_errors.plan, "inner")
        if partners.existences:
            erring = None if own else way - bool(partners.fragile)
            sure = self._partners(node, left, _Block(_as_possible, "sure"))
            partners = self._partners(node, left, _Block(_as_possible, "possible", erring))
        conditions = list(map(possibly, partners.conditions))
        if own:
            conditions.append(_any_of([way for condition in partners.fragile for way in _ways_to_fail(condition)]))
        block.in_existence = partners.fragile if own else partners.erring
        pairs = lo.Filter(lo.Join(left.plan, partners.plan, "inner"), conjunction(conditions))
        true = conjunction(list(map(held, sure.conditions)))
        return _without(pairs, lo.Filter(lo.Join(left.plan, sure.plan, "inner"), true), columns(left.plan.schema))


def _attaching(node: lo.Join, left: _Part, right: _Part) -> _Part:
    found = _columns_of_both(left, right)
    condition = conjunction([held(part) for part in conjuncts(_over(node.condition, found))])
    return _Part(replace(node, left=left.plan, right=right.plan, condition=condition), found)


def _suffices(value: lo.Node, first: Expression) -> Expression | None:
    """Of a subquery of which only existence counts: the condition on its first column that it is there for sure."""
    counted = value.children[0] if isinstance(value, lo.Project) else value
    if isinstance(counted, lo.Aggregate) and counted.calls[0].function in ("count", "count_if"):
        return Call(BOOLEAN, ">", (first, Literal(first.type, 0)))
    return None


def _as_read(joined: lo.Join, source_errors: Errors | None, reading: _Reading) -> lo.Node:
    """An existence that fails where its source does: then it is not sure, and possible."""
    if source_errors is None or reading == "usual":
        return joined
    if reading == "sure":
        return lo.Join(joined, source_errors.plan, "anti")
    others = replace(joined, join="anti" if joined.join == "semi" else "semi")
    return lo.SetOperation("union all", joined, lo.Join(others, source_errors.plan, "semi"))


def _without(pairs: lo.Node, matched: lo.Node, own: tuple[Column, ...]) -> lo.Node:
    """The pairs whose own columns, the first, are in none that is matched."""
    width = len(pairs.schema)
    same = [Call(BOOLEAN, "<=>", (column, replace(column, index=column.index + width))) for column in own]
    names = tuple(column.name for column in own)
    return lo.Join(pairs, lo.Project(matched, own, names), "anti", conjunction(list(same)))


def _any_of(conditions: Sequence[Expression]) -> Expression:
    found = conditions[0]
    for other in conditions[1:]:
        found = Call(BOOLEAN, "or", (found, other))
    return found


def _whole(plan: lo.Node) -> _Part:
    return _Part(plan, columns(plan.schema))


def _has_errors(node: lo.Node) -> bool:
    """Whether it is an aggregate that may have no value for a group."""
    return isinstance(node, lo.Aggregate) and any(call.error is not None for call in node.calls)


def _is_padded(node: lo.Join) -> bool:
    """Whether groups over nothing are added to such an aggregate."""
    return node.join == "left" and _has_errors(node.right)


def _reporting(node: lo.Aggregate) -> _Part:
    """An aggregate that tells its errors, each beside the value that is missing."""
    errors = tuple(dict.fromkeys(call.error for call in node.calls if call.error is not None))
    plan = replace(node, calls=(*node.calls, *errors))
    own: list[Expression] = [*columns(node.schema)]
    first = len(node.schema)
    for place, call in enumerate(node.calls, start=len(node.keys)):
        if call.error is not None:
            error = Column(STRING, first + errors.index(call.error), str(call.error))
            own[place] = Reported(call.type, own[place], error, _hint(call))
    return _Part(plan, tuple(own))


def _hint(call: lo.AggregateCall) -> str | None:
    if call.definition is not None:
        return None
    return SEVERAL_HINT if call.function == "single_value" else OVERFLOW_HINT


def _is_of_block(node: lo.Node) -> bool:
    match node:
        case lo.Aggregate():
            return _has_errors(node)
        case lo.Filter() | lo.Project(role="within") | lo.Join(join="inner" | "semi" | "anti"):
            return True
        case lo.Join():
            return node.attached or _is_padded(node)
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


def _columns_of_both(left: _Part, right: _Part) -> tuple[Expression, ...]:
    width = len(left.plan.schema)
    return (*left.columns, *(shift_columns(column, width) for column in right.columns))


def _quiet(node: lo.Node) -> lo.Node:
    """A copy of what stands elsewhere too, where it fails if it does."""

    def change(part: lo.Node) -> lo.Node:
        if isinstance(part, lo.Aggregate) and _has_errors(part):
            separated = _reporting(part)
            return lo.Project(separated.plan, tuple(map(tried, separated.columns)), tuple(f.name for f in part.schema))
        if isinstance(part, lo.Filter | lo.Join):
            return lo.map_expressions(part, lambda e: conjunction(list(map(held, conjuncts(e)))))
        return lo.map_expressions(part, tried)

    return node.transform(change)
