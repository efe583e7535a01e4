"""Conditions in conjunctive normal form, of atoms that an index over one attribute can answer.

    condition  IS TRUE  on a row   iff   in every clause some atom is true, and every residual condition is

NOT is pushed down to the comparisons first. In three-valued logic De Morgan's laws and distribution hold as they do in
two-valued logic, and what remains is monotone: it suffices to know of each atom where it is true. Unknown counts as not
true, so that an atom whose operand is NULL holds nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from millstream.kernel.scalar.expressions import (
    TRUE,
    Call,
    Cast,
    Column,
    Expression,
    InList,
    Literal,
    column_names,
    columns_used,
    conjuncts,
)
from millstream.kernel.sharing.parameters import never_fails
from millstream.types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGER_BITS,
    INTERVAL,
    STRING,
    DataType,
)

_NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "isnull": "isnotnull"}
_NEGATED |= {"isnotnull": "isnull", "in": "not in", "prefix": "not prefix", "<=>": "not <=>"}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}
_FALSE_OR_NULL = (Literal(BOOLEAN, False), Literal(BOOLEAN, None))


@dataclass(frozen=True)
class Atom:
    """A comparison of one attribute with constants of the query.

    The operators are =, <>, <, <=, >, >=, <=>, not <=>, in, not in, isnull, isnotnull, prefix and not prefix. The
    attribute is a column or a cast of one; casts that change neither the order nor which values are equal are left out.
    """

    attribute: Expression
    operator: str
    operands: tuple[Expression, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.operands))
        return f"{self.attribute} {self.operator} {shown}".rstrip()


@dataclass(frozen=True)
class NormalForm:
    """What a row must satisfy: an atom of each clause, and each residual condition. An empty clause is never true."""

    clauses: tuple[tuple[Atom, ...], ...]
    residual: tuple[Expression, ...]


def normal_form(condition: Expression, cap: int = 64) -> NormalForm:
    """A conjunct that would become more than `cap` clauses is left whole, as is one with a part that is no atom; what
    its other parts imply stands beside it."""
    return _normal_form(condition, column_names(condition), cap)


@lru_cache(maxsize=1 << 14)
def _normal_form(condition: Expression, names: tuple[str, ...], cap: int) -> NormalForm:
    clauses: dict[tuple[Atom, ...], None] = {}
    residual: list[Expression] = []
    for conjunct in conjuncts(_pushed(condition, False)):
        found, is_whole = _clauses(conjunct, column_names(conjunct), cap)
        clauses |= dict.fromkeys(found)
        if not is_whole:
            residual.append(conjunct)
    return NormalForm(tuple(clauses), tuple(residual))


@lru_cache(maxsize=1 << 12)  # many conditions are made of few conjuncts
def _clauses(conjunct: Expression, names: tuple[str, ...], cap: int) -> tuple[tuple[tuple[Atom, ...], ...], bool]:
    """The clauses of atoms that a conjunct implies, and whether they are all of it."""
    distributed = _distributed(conjunct, cap)
    if distributed is None:
        return (), False
    atoms = [_atoms(parts) for parts in distributed]
    return tuple([clause for clause in atoms if clause is not None]), None not in atoms


def _pushed(node: Expression, negate: bool) -> Expression:
    """The condition, or its negation, with NOT only before what is neither AND, OR, NOT nor a comparison."""
    if isinstance(node, Call):
        if node.function in ("and", "or"):
            function = {"and": "or", "or": "and"}[node.function] if negate else node.function
            return Call(BOOLEAN, function, tuple(_pushed(argument, negate) for argument in node.arguments))
        if node.function == "not":
            return _pushed(node.arguments[0], not negate)
        if negate and node.function != "<=>" and node.function in _NEGATED:
            return Call(BOOLEAN, _NEGATED[node.function], node.arguments)
    if isinstance(node, Literal) and isinstance(node.value, bool | None):
        return Literal(BOOLEAN, None if node.value is None else node.value != negate)
    return Call(BOOLEAN, "not", (node,)) if negate else node


def _distributed(node: Expression, cap: int) -> list[tuple[Expression, ...]] | None:
    """The clauses that a condition without NOT is the conjunction of; None where they are more than `cap`."""
    if not isinstance(node, Call) or node.function not in ("and", "or"):
        return [] if node == TRUE else [(node,)]
    sides = [_distributed(argument, cap) for argument in node.arguments]
    left, right = sides
    if left is None or right is None:
        return None
    if (len(left) + len(right) if node.function == "and" else len(left) * len(right)) > cap:
        return None
    return left + right if node.function == "and" else [one + other for one, other in product(left, right)]


def _atoms(parts: tuple[Expression, ...]) -> tuple[Atom, ...] | None:
    """A clause of atoms; None where a part is none. What is never true takes no part in it."""
    atoms = [_atom(part) for part in parts if part not in _FALSE_OR_NULL]
    found = tuple(dict.fromkeys(atom for atom in atoms if atom is not None))
    return found if len(found) == len(set(atoms)) else None


def _atom(part: Expression) -> Atom | None:
    negated = isinstance(part, Call) and part.function == "not"
    atom = _positive(part.children[0] if negated else part)
    if atom is None or not negated:
        return atom
    return Atom(atom.attribute, _NEGATED[atom.operator], atom.operands)


def _positive(part: Expression) -> Atom | None:
    if isinstance(part, InList):
        return _compared(part.argument, "in", part.values)
    if isinstance(part, Column):
        return _compared(part, "=", (TRUE,))
    if not isinstance(part, Call):
        return None
    if part.function in ("isnull", "isnotnull"):
        return _compared(part.arguments[0], part.function, ())
    if part.function in _FLIPPED:
        one, other = part.arguments
        if columns_used(one):
            return _compared(one, part.function, (other,))
        return _compared(other, _FLIPPED[part.function], (one,))
    if part.function == "startswith":
        return _compared(part.arguments[0], "prefix", part.arguments[1:])
    return _like(part) if part.function == "like" else None


def _like(part: Call) -> Atom | None:
    """LIKE with a constant pattern that is a text, or a text and % after it."""
    text, pattern, *escape = part.arguments
    if not isinstance(pattern, Literal) or not all(isinstance(given, Literal) for given in escape):
        return None
    if pattern.value is None:
        return _compared(text, "=", (pattern,))
    like, special = str(pattern.value), str(escape[0].value) if escape else "\\"  # type: ignore[attr-defined]
    plain = like.rstrip("%")
    if any(character in plain for character in ("_", "%", special)) or special == "%":
        return None
    return _compared(text, "=" if plain == like else "prefix", (Literal(STRING, plain),))


def _compared(attribute: Expression, operator: str, operands: tuple[Expression, ...]) -> Atom | None:
    if any(columns_used(operand) for operand in operands) or not all(map(never_fails, operands)):
        return None
    if not is_attribute(attribute):
        return None
    return Atom(_without_widening(attribute), operator, operands)


def is_attribute(expression: Expression) -> bool:
    """A column or a cast of one that cannot fail, of a type whose values an index can order."""
    column = expression.argument if isinstance(expression, Cast) else expression
    return isinstance(column, Column) and _is_ordered(expression.type) and never_fails(expression)


def _is_ordered(kind: DataType) -> bool:
    return kind.is_numeric or kind.is_temporal or kind in (BOOLEAN, STRING, BINARY, INTERVAL)


def _without_widening(attribute: Expression) -> Expression:
    """Integers compare with wider ones, and floats with doubles, as they are."""
    if not isinstance(attribute, Cast):
        return attribute
    source, target = attribute.argument.type, attribute.type
    wider = source.is_integer and target.is_integer and INTEGER_BITS[source] <= INTEGER_BITS[target]
    return attribute.argument if wider or (source, target) == (FLOAT, DOUBLE) else attribute
