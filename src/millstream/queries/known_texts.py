"""Texts that are not even parsed, since what they are bound to is known from others.

They differ from another text in constants only; or their conditions are made of comparisons all of which others had, in
whatever combination.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from millstream.errors import Error
from millstream.kernel.scalar.expressions import Call, Column, Expression, Literal, Parameter
from millstream.language import statements as st
from millstream.language.comparisons import Combined, Comparison, Comparisons, comparisons_in
from millstream.language.literal_masks import (
    ConstantSource,
    Masked,
    converted,
    markable,
    masked,
    sources_of,
    with_marks,
)
from millstream.language.statement_parser import parse_query
from millstream.plan.grouping import Cut, Split, shape_of, split
from millstream.plan.lowering.matches import LazyPlan, is_fragile
from millstream.plan.own_windows import have_room
from millstream.plan.shapes import Shape, generalised
from millstream.queries.planner import Planned, Planner
from millstream.queries.templates import GroupTemplate
from millstream.types import BOOLEAN, STRING, DataType

# How much is remembered at most: texts that were seen once, plans, and for each of these shapes.
_SEEN, _LEARNED, _SHAPES = 100_000, 1_000, 10_000
_INPUTS = 3  # of a join whose conditions are taken apart
_TRIED = 8  # times that texts are tried to be learned which differ in constants only
_LONGEST = 1 << 60  # ticks of a window


@dataclass(frozen=True, eq=False)
class Recognised:
    """What a text is bound to: a plan that differs in the condition at most, and the condition as shape and values; in
    mode LAZY, also what is done with the matches."""

    planned: Planned
    split: Split
    shape: Shape
    values: tuple[object, ...]
    lazy: LazyPlan | None = None


TakenApart = tuple[LazyPlan | None, Split]


def in_mode_eager(planned: Planned, cut: Cut = "from") -> TakenApart | None:
    """How a query is taken apart for a group."""
    found = split(planned.bound.plan, cut)
    return None if found is None else (None, found)


@dataclass(frozen=True, eq=False)
class KnownText:
    """Texts of one shape: which constant is which parameter, and the other constants, which are the same in all of
    them."""

    planned: Planned
    taken: TakenApart
    shape: Shape
    sources: tuple[ConstantSource, ...]
    fixed: tuple[tuple[int, Literal], ...]

    def recognised(self, found: Masked) -> Recognised | None:
        """None where another constant is different, or one is not of its parameter's type."""
        if any(found.constants[number] != constant for number, constant in self.fixed):
            return None
        kinds = self.shape.parameters
        values = tuple([source.value_in(found, kind) for source, kind in zip(self.sources, kinds, strict=True)])
        if any(value is None for value in values) or not self._are_sizes(values):
            return None
        lazy, found_split = self.taken
        return Recognised(self.planned, found_split, self.shape, values, lazy)

    def _are_sizes(self, values: Sequence[object]) -> bool:
        """Whether windows may have these sizes: of others the binder says what is wrong with them."""
        split = self.taken[1]
        if split.window is None:
            return True
        sizes = [values[at] for at in split.window.sizes]
        are_sizes = all(isinstance(size, int) and 0 < size < _LONGEST for size in sizes)
        return are_sizes and have_room(split.core, [size for size in sizes if isinstance(size, int)])


@dataclass(frozen=True, eq=False)
class KnownComparisons:
    """Comparisons that conditions of texts were made of which are the same around them."""

    planned: Planned
    split: Split
    lazy: LazyPlan | None
    inputs: list[str] = field(default_factory=list)  # of a join, in the order of their conditions, as far as known
    comparisons: dict[Comparison, tuple[Expression, DataType]] = field(default_factory=dict)
    parts: dict[tuple[Comparison, int], Expression] = field(default_factory=dict)  # with a parameter's number
    shapes: dict[tuple[Combined, tuple[Comparison, ...]], Shape] = field(default_factory=dict)  # of whole conditions

    def learn(self, found: Comparisons, condition: Expression) -> bool:
        """Find the comparisons of a text in what its condition was bound to, if they are all there and nothing else."""
        if not self.split.is_join:
            learned = self._found(found, condition)
            self.comparisons.update(learned or {})
            return learned is not None
        if (inputs := found.inputs) is None or len(inputs) > _INPUTS:
            return False
        orders = {order: self._found(found.by_input(order), condition) for order in permutations(inputs)}
        fitting = [(order, made) for order, made in orders.items() if made is not None and _are_of_their_columns(made)]
        if len(fitting) != 1:
            return False  # which of them is about which input is not certain
        ((order, learned),) = fitting
        if len(order) > len(self.inputs):
            self.inputs[:] = order
        self.comparisons.update(learned)
        return True

    def _found(self, found: Comparisons, condition: Expression) -> dict[Comparison, tuple[Expression, DataType]] | None:
        places = [Parameter(BOOLEAN, number) for number in range(len(found.comparisons))]
        bound = dict[int, Expression]()
        if not _found_in_place(found.bound(places), condition, bound):
            return None
        learned = {}
        for number, (comparison, constants) in enumerate(zip(found.comparisons, found.constants, strict=True)):
            general, taken = generalised(bound[number])
            kinds = [constant.type for constant in taken]
            if len(taken) != len(constants) or len({*kinds}) != 1:
                return None
            if [constant.value for constant in taken] != [*map(_converted, constants, kinds)]:
                return None
            learned[comparison] = general, kinds[0]
        return learned

    def recognised(self, found: Comparisons) -> Recognised | None:
        """None where a comparison is new, or a constant not of its parameter's type."""
        if self.split.is_join:
            if (inputs := found.inputs) is None or (len(inputs) > 1 and not {*inputs} <= {*self.inputs}):
                return None
            found = found.by_input(self.inputs if len(inputs) > 1 else inputs)
        known = [self.comparisons.get(comparison) for comparison in found.comparisons]
        if None in known:
            return None
        given = zip(known, found.constants, strict=True)
        values = [_converted(each, one[1]) for one, constants in given if one is not None for each in constants]
        if None in values:
            return None
        key = found.combined, found.comparisons
        shape = self.shapes.get(key)
        if shape is None:
            if len(self.shapes) >= _SHAPES:
                self.shapes.clear()
            kinds, parts = [constant.type for constant in self.split.constants], []
            for comparison, constants in zip(found.comparisons, found.constants, strict=True):
                parts.append(self._part(comparison, len(kinds)))
                kinds += [self.comparisons[comparison][1]] * len(constants)
            shape = self.shapes[key] = Shape(found.bound(parts), tuple(kinds), self.split.own_columns)
        own = (constant.value for constant in self.split.constants)
        return Recognised(self.planned, self.split, shape, (*own, *values), self.lazy)

    def _part(self, comparison: Comparison, place: int) -> Expression:
        """A comparison with parameters from a number on."""
        if (comparison, place) not in self.parts:

            def numbered(node: Expression) -> Expression:
                return Parameter(node.type, place + node.index) if isinstance(node, Parameter) else node

            self.parts[comparison, place] = self.comparisons[comparison][0].transform(numbered)
        return self.parts[comparison, place]


def _are_of_their_columns(made: Mapping[Comparison, tuple[Expression, DataType]]) -> bool:
    """Whether comparisons are of columns of the names that were written."""
    columns = {
        comparison: {part.name for part in general.walk() if isinstance(part, Column)}
        for comparison, (general, _) in made.items()
    }
    return all(names == {written.rpartition(".")[2]} for (written, _, _), names in columns.items())


def _found_in_place(pattern: Expression, condition: Expression, found: dict[int, Expression]) -> bool:
    """Whether a condition is what a pattern says; `found` gets what stands where that has parameters."""
    if isinstance(pattern, Parameter):
        found[pattern.index] = condition
        return True
    if not (isinstance(pattern, Call) and isinstance(condition, Call) and pattern.function == condition.function):
        return False
    pairs = zip(pattern.arguments, condition.arguments, strict=True)
    return all(_found_in_place(one, other, found) for one, other in pairs)


def _converted(constant: Literal, kind: DataType) -> object | None:
    """A text as a text only: which type a column that it is compared with gets may depend on what it says."""
    return None if (constant.type == STRING) != (kind == STRING) else converted(constant, kind)


class KnownTexts:
    """Those of one mode that were learned from queries of this process; `taken` says how these are taken apart."""

    def __init__(self, planner: Planner, taken: Callable[[Planned, Cut], TakenApart | None] = in_mode_eager) -> None:
        self.planner, self._taken = planner, taken
        self._texts: dict[tuple[str, ...], list[KnownText]] = {}
        self._conditions: dict[object, KnownComparisons] = {}  # by what stands around them
        self._seen: set[int] = set()  # hashes of texts that were seen once
        self._tried: dict[tuple[str, ...], int] = {}  # how often texts were tried to be learned
        self._under: object = None  # what names meant when they were learned
        # A text that is to be learned when another one comes, if names mean the same then.
        self._last: tuple[str, Planned, object] | None = None

    def find(self, text: str) -> Iterator[Recognised]:
        """What a text may be bound to: the groups that it could be in are different ones."""
        if self._under is not self.planner.session.declared.meaning:
            self._texts.clear()
            self._conditions.clear()
            self._tried.clear()
            self._under = self.planner.session.declared.meaning
        if self._last is not None:
            (last, planned, under), self._last = self._last, None
            if under is self._under:
                self.learn_comparisons(last, planned)
        compared = self._by_comparisons(text)
        if compared is not None:
            yield compared
        found = masked(text) if self._texts else None
        if found is None:
            return
        for known in self._texts.get(found.tokens, ()):
            recognised = known.recognised(found)
            if recognised is not None:
                yield recognised

    def _by_comparisons(self, text: str) -> Recognised | None:
        condition = comparisons_in(text)
        known = None if condition is None else self._conditions.get(condition.around)
        return None if condition is None or known is None else known.recognised(condition)

    def note(self, statement: st.AdHocQuery, planned: Planned, template: GroupTemplate) -> None:
        """A text was registered. Its comparisons are learned; where that does not do, the whole text is when one like
        it comes again, since most never do."""
        found = masked(statement.place.text)
        if found is None:
            return
        if template.group.split.cut == "from":
            self.learn_comparisons(statement.place.text, planned, found)
        if hash(found.tokens) in self._seen:
            self._learn(found, statement.place.text, planned, template)
            return
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen.add(hash(found.tokens))

    def learn_with_next(self, text: str, planned: Planned) -> None:
        """Have the comparisons of a text learned when another one comes, if there ever is one."""
        self._last = text, planned, self.planner.session.declared.meaning

    def learn_comparisons(self, text: str, planned: Planned, found: Masked | None = None) -> bool:
        """Where nothing can fail: there conditions are changed by no rule. Those of joins are moved to their inputs."""
        condition, plan = comparisons_in(text), planned.bound.plan
        if condition is None or is_fragile(plan):
            return False
        found = found or masked(text)
        if found is None or found.where != condition.where:
            return False
        apart = self._taken(planned, "from")
        if apart is None or (apart[1].is_join and apart[0] is not None):
            return False
        (lazy, taken), known = apart, self._conditions.get(condition.around)
        if known is None:
            known = KnownComparisons(planned, taken, lazy)
        elif known.split.skeleton != taken.skeleton:
            return False
        if len(self._conditions) >= _LEARNED:
            self._conditions.clear()
        self._conditions[condition.around] = known
        return known.learn(condition, taken.condition)

    def _learn(self, found: Masked, text: str, planned: Planned, template: GroupTemplate) -> None:
        """Find out which constants of a text are which parameters of its template. Where not all of them can be others,
        each is tried for itself."""
        tried = self._tried.get(found.tokens, 0)
        if tried >= _TRIED:
            return  # such texts differ in what their group has in common
        self._tried[found.tokens] = tried + 1
        wanted = markable(found)
        known = self._known(found, text, template, wanted)
        if known is None:
            free = [each for each in wanted if self._known(found, text, template, [each]) is not None]
            known = self._known(found, text, template, free) if free else None
        own = self._taken(planned, template.group.split.cut)
        if known is None or own is None:
            return
        recognised = known.recognised(found)
        if recognised is not None and recognised.values == shape_of(own[1])[1]:
            if len(self._texts) >= _LEARNED:
                self._texts.clear()
            self._texts.setdefault(found.tokens, []).append(known)

    def _known(self, found: Masked, text: str, template: GroupTemplate, wanted: Sequence[int]) -> KnownText | None:
        """What texts are bound to with others of some constants; None unless that is the same but for parameters."""
        probe, marks = with_marks(text, found, wanted)
        try:
            planned = self.planner.plan(probe, parse_query(probe))
        except Error:
            return None  # a mark is no date, say
        if [f.name for f in planned.bound.schema] != [f.name for f in template.bound.schema]:
            return None
        taken = self._taken(planned, template.group.split.cut)
        if taken is None or taken[1].skeleton != template.group.split.skeleton:
            return None
        shape, values = shape_of(taken[1])
        window = taken[1].window
        if shape.name != template.shape.name:
            return None
        sources = sources_of(values, shape.parameters, marks, window.sizes if window is not None else ())
        if sources is None:
            return None
        fixed = tuple((n, constant) for n, constant in enumerate(found.constants) if n not in marks)
        return KnownText(planned, taken, shape, sources, fixed)
