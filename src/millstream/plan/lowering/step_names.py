"""What the steps of a plan are called: by the plan below them, and by what is kept otherwise than it says."""

from __future__ import annotations

from millstream.plan import nodes as lo
from millstream.plan.algebra.imposed_windows import imposed_window, joined
from millstream.plan.fingerprint import FORGETTING, Fingerprints


class StepNames:
    """Of plans in which windows may have forgotten columns, and joins impose windows: what is kept of the same plan is
    another one then."""

    def __init__(self, *, forgets: bool, imposes: bool) -> None:
        self._forgets, self._imposes = forgets, imposes
        self._fingerprints = Fingerprints()

    def of(self, node: lo.Node) -> str:
        name = self._fingerprints.of(node)
        below = [*node.walk()] if self._forgets or self._imposes else []
        forgotten = tuple(each.forgotten for each in below if isinstance(each, lo.Window))
        kept: tuple[object, ...] = forgotten if any(forgotten) else ()
        if self._imposes and any(map(_is_kept_for_all, below)):
            kept = "imposed", kept
        return f"{name}{FORGETTING}{self._fingerprints.of(kept)}" if kept else name


def _is_kept_for_all(node: lo.Node) -> bool:
    """Whether a join keeps elements, or rows before they are given, as others do."""
    if isinstance(node, lo.Join) and node.join != "inner":
        return True
    return any(imposed_window(side) is not None for side in joined(node))
