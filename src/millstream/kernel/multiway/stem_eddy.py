"""The way of rows through SteMs: which is probed next, and what becomes of rows that meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import polars as pl

from millstream.kernel.batch import BORN, END, START, WEIGHT, Batch, value_column
from millstream.kernel.columns import frame_of, stacked
from millstream.kernel.eddy.policies import policy
from millstream.kernel.eddy.stems import StemExperience, StemProspects
from millstream.kernel.joins.graph import Access, JoinGraph
from millstream.kernel.joins.stem import Probe
from millstream.kernel.just_in_time.partners import Stored
from millstream.kernel.keys import Positions
from millstream.kernel.multiway.joined_rows import JoinedRows, StemMatches
from millstream.kernel.operator import Segment
from millstream.kernel.scalar.evaluate import attempt
from millstream.kernel.scalar.expressions import TRUE, Expression, columns_used, conjunction
from millstream.kernel.sharing.input_lineage import InputLineage
from millstream.kernel.sharing.signature_classes import SIGNATURE
from millstream.kernel.step_limits import make_rows
from millstream.kernel.storage.segments import gather, numbers
from millstream.kernel.windows.imposed import Imposed

_TRIED = 256  # rows that try what nothing is known of, or what seems worse than the best
_MOST_TOGETHER = 1 << 18  # combinations that go on together: bounds the memory of large results


class JoinByStems(Protocol):
    """What is joined: how inputs are connected, by what each SteM is sorted, and the windows that are imposed."""

    policy: str
    chunk: int

    @property
    def graph(self) -> JoinGraph: ...

    @property
    def usual(self) -> Sequence[Access]: ...

    @property
    def windows(self) -> Sequence[Imposed]: ...

    @property
    def columns(self) -> Sequence[Sequence[str]]: ...


class StemEddy:
    """Routes new rows of one input, or rows of some that are joined, through the SteMs of the others."""

    def __init__(
        self,
        join: JoinByStems,
        origin: int,
        stems: Sequence[Sequence[Stored]],
        experience: StemExperience,
        lineage: InputLineage | None = None,
    ) -> None:
        self.lineage = lineage
        self.join, self.graph, self.origin, self.experience = join, join.graph, origin, experience
        self.stems = [[(segment, flags) for segment, flags in stem if segment.height] for stem in stems]
        self.policy, self.prospects = policy(join.policy), StemProspects(experience, origin)

    def run(self, rows: Segment) -> Iterator[JoinedRows]:
        """All combinations with the rows, in pieces."""
        if not all(stem for source, stem in enumerate(self.stems) if source != self.origin):
            return
        low = 0
        while low < rows.height:
            chunk = rows.slice(low, self.join.chunk if self.experience.knows(self.origin) else _TRIED)
            low += chunk.height
            measures = {name: numbers(chunk, name) for name in (START, WEIGHT, BORN) if name in chunk.columns}
            measures[END] = self.join.windows[self.origin].ends(chunk)
            if SIGNATURE in chunk.columns:
                measures[_signature(self.origin)] = numbers(chunk, SIGNATURE)
            yield from self._completed(JoinedRows({self.origin: (chunk, None)}, measures))

    def go_on(self, pairs: Batch, inputs: Sequence[int]) -> Iterator[JoinedRows]:
        """All combinations with pairs that two of the inputs have made, as far as some query may want them."""
        if not pairs.height or not all(stem for source, stem in enumerate(self.stems) if source not in inputs):
            return
        for chunk in self._chunks(self.side_by_side(pairs, inputs)):
            yield from self._completed(chunk)

    def probe(self, rows: Batch, inputs: Sequence[int], stem: int) -> Iterator[JoinedRows]:
        """The combinations of rows of some inputs with those of one SteM, as far as some query may want them."""
        for chunk in self._chunks(self.side_by_side(rows, inputs)) if self.stems[stem] else ():
            yield from self._probed(chunk, stem)

    def _chunks(self, found: JoinedRows) -> Iterator[JoinedRows]:
        for low in range(0, found.height, self.join.chunk):
            yield found.only(np.arange(low, min(low + self.join.chunk, found.height)))

    def side_by_side(self, rows: Batch, inputs: Sequence[int]) -> JoinedRows:
        """Rows that are made of rows of some inputs, as far as some query may want them."""
        parts: dict[int, tuple[pl.DataFrame, Positions | None]] = {}
        place = 0
        for source in inputs:
            own = self.join.columns[source]
            columns = (rows.get_column(value_column(place + number)).alias(name) for number, name in enumerate(own))
            parts[source], place = (frame_of([*columns]), None), place + len(own)
        measures = {name: numbers(rows, name) for name in (START, END, WEIGHT, BORN) if name in rows.columns}
        if len(inputs) == 1:
            measures[END] = self.join.windows[inputs[0]].ends(rows)
        found = JoinedRows(parts, measures)
        if self.lineage is None:
            return found
        kept, signed = self.lineage.side_by_side({source: frame for source, (frame, _) in parts.items()})
        found = found if kept is None else found.only(kept)
        signatures = {_signature(source): each for source, each in signed.items()}
        return replace(found, measures={**found.measures, **signatures})

    def _completed(self, begun: JoinedRows) -> Iterator[JoinedRows]:
        """The combinations of all inputs that become of some, in pieces."""
        self.experience.fade(self.origin)
        waiting = [begun]
        while waiting:
            found = waiting.pop()
            if len(found.parts) == len(self.stems):
                yield found
            else:
                waiting += (more for more in self._routed(found) if more.height)

    def _routed(self, found: JoinedRows) -> Iterator[JoinedRows]:
        options = self.graph.options(found.joined)
        if len(options) == 1:
            yield from self._probed(found, options[0])
            return
        chosen = self.policy.choose(options, self.prospects)
        usual = self.prospects.usual(chosen, options) if self.policy.explores else chosen
        if chosen != usual and found.height > _TRIED:
            yield from self._probed(found.only(np.arange(_TRIED)), chosen)
            yield from self._probed(found.only(np.arange(_TRIED, found.height)), usual)
        else:
            yield from self._probed(found, chosen)

    def _probed(self, found: JoinedRows, stem: int) -> Iterator[JoinedRows]:
        """The combinations with the rows that a SteM has for them, in pieces."""
        access = self.graph.access(stem, found.joined)
        probe = Probe(self._frame(found, access.read), access, self.join.usual[stem])
        condition = conjunction(self.graph.decided(found.joined, stem))
        returned, work, together = 0, found.height * len(self.stems[stem]), 0
        matches: list[StemMatches] = []
        window, first = self.join.windows[stem], int(found.measures[START].min())
        for stored, flags in self.stems[stem]:
            for i, j in probe.candidates(stored) if window.reaches(stored, first) else ():
                if flags is not None:
                    kept = flags[j]
                    i, j = i[kept], j[kept]
                matches.append(self._wanted(self._matching(found, probe, stored, i, j, window), found, stem))
                work += i.size
                together += matches[-1].rows.size
                if together >= _MOST_TOGETHER:
                    more = self._satisfying(self._combined(found, stem, matches), condition)
                    returned += more.height
                    make_rows(more.height, more.width)
                    yield more
                    matches, together = [], 0
        if together:
            more = self._satisfying(self._combined(found, stem, matches), condition)
            returned += more.height
            make_rows(more.height, more.width)
            yield more
        if len(self.stems) > 2:
            self.experience.add(self.origin, stem, found.height, returned, work)

    def _matching(
        self, found: JoinedRows, probe: Probe, stored: Segment, i: Positions, j: Positions, window: Imposed
    ) -> StemMatches:
        """Those of the pairs (combination, stored row) that live at the same time and have equal keys."""
        start = np.maximum(found.measures[START][i], numbers(stored, START)[j])
        end = np.minimum(found.measures[END][i], window.ends(stored, j))
        kept = probe.agreeing(stored, i, j, np.flatnonzero(start < end))
        i, j = i[kept], j[kept]
        measures = {START: start[kept], END: end[kept], WEIGHT: found.measures[WEIGHT][i] * numbers(stored, WEIGHT)[j]}
        births = [found.measures[BORN][i]] if BORN in found.measures else []
        births += [numbers(stored, BORN)[j]] if BORN in stored.columns else []
        if births:
            measures[BORN] = np.maximum(births[0], births[-1])
        return StemMatches(i, stored, j, measures)

    def _wanted(self, match: StemMatches, found: JoinedRows, stem: int) -> StemMatches:
        """Those that some query of the group may want, with the signatures of their rows."""
        signed = {name: each[match.rows] for name, each in found.measures.items() if name.startswith(SIGNATURE)}
        if SIGNATURE in match.stored.columns:
            signed[_signature(stem)] = numbers(match.stored, SIGNATURE)[match.positions]
        if self.lineage is None or not signed:
            return match
        wanted = self.lineage.together({int(name.removeprefix(SIGNATURE)): each for name, each in signed.items()})
        measures = {**match.measures, **signed}
        if wanted is None:
            return StemMatches(match.rows, match.stored, match.positions, measures)
        kept = np.flatnonzero(wanted)
        measures = {name: each[kept] for name, each in measures.items()}
        return StemMatches(match.rows[kept], match.stored, match.positions[kept], measures)

    def _combined(self, found: JoinedRows, stem: int, matches: Sequence[StemMatches]) -> JoinedRows:
        columns = self.join.columns[stem]
        frames = [frame_of(gather(match.stored, columns, match.positions)) for match in matches]
        rows = np.concatenate([match.rows for match in matches])
        parts: dict[int, tuple[pl.DataFrame, Positions | None]] = {
            source: (frame, rows if chosen is None else chosen[rows]) for source, (frame, chosen) in found.parts.items()
        }
        parts[stem] = stacked(frames), None
        names = matches[0].measures
        return JoinedRows(parts, {name: np.concatenate([m.measures[name] for m in matches]) for name in names})

    def _satisfying(self, found: JoinedRows, condition: Expression) -> JoinedRows:
        if condition == TRUE or not found.height:
            return found
        read = [value_column(index) for index in sorted(columns_used(condition))]
        holds = attempt(self._frame(found, read), [condition], ["holds"]).to_series().fill_null(value=False).to_numpy()
        return found if holds.all() else found.only(np.flatnonzero(holds))

    def _frame(self, found: JoinedRows, columns: Sequence[str]) -> pl.DataFrame:
        """Columns of the row of all inputs."""
        series = []
        for name in dict.fromkeys(columns):
            source, own = self.graph.places[name]
            series.append(found.values(source, [own])[0].alias(name))
        return frame_of(series) if series else pl.DataFrame(height=found.height)


def _signature(source: int) -> str:
    """The measure with the signatures of an input's rows."""
    return f"{SIGNATURE}{source}"
