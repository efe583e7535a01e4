"""Join conditions taken apart: equalities between the two sides, and the rest."""

from __future__ import annotations

from millstream.kernel.scalar.expressions import Call, Expression, columns_used, conjuncts


def split_condition(
    condition: Expression, left_width: int
) -> tuple[list[tuple[Expression, Expression, bool]], list[Expression]]:
    """The keys (left, right, null-safe), both over the joined row, and what is no such equality."""
    keys, residual = [], []
    for part in conjuncts(condition):
        if isinstance(part, Call) and part.function in ("=", "<=>"):
            one, other = part.arguments
            sides = [side_of(argument, left_width) for argument in (one, other)]
            if sides in (["left", "right"], ["right", "left"]):
                left, right = (one, other) if sides[0] == "left" else (other, one)
                keys.append((left, right, part.function == "<=>"))
                continue
        residual.append(part)
    return keys, residual


def side_of(expression: Expression, left_width: int) -> str:
    """Which side of a join an expression reads: left, right, both or none."""
    used = columns_used(expression)
    on_left, on_right = any(i < left_width for i in used), any(i >= left_width for i in used)
    return {(True, True): "both", (True, False): "left", (False, True): "right"}.get((on_left, on_right), "none")
