"""Lowers windows and relation-to-stream operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from millstream.kernel.operator import Operator
from millstream.kernel.windows.bounds import NegativeWindowBounds, WindowBounds
from millstream.kernel.windows.elements import Elements
from millstream.kernel.windows.rows import RowsWindow
from millstream.kernel.windows.sessions import SessionWindow
from millstream.kernel.windows.streams import ChangeStream, EverySlide
from millstream.kernel.windows.time import (
    NegativeTimeWindow,
    Now,
    RangeOn,
    Rows,
    Sessions,
    TimeWindow,
    Unbounded,
    UserWindow,
)
from millstream.kernel.windows.user_window import DefinedWindow
from millstream.kernel.windows.values import ElementsLeftOut, ValueWindow
from millstream.plan import nodes as lo
from millstream.plan.algebra.imposed_windows import is_base
from millstream.plan.analysis.time_order import slides
from millstream.plan.lowering.forgotten import remembering
from millstream.plan.lowering.options import Options
from millstream.plan.lowering.step_names import StepNames
from millstream.plan.rules.reduce_windows import is_row_wise_over


class WindowLowering(ABC):
    """The part of a lowering that knows windows; the rest makes steps, and knows what stands below."""

    options: Options
    _born: bool
    _timed: bool
    _names: StepNames
    _lowered: dict[int, tuple[lo.Node, str]]
    _windows: dict[lo.Node, str]  # those that count rows, and their edges

    @abstractmethod
    def lower(self, node: lo.Node) -> str: ...

    @abstractmethod
    def _step(
        self, node: lo.Node, operator: Operator, *inputs: str, awaited: tuple[str, ...] = (), table_of: str = ""
    ) -> str: ...

    @abstractmethod
    def _named(
        self, name: str, operator: Operator, *inputs: str, awaited: tuple[str, ...] = (), table_of: str = ""
    ) -> str: ...

    @abstractmethod
    def _marked(self, edge: str, retracting: bool) -> str: ...

    def edge_of_window(self, window: lo.Window) -> str:
        """Where the rows of a window of the plan are that counts them."""
        return self._windows[window]

    def _window(self, node: lo.Window) -> str:
        window, timed = node.window, self._timed and slides(node.window)
        if isinstance(window, Rows):
            edge = self.lower(node.input) if is_base(node.input) else self._elements(node.input)
            plain = remembering(node)
            found = next((each for each in self.options.counting if each.window == plain), None)
            counts = {} if found is None else {"since": found.since, "before": found.before}
            operator = RowsWindow(node.schema, window, born=self._born, forgotten=node.forgotten, timed=timed, **counts)
            self._windows[plain] = self._marked(self._step(node, operator, edge), True)
            return self._windows[plain]
        if isinstance(window, Sessions):
            edge = self.lower(node.input) if is_base(node.input) else self._elements(node.input)
            sessions = SessionWindow(node.schema, window, born=self._born)
            return self._marked(self._step(node, sessions, edge), not window.complete)
        if isinstance(window, RangeOn):
            edge = self.lower(node.input) if is_base(node.input) else self._elements(node.input)
            if window.left_out:
                return self._marked(self._step(node, ElementsLeftOut(node.schema, window), edge), False)
            return self._marked(self._step(node, ValueWindow(node.schema, window, born=self._born), edge), True)
        if isinstance(window, UserWindow):
            edge = self._elements(node.input) if self._has_runs(node.input) else self.lower(node.input)
            return self._step(node, DefinedWindow(node.schema, window, born=self._born), edge)
        negative = self.options.strategy == "negative" and not isinstance(window, Unbounded)
        if isinstance(window, Now) and not negative and not self._born and not _leaves_out(node.input):
            return self.lower(node.input)  # streams are kept that way
        edge = self._elements(node.input) if self._has_runs(node.input) else self.lower(node.input)
        if negative:
            return self._marked(
                self._step(node, NegativeTimeWindow(node.schema, window, born=self._born, timed=timed), edge), True
            )
        return self._step(node, TimeWindow(node.schema, window, born=self._born, timed=timed), edge)

    def _bounds(self, node: lo.Bounds) -> str:
        cut = node.size, node.slide, node.unit
        if self.options.strategy != "negative":
            return self._step(node, WindowBounds(node.schema, *cut), self.lower(node.input))
        edge = self._foretelling(node.input)
        return self._marked(self._step(node, NegativeWindowBounds(node.schema, *cut), edge), True)

    def _foretelling(self, node: lo.Node) -> str:
        """The edge of a window, filtered and projected, whose rows say when they end whatever the strategy."""
        strategy = self.options.strategy
        self.options, lowered = replace(self.options, strategy="upa"), self._lowered
        self._lowered = {}
        edge = self.lower(node)
        self.options, self._lowered = replace(self.options, strategy=strategy), lowered
        return edge

    def _has_runs(self, stream: lo.Node) -> bool:
        """Whether the edge may carry elements as runs over several instants: only RSTREAM makes those.

        Not where its rows are passed on from [NOW] windows one by one; what counts or compares rows makes runs of them.
        """
        if not (isinstance(stream, lo.RelationToStream) and stream.operator == "rstream"):
            return False
        if stream.every > 1 or self.options.strategy == "negative":
            return True
        return not is_row_wise_over(stream.input, Now())

    def _to_stream(self, node: lo.RelationToStream) -> str:
        edge = self.lower(node.input)
        if node.operator == "rstream":
            return edge if node.every == 1 else self._step(node, EverySlide(node.schema, node.every), edge)
        return self._marked(self._step(node, ChangeStream(node.schema, node.operator), edge), False)

    def _elements(self, stream: lo.Node) -> str:
        """The edge with a derived stream's elements one by one."""
        edge = self.lower(stream)
        if isinstance(stream, lo.Sample):
            return edge  # a sample of a derived stream has been taken apart already
        every = stream.every if isinstance(stream, lo.RelationToStream) else 1
        operator = Elements(stream.schema, self.options.max_rstream_rows, every)
        return self._marked(self._named(f"elements-{self._names.of(stream)}", operator, edge), False)


def _leaves_out(stream: lo.Node) -> bool:
    """Whether there are instants of its runs at which a stream has no elements."""
    return isinstance(stream, lo.RelationToStream) and stream.every > 1
