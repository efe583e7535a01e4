"""Texts that are not even parsed, since what they are bound to is known from others.

They differ from another text in constants only; or their conditions are conjunctions of comparisons all of which others
had, in whatever combination.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.errors import Error
from millstream.kernel.scalar.expressions import Expression, Literal, Parameter, conjunction, conjuncts
from millstream.language import statements as st
from millstream.language.comparisons import Comparison, Comparisons, comparisons_in
from millstream.language.literal_masks import Masked, converted, in_conditions, masked, sources_of, with_marks
from millstream.language.statement_parser import parse_query
from millstream.plan.grouping import Shape, Split, generalised, shape_of, split
from millstream.plan.lowering.matches import is_fragile
from millstream.queries.planner import Planned, Planner
from millstream.queries.templates import GroupTemplate
from millstream.types import STRING, DataType

# How much is remembered at most: texts that were seen once, plans, and for each of these shapes.
_SEEN, _LEARNED, _SHAPES = 100_000, 1_000, 10_000


@dataclass(frozen=True, eq=False)
class Recognised:
    """What a text is bound to: a plan that differs in the condition at most, and the condition as shape and values."""

    planned: Planned
    split: Split
    shape: Shape
    values: tuple[object, ...]


@dataclass(frozen=True, eq=False)
class KnownText:
    """Texts of one shape: which constant is which parameter, and the other constants, which are the same in all of
    them."""

    planned: Planned
    split: Split
    shape: Shape
    sources: tuple[int, ...]
    fixed: tuple[tuple[int, Literal], ...]

    def recognised(self, found: Masked) -> Recognised | None:
        """None where a constant is not of its parameter's type."""
        kinds = self.shape.parameters
        values = [converted(found.constants[n], kind) for n, kind in zip(self.sources, kinds, strict=True)]
        return None if None in values else Recognised(self.planned, self.split, self.shape, tuple(values))


@dataclass(frozen=True, eq=False)
class KnownComparisons:
    """Comparisons that conditions of texts were made of which are the same around them."""

    planned: Planned
    split: Split
    comparisons: dict[Comparison, tuple[Expression, DataType]] = field(default_factory=dict)
    parts: dict[tuple[Comparison, int], Expression] = field(default_factory=dict)  # with a parameter's number
    shapes: dict[tuple[Comparison, ...], Shape] = field(default_factory=dict)  # of whole conditions

    def learn(self, found: Comparisons, condition: Expression) -> bool:
        """Find the comparisons of a text in what its condition was bound to, if they are all there and nothing else."""
        bound = conjuncts(condition)
        if len(bound) != len(found.comparisons):
            return False
        learned = {}
        for comparison, constant, expression in zip(found.comparisons, found.constants, bound, strict=True):
            general, taken = generalised(expression)
            if len(taken) != 1 or taken[0].value != _converted(constant, taken[0].type):
                return False
            learned[comparison] = general, taken[0].type
        self.comparisons.update(learned)
        return True

    def recognised(self, found: Comparisons) -> Recognised | None:
        """None where a comparison is new, or a constant not of its parameter's type."""
        known = [self.comparisons.get(comparison) for comparison in found.comparisons]
        values = [c and _converted(constant, c[1]) for c, constant in zip(known, found.constants, strict=True)]
        if None in values:
            return None
        shape = self.shapes.get(found.comparisons)
        if shape is None:
            if len(self.shapes) >= _SHAPES:
                self.shapes.clear()
            first = len(self.split.constants)
            parts = [self._part(comparison, place) for place, comparison in enumerate(found.comparisons, first)]
            kinds = *(c.type for c in self.split.constants), *(c[1] for c in known if c is not None)
            shape = Shape(conjunction(parts), kinds, self.split.own_columns)
            self.shapes[found.comparisons] = shape
        own = (constant.value for constant in self.split.constants)
        return Recognised(self.planned, self.split, shape, (*own, *values))

    def _part(self, comparison: Comparison, place: int) -> Expression:
        """A comparison with the parameter of its place in a condition."""
        if (comparison, place) not in self.parts:
            general, kind = self.comparisons[comparison]
            numbered = Parameter(kind, place)
            changed = general.transform(lambda e: numbered if isinstance(e, Parameter) else e)
            self.parts[comparison, place] = changed
        return self.parts[comparison, place]


def _converted(constant: Literal, kind: DataType) -> object | None:
    """A text as a text only: which type a column that it is compared with gets may depend on what it says."""
    return None if (constant.type == STRING) != (kind == STRING) else converted(constant, kind)


class KnownTexts:
    """Those that were learned from queries of this process."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self._texts: dict[tuple[str, ...], list[KnownText]] = {}
        self._conditions: dict[object, KnownComparisons] = {}  # by what stands around them
        self._seen: set[int] = set()  # hashes of texts that were seen once
        self._under: object = None  # what names meant when they were learned

    def find(self, text: str) -> Recognised | None:
        if self._under is not self.planner.session.declared.meaning:
            self._texts.clear()
            self._conditions.clear()
            self._under = self.planner.session.declared.meaning
        return self._by_comparisons(text) or self._by_mask(text)

    def _by_comparisons(self, text: str) -> Recognised | None:
        condition = comparisons_in(text)
        known = None if condition is None else self._conditions.get(condition.around)
        return None if condition is None or known is None else known.recognised(condition)

    def _by_mask(self, text: str) -> Recognised | None:
        found = masked(text) if self._texts else None
        if found is None:
            return None
        for known in self._texts.get(found.tokens, ()):
            if all(found.constants[number] == constant for number, constant in known.fixed):
                return known.recognised(found)
        return None

    def note(self, statement: st.AdHocQuery, planned: Planned, template: GroupTemplate) -> None:
        """A text was registered. Its comparisons are learned; where that does not do, the whole text is when it comes
        the second time, since most will never come again."""
        found = masked(statement.place.text)
        if found is None or self.learn_comparisons(statement.place.text, planned, found):
            return
        if hash(found.tokens) in self._seen:
            self._learn(found, statement, template)
            return
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen.add(hash(found.tokens))

    def learn_comparisons(self, text: str, planned: Planned, found: Masked | None = None) -> bool:
        """Of one input, where nothing can fail: there conditions are moved and changed by no rule."""
        condition, plan = comparisons_in(text), planned.bound.plan
        if condition is None or is_fragile(plan):
            return False
        found = found or masked(text)
        if found is None or found.where != condition.where:
            return False
        taken = split(plan)
        if taken is None or taken.is_join:
            return False
        known = self._conditions.get(condition.around)
        if known is None:
            known = KnownComparisons(planned, taken)
        elif known.split.skeleton != taken.skeleton:
            return False
        if len(self._conditions) >= _LEARNED:
            self._conditions.clear()
        self._conditions[condition.around] = known
        return known.learn(condition, taken.condition)

    def _learn(self, found: Masked, statement: st.AdHocQuery, template: GroupTemplate) -> None:
        """Find out which constants of a text are which parameters of its template."""
        text = statement.place.text
        wanted = in_conditions(statement.query, found)
        probe, marks = with_marks(text, found, wanted)
        try:
            planned = self.planner.plan(probe, parse_query(probe))
        except Error:
            return  # a mark is no date, say; such texts are bound one by one
        taken = split(planned.bound.plan)
        if taken is None or taken.skeleton != template.group.split.skeleton:
            return
        shape, values = shape_of(taken)
        sources = sources_of(values, shape.parameters, marks) if shape.name == template.shape.name else None
        if sources is not None:
            fixed = tuple((n, constant) for n, constant in enumerate(found.constants) if n not in marks)
            if len(self._texts) >= _LEARNED:
                self._texts.clear()
            self._texts.setdefault(found.tokens, []).append(KnownText(planned, taken, shape, sources, fixed))
