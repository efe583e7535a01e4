"""The conservative test of monotonicity: R(s) is contained in R(t) whenever s <= t.

It decides where ISTREAM is applied by default, and is the first of the update patterns.
"""

from __future__ import annotations

from millstream.kernel.windows.time import BeginEnd, Unbounded
from millstream.plan import nodes as lo
from millstream.plan import physical as ph


def is_monotonic(plan: lo.Node) -> bool:
    match plan:
        case lo.OneRow() | lo.Values() | ph.QueryRows():
            return True
        case lo.TableScan():
            return plan.nature in ("APPEND ONLY", "STATIC")
        case lo.Window():
            return isinstance(plan.window, Unbounded) or (
                isinstance(plan.window, BeginEnd) and plan.window.is_monotonic
            )
        case lo.Filter() | lo.Project() | lo.Unnest() | lo.Distinct():
            return is_monotonic(plan.input)
        case ph.Selection() | ph.CellSelection() | ph.Expand() | ph.Constants():
            return is_monotonic(plan.input)
        case lo.Join(join="inner"):
            return _monotonic_or_fixed(plan.left, plan.right) or _monotonic_or_fixed(plan.right, plan.left)
        case ph.ManyJoin():
            return all(is_monotonic(child) for child in plan.inputs)
        case lo.Join(join="semi"):
            return is_monotonic(plan.left) and is_monotonic(plan.right)
        case lo.SetOperation(operation="union all" | "union" | "intersect" | "intersect all"):
            return is_monotonic(plan.left) and is_monotonic(plan.right)
        case _:
            return False


def _monotonic_or_fixed(side: lo.Node, other: lo.Node) -> bool:
    """A monotonic side keeps its join monotonic with another one, or with a table whose changes never act back."""
    return is_monotonic(side) and (is_monotonic(other) or is_non_retroactive(other))


def is_non_retroactive(plan: lo.Node) -> bool:
    """A NON RETROACTIVE table, perhaps filtered or projected."""
    return _nature(plan) == "NON RETROACTIVE"


def is_changing_table(plan: lo.Node) -> bool:
    """Any other table whose rows may go, perhaps filtered or projected."""
    while isinstance(plan, lo.Filter | lo.Project):
        plan = plan.input
    return isinstance(plan, lo.TableScan) and plan.nature == ""


def is_static(plan: lo.Node) -> bool:
    """A table all of whose rows are there from tick 0 on, perhaps filtered or projected."""
    return _nature(plan) == "STATIC"


def _nature(plan: lo.Node) -> str:
    while isinstance(plan, lo.Filter | lo.Project):
        plan = plan.input
    return plan.nature if isinstance(plan, lo.TableScan) else ""
