"""What an epoch commits: a function of the snapshot before it and of what its task made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from millstream.engine.epochs.merging import HistoryMerge, Merge, with_merged
from millstream.engine.epochs.parts import late_key
from millstream.engine.epochs.task import EpochOutcome
from millstream.state.snapshot import HistoryFile, Names, Snapshot, SourceProgress


def after_epoch(
    moved: Snapshot, outcome: EpochOutcome, concerned: Collection[str], failed: Mapping[str, Mapping[str, str]]
) -> Snapshot:
    """The snapshot with what an epoch's task made, but for the steps that have failed.

    `moved` has the rows and heartbeats that the epoch took in. A step that is not concerned keeps its state.
    """
    states = {step: names for step, names in outcome.states.items() if step not in failed}
    results = {edge: names for edge, names in outcome.results.items() if edge not in failed}
    made = moved.without_states(concerned).with_states(states).with_results(results).with_history(outcome.history)
    return after_merges(made.with_progress(_progress(moved, outcome)).with_failures(failed), outcome.merged)


def _progress(moved: Snapshot, outcome: EpochOutcome) -> dict[str, SourceProgress]:
    """With the elements that were late or shed, and when the tables of late ones changed."""
    found: dict[str, SourceProgress] = {}
    for source, count in outcome.late.items():
        progress = moved.progress(source)
        found[source] = replace(progress, late=progress.late + count)
        at = max(file.first for file in outcome.history[late_key(source)])
        found[late_key(source)] = replace(moved.progress(late_key(source)), last_change=at)
    for source, count in outcome.shed.items():
        progress = found.get(source, moved.progress(source))
        found[source] = replace(progress, shed=progress.shed + count)
    return found


def after_merges(snapshot: Snapshot, merges: Iterable[Merge]) -> Snapshot:
    """The snapshot with merged files in place of those that they were made of; several may be of a source."""
    history: dict[str, tuple[HistoryFile, ...]] = {}
    results: dict[str, Names] = {}
    for merge in merges:
        if isinstance(merge, HistoryMerge):
            files = history.get(merge.source, snapshot.history[merge.source])
            history[merge.source] = with_merged(files, merge.files, merge.made)
        elif merge.edge in snapshot.results:
            names = results.get(merge.edge, snapshot.results[merge.edge])
            results[merge.edge] = with_merged(names, merge.names, merge.made)
    return snapshot.with_history_of(history).with_results_of(results) if history or results else snapshot
