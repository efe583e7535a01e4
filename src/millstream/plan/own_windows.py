"""Windows that differ in their sizes only: these are constants of queries."""

from __future__ import annotations

from millstream.kernel.scalar.expressions import Literal
from millstream.kernel.sharing.query_windows import SizedWindow
from millstream.kernel.windows.time import Hop, Range, Rows, Tumble, WindowSpecification
from millstream.types import BIGINT


def parametrised_window(window: WindowSpecification) -> tuple[SizedWindow, tuple[Literal, ...]] | None:
    """A window with the first parameters for its sizes, and these; None where it has none that could be others."""
    match window:
        case Range():
            kind = SizedWindow("range", window.half_open, (0, 1))
            return kind, (Literal(BIGINT, window.size), Literal(BIGINT, window.slide))
        case Tumble():
            return SizedWindow("tumble", True, (0,)), (Literal(BIGINT, window.size),)
        case Hop():
            return SizedWindow("hop", True, (0, 1)), (Literal(BIGINT, window.size), Literal(BIGINT, window.slide))
        case Rows(slide=1):
            return SizedWindow("rows", True, (0,)), (Literal(BIGINT, window.rows),)
        case _:
            return None
