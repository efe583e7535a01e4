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

MAX_DEPTH = 100


MAX_JOINED = 50  # which are nested twice as deep


def check_depth(bound: lo.Node | Expression, place: Place) -> None:
    if depth_of(bound) > MAX_DEPTH:
        raise too_deep(place)
    if isinstance(bound, lo.Node) and (joined := _most_joined(bound)) > MAX_JOINED:
        raise NotSupportedError(
            f"a join of {joined:,} inputs",
            detail=f"at most {MAX_JOINED} may be joined, however they are nested",
            hint="join fewer at a time, and aggregate in between",
            place=place,
        )


def _most_joined(plan: lo.Node) -> int:
    """The inputs of the largest join: joins that nothing but selections and projections part become one, and whatever
    their order was one goes into the other then."""
    most, joined, stack = 1, dict[int, int](), [(plan, False)]
    while stack:
        node, is_again = stack.pop()
        if id(node) in joined:
            continue
        if not is_again:
            stack += [(node, True), *((child, False) for child in node.children)]
            continue
        below = [joined[id(child)] for child in node.children]
        is_passed = isinstance(node, lo.Join | lo.Filter | lo.Project)
        joined[id(node)] = sum(below) if is_passed and below else 1
        most = max(most, joined[id(node)])
    return most


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
