"""How deeply a plan is nested, expressions included, and how much of that is carried.

Plans are worked on by functions that call themselves for the parts of a node. Long chains (AND, OR, +, UNION) are bound
as shallow trees; what is really nested deeper than this is refused where it is bound, instead of failing later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from millstream.errors import NotSupportedError, Place
from millstream.kernel.scalar.expressions import Expression
from millstream.plan import nodes as lo

MAX_DEPTH = 150


def check_depth(bound: lo.Node | Expression, place: Place) -> None:
    if depth_of(bound) > MAX_DEPTH:
        raise too_deep(place)


def too_deep(place: Place) -> NotSupportedError:
    return NotSupportedError(
        "this is nested too deeply",
        detail=f"at most {MAX_DEPTH} operators and functions may stand inside one another",
        hint="long chains of AND, OR, +, -, *, || and UNION are no matter",
        place=place,
    )


def depth_of(plan: lo.Node | Expression) -> int:
    """The longest way down through nodes and expressions."""
    depths: dict[int, int] = {}
    stack: list[tuple[object, list[object] | None]] = [(plan, None)]  # with the parts of those that come again
    while stack:
        value, parts = stack.pop()
        if id(value) in depths:
            continue
        if parts is not None:
            depths[id(value)] = 1 + max([depths.get(id(part), 0) for part in parts])
            continue
        parts = list(_parts(value))
        if parts:
            stack.append((value, parts))
            stack.extend([(part, None) for part in parts])
        else:
            depths[id(value)] = 1
    return depths[id(plan)]


def _parts(value: object) -> Iterator[object]:
    """The nodes and expressions right below one, tuples looked through."""
    if isinstance(value, Expression):
        leaves = [child for child in value.children if not child.children]
        yield from leaves[:1]  # of a long list one is as deep as all
        yield from (child for child in value.children if child.children)
        return
    if not isinstance(value, lo.Node | lo.AggregateCall):
        return
    found = [getattr(value, field.name) for field in fields(value)]
    while found:
        part = found.pop()
        if isinstance(part, tuple):
            found.extend(part)
        elif isinstance(part, lo.Node | lo.AggregateCall | Expression):
            yield part
