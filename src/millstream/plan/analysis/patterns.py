"""Update patterns (Golab and Özsu): how the rows of a relation come to leave it.

    MONO  they never leave                                        append-only
    WKS   in the order in which they came                         weakest non-monotonic
    WK    in another order, but at instants known when they come  weak
    STR   also at instants that nothing foretells                 strict

A stream has no pattern: its elements are there for their instant only.
"""

from __future__ import annotations

from enum import IntEnum

from millstream.kernel.windows.time import BeginEnd, ElementSpecification, Sessions, Unbounded, UserWindow
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.monotonic import is_monotonic, is_non_retroactive


class Pattern(IntEnum):
    """Ordered from simple to complex."""

    MONO = 0
    WKS = 1
    WK = 2
    STR = 3


def pattern_of(plan: lo.Node) -> Pattern:
    """The pattern of a relation's rows, by the paper's five rules, completed where it is silent."""
    if is_monotonic(plan):
        return Pattern.MONO
    match plan:
        case lo.Window():
            return _of_window(plan)
        case lo.Filter() | lo.Project() | lo.Unnest() | ph.Stamped() | ph.Matches():
            return pattern_of(plan.input)
        case ph.CellSelection() if plan.window is not None:
            return _at_least_weak(plan.input)
        case ph.Selection() | ph.CellSelection() | ph.Expand() | ph.Constants():
            return pattern_of(plan.input)
        case ph.Shortened() | ph.QueryWindow() | lo.Bounds():
            return _at_least_weak(plan.input)
        case lo.Join(join="inner"):
            return _of_join(plan)
        case lo.Join(join="semi"):
            return _at_least_weak(plan.left, plan.right)
        case ph.ManyJoin():
            return _at_least_weak(*plan.inputs)
        case lo.SetOperation(operation="union all"):
            return _of_union(plan)
        case lo.SetOperation(operation="union" | "intersect" | "intersect all"):
            return _at_least_weak(plan.left, plan.right)
        case ph.Runs():
            return Pattern.STR
        case lo.Distinct():
            return _at_least_weak(plan.input)
        case lo.Aggregate():
            # By label: a group's new row replaces its old one, whatever comes in.
            return Pattern.WK
        case _:
            return Pattern.STR


def _of_window(plan: lo.Window) -> Pattern:
    window = plan.window
    if isinstance(window, Unbounded) or (isinstance(window, BeginEnd) and window.is_monotonic):
        return Pattern.MONO
    if isinstance(window, UserWindow) or (isinstance(window, Sessions) and window.complete):
        return Pattern.WK
    return Pattern.STR if isinstance(window, ElementSpecification) else Pattern.WKS


def _of_join(plan: lo.Join) -> Pattern:
    for side, other in ((plan.left, plan.right), (plan.right, plan.left)):
        if is_non_retroactive(other) and not is_non_retroactive(side):
            return pattern_of(side)
    return _at_least_weak(plan.left, plan.right)


def _of_union(plan: lo.SetOperation) -> Pattern:
    """Rows leave in order only where both sides keep theirs for equally long."""
    patterns = {pattern_of(child) for child in plan.children}
    if patterns == {Pattern.WKS} and len({_window_below(child) for child in plan.children}) == 1:
        return Pattern.WKS
    return max(*patterns, Pattern.WK)


def _window_below(plan: lo.Node) -> object:
    """What decides how long the rows of a WKS relation live."""
    while not isinstance(plan, lo.Window):
        if isinstance(plan, lo.Join):
            plan = plan.right if is_non_retroactive(plan.left) else plan.left
        else:
            plan = plan.children[0]
    return plan.window


def _at_least_weak(*inputs: lo.Node) -> Pattern:
    return max(Pattern.WK, *(pattern_of(child) for child in inputs))
