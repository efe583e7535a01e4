"""Lowers logical plans to the kernel's operators.

Equal sub-plans become one step, whichever queries they come from, because a step is named by its plan's fingerprint.
"""

from __future__ import annotations

from millstream.errors import NotSupportedError
from millstream.kernel import linear
from millstream.kernel.elements import Elements
from millstream.kernel.operator import Operator
from millstream.kernel.pipeline import Step
from millstream.kernel.rows_window import RowsWindow
from millstream.kernel.sample import Sample
from millstream.kernel.streams import ChangeStream
from millstream.kernel.window import Now, Rows, TimeWindow
from millstream.plan import logical as lo
from millstream.plan.fingerprint import fingerprint

CLOCK = "clock"  # the source that carries no rows, only how far time has come


class Lowering:
    """Collects the steps of plans, each edge once."""

    def __init__(self, max_rstream_rows: int) -> None:
        self.steps: dict[str, Step] = {}
        self.max_rstream_rows = max_rstream_rows

    def lower(self, node: lo.Node) -> str:
        """The edge that carries the node's rows."""
        match node:
            case lo.StreamScan() | lo.TableScan():
                return node.name
            case lo.OneRow():
                return self._step(node, linear.OneRow(), CLOCK)
            case lo.Filter():
                return self._step(node, linear.Filter(node.schema, node.condition), self.lower(node.input))
            case lo.Project():
                return self._step(node, linear.Project(node.schema, node.expressions), self.lower(node.input))
            case lo.SetOperation(operation="union all"):
                return self._step(node, linear.UnionAll(node.schema), self.lower(node.left), self.lower(node.right))
            case lo.Window():
                return self._window(node)
            case lo.Sample():
                derived = not _is_base(node.input)
                edge = self._elements(node.input) if derived else self.lower(node.input)
                return self._step(node, Sample(node.schema, node.percent, node.seed, derived=derived), edge)
            case lo.RelationToStream():
                edge = self.lower(node.input)
                if node.operator == "rstream":
                    return edge
                return self._step(node, ChangeStream(node.schema, node.operator), edge)
            case _:
                name = type(node).__name__
                raise NotSupportedError(f"{name} cannot be run yet", hint="EXPLAIN shows its plan")

    def _window(self, node: lo.Window) -> str:
        window = node.window
        if isinstance(window, Now):
            return self.lower(node.input)
        if isinstance(window, Rows):
            edge = self.lower(node.input) if _is_base(node.input) else self._elements(node.input)
            return self._step(node, RowsWindow(node.schema, window), edge)
        edge = self._elements(node.input) if _has_runs(node.input) else self.lower(node.input)
        return self._step(node, TimeWindow(node.schema, window), edge)

    def _elements(self, stream: lo.Node) -> str:
        """The edge with a derived stream's elements one by one."""
        edge = self.lower(stream)
        name = f"elements-{fingerprint(stream)}"
        if isinstance(stream, lo.Sample):
            return edge  # a sample of a derived stream has been taken apart already
        self.steps.setdefault(name, Step(name, Elements(stream.schema, self.max_rstream_rows), (edge,)))
        return name

    def _step(self, node: lo.Node, operator: Operator, *inputs: str) -> str:
        name = f"{type(operator).__name__.lower()}-{fingerprint(node)}"
        self.steps.setdefault(name, Step(name, operator, inputs))
        return name


def _is_base(stream: lo.Node) -> bool:
    while isinstance(stream, lo.Sample):
        stream = stream.input
    return isinstance(stream, lo.StreamScan)


def _has_runs(stream: lo.Node) -> bool:
    """Whether the stream may hold an element as a run over several instants: only RSTREAM makes those."""
    return isinstance(stream, lo.RelationToStream) and stream.operator == "rstream"
