"""What a user can choose about how a plan is run."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.plan.analysis.lifetime import Counting


@dataclass(frozen=True)
class Options:
    """What a user can choose about how a plan is run; the answers are the same."""

    strategy: str = "upa"
    max_rstream_rows: int = 10_000_000
    expiry_groups: int = 0  # 0 keeps the inputs of joins consolidated
    lazy_interval: int = 5  # percent of the window
    first_counted: int = 0  # failures before this instant are none
    is_open: bool = False  # whether there is a later one, which is still to be found by counting
    lenient: bool = False  # whether what fails is tried elsewhere, and is nothing here
    counting: tuple[Counting, ...] = ()  # windows that have not seen all of what they count
    synopses: str = "shared"  # or "apart": windows that count rows remember whole rows, as if nobody else kept them
    join_synopses: str = "shared"  # or "apart": joins keep the rows of time windows by their sizes
    apart: str = ""  # tells a plan whose state must not be that of another query's equal plan
