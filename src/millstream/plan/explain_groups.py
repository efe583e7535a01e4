"""What serves the selection of a query among many: indexes on attributes, and what is left to be evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millstream.kernel.scalar.expressions import TRUE, Expression
from millstream.kernel.sharing.keyed_selection import equality_key
from millstream.kernel.sharing.normal_form import normal_form
from millstream.kernel.sharing.parameters import with_values
from millstream.plan.own_columns import is_parametrised


@dataclass(frozen=True)
class IndexUse:
    """The attribute whose value is looked up, those that are compared by indexes, and the conditions that no index can
    serve: they are evaluated last, on the rows that are left."""

    key: str | None
    attributes: tuple[str, ...]
    residual: tuple[str, ...]

    def lines(self) -> list[str]:
        found = []
        if self.key is not None:
            found.append(f"looked up by the value of {self.key}")
        if self.attributes:
            found.append(f"filtered by the indexes on {', '.join(self.attributes)}")
        if not found:
            found.append("no index serves it" if self.residual else "it wants all rows")
        if self.residual:
            found.append(f"evaluated last, row by row: {' AND '.join(self.residual)}")
        return found


def service_of(condition: Expression, *, keyed: bool, constants: Sequence[object] | None = None) -> IndexUse:
    """What serves queries of a shape; with constants, what serves the one that has these."""

    def shown(left: Expression) -> str:
        return str(left if constants is None else with_values(left, constants))

    equality = equality_key(condition) if keyed else None
    if equality is not None:
        # Rows are few once the key is looked up: the rest is evaluated on them as it is.
        rest = [] if equality[2] == TRUE else [shown(equality[2])]
        return IndexUse(str(equality[0]), (), tuple(rest))
    form = normal_form(condition)
    attributes = dict.fromkeys(str(atom.attribute) for clause in form.clauses for atom in clause)
    return IndexUse(None, tuple(attributes), tuple(map(shown, form.residual)))


def lines_of_member(
    service: IndexUse, own_columns: Sequence[Expression], constants: Sequence[object], others: int, equal: int = 0
) -> list[str]:
    """What a query shares that is a row of a query table, and what is its own."""
    fellows = f"with {others} other{'s' * (others > 1)}" if others else "of its own, which others may join"
    own = [str(with_values(column, constants)) for column in own_columns if is_parametrised(column)]
    read = [f"computed when it is read: {', '.join(own)}"] if own else []
    same = [f"the same row as {equal} of these, which select{'s' * (equal == 1)} the same"] if equal else []
    return [f"a row of the query table of a group {fellows}", *same, *service.lines(), *read]
