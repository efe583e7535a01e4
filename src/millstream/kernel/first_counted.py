"""Steps told from which instant on what fails counts: that of a query which came late, or of a group's new members."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace

from millstream.kernel.pending_errors import OPEN
from millstream.kernel.pipeline import Pipeline, Step
from millstream.kernel.relational.checked_cells import CheckedCellAggregate
from millstream.kernel.relational.failures import Checked, Failures
from millstream.kernel.sharing.cells import CellSelection
from millstream.kernel.sharing.expanded_selection import ExpandedSelection
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.keyed_selection import KeyedSelection


def counting_from(pipeline: Pipeline, first: int) -> Pipeline:
    """The same steps, counting what fails from another instant on."""
    changed = []
    for step in pipeline.steps if first else ():
        operator = copy(step.operator)
        if isinstance(operator, ExpandedSelection | CellSelection):
            operator.selection = copy(operator.selection)
            operator.selection.first = first
        elif isinstance(operator, Failures | Checked | GroupedSelection | KeyedSelection | CheckedCellAggregate):
            operator.first = first
        else:
            continue
        changed.append(replace(step, operator=operator))
    return pipeline.replacing(tuple(changed)) if changed else pipeline


def found_from(steps: Iterable[Step], first: int) -> tuple[Step, ...]:
    """Those of some steps that wait to be told from when on what fails counts, now that it is known."""
    found = []
    for step in steps:
        if isinstance(step.operator, Failures | Checked) and step.operator.first == OPEN:
            operator = copy(step.operator)
            operator.first = first
            found.append(replace(step, operator=operator))
    return tuple(found)
