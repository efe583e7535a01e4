"""The states of all queries: running, filling (their past is being worked through), or failed, with the error."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from millstream.engine.engine import Engine
from millstream.engine.epochs.precautions import ENDED
from millstream.query import Query, TemplatePlan
from millstream.query.members import Members

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class QueryStates:
    """Those that are not running, by name."""

    filling: tuple[str, ...]
    failed: dict[str, str]
    running: int


def states(engine: Engine, queries: Sequence[Query]) -> QueryStates:
    """Without waiting for anything, and without a look at each query of a group."""
    if not queries:
        return QueryStates((), {}, 0)
    members = Members(engine, queries, queries[0].common)
    failed = {queries[place].name: str(error) for place, error in members.stopped().items()}
    names = (queries[place].name for place in members.filling().nonzero()[0].tolist())
    filling = tuple(name for name in names if name not in failed)
    return QueryStates(filling, failed, len(queries) - len(failed) - len(filling))


def not_running(engine: Engine, queries: Sequence[Query]) -> dict[str, tuple[str, str]]:
    """The states of those that do not run, with the errors of those that failed."""
    found = states(engine, queries)
    filling = dict.fromkeys(found.filling, ("filling", ""))
    return filling | {name: ("failed", error) for name, error in found.failed.items()}


def tell_put_aside(engine: Engine, queries: Iterable[Query]) -> None:
    """Log which queries were stopped because they end the process that runs them."""
    if not engine.runner.caution.has_put_aside():
        return
    for name, (_, error) in not_running(engine, [*queries]).items():
        if ENDED in error:
            _log.error('the query "%s" was put aside: %s', name, error.partition("\n")[0])


def texts(queries: Sequence[Query]) -> list[str]:
    """The texts of queries with all defaults written out."""
    found, shared = [""] * len(queries), dict[TemplatePlan, list[int]]()
    for place, query in enumerate(queries):
        if query.template is None:
            found[place] = query.cql
        else:
            shared.setdefault(query.template, []).append(place)
    for plan, places in shared.items():
        for place, text in zip(places, plan.texts([queries[place] for place in places]), strict=True):
            found[place] = text
    return found
