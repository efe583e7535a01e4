"""What the author of a late query is told of the past: where less of it is kept than the query's windows reach back."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.declarations import Declarations, Entry
from millstream.engine.engine import Engine
from millstream.kernel.batch import INF
from millstream.kernel.window import Now, Rows
from millstream.language.binder import BoundQuery
from millstream.language.instants import shown_instant
from millstream.plan import logical as lo
from millstream.plan.lifetime import influence


def of_the_past(engine: Engine, bound: BoundQuery) -> list[str]:
    """One for each stream whose history is shorter than what the answers from now on need of it."""
    read = sorted({node.name for node in bound.plan.walk() if isinstance(node, lo.StreamScan)})
    final = min((engine.frontier(source) for source in read), default=-1)
    plan = _without_windows_that_are_full(engine, bound.plan)
    found = []
    for source in read:
        first = engine.lost_before(source)
        last = influence(plan, {source: first - 1})
        if first > 0 and last > final:
            begins = shown_instant(first, bound.domain)
            until = "" if last >= INF - 1 else f" up to {shown_instant(last, bound.domain)}"
            found.append(
                f"the history of {source} begins at {begins} (RETAIN), and a window of this query reaches further "
                f"back: its answers{until} lack what came before"
            )
    return found


def with_notices(declared: Declarations, template: str, first: int, count: int, notices: Sequence[str]) -> Declarations:
    """With what the authors of so many queries of a template were told, from the number of the first on."""
    told = [first, count, list(notices)]
    entries = (
        {**entry, "notices": [*entry.get("notices", ()), told]}
        if (entry["kind"], entry["name"]) == ("template", template)
        else entry
        for entry in declared.entries
    )
    return Declarations(tuple(entries)) if notices else declared


def notices_of(entry: Entry, number: int) -> list[str]:
    """What the author of a query was told, by the entry of its template."""
    found = (told for first, count, told in entry.get("notices", ()) if first <= number < first + count)
    return next(found, [])


def _without_windows_that_are_full(engine: Engine, plan: lo.Node) -> lo.Node:
    """ROWS windows of which all rows are kept miss nothing."""

    def change(node: lo.Node) -> lo.Node:
        if not (
            isinstance(node, lo.Window) and isinstance(node.window, Rows) and isinstance(node.input, lo.StreamScan)
        ):
            return node
        needed = node.window.rows + node.window.slide
        is_full = not node.window.partition and engine.number_kept(node.input.name) >= needed
        return lo.Window(node.input, Now()) if is_full else node

    return plan.transform(change)
