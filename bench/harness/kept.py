"""Trials that have been measured are kept in a file, so that what takes hours may be run in parts.

A trial of which the file has measurements is not run again. What has changed since is not looked at: who changes what
is measured gives another file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.harness.experiment import Measurement, Sample

from millstream.errors import InputError


@dataclass
class Kept:
    """The measurements of one experiment in a file, by the label of their trial."""

    path: Path | None
    experiment: str
    found: dict[str, list[Measurement]] = field(default_factory=dict)
    commits: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.path is None or not self.path.exists():
            return
        for number, text in enumerate(self.path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                line = json.loads(text)
                measurements = [_measurement(each) for each in line["measurements"]]
                experiment, label, commit = line["experiment"], line["trial"], line["commit"]
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"line {number} of {self.path} has no measurements",
                    detail=f"{type(error).__name__}: {error}",
                    hint="give --keep a file that a bench has written, or a new one",
                ) from None
            if experiment == self.experiment:
                self.found[label] = measurements
                self.commits.add(str(commit))

    def add(self, label: str, measurements: Sequence[Measurement], circumstances: Mapping[str, Any]) -> None:
        self.found[label] = [*measurements]
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = {
            "experiment": self.experiment,
            "trial": label,
            "measurements": [asdict(measurement) for measurement in measurements],
            **circumstances,
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def notes(self, labels: Sequence[str]) -> list[str]:
        """What a reader of the bars must know: how much was measured, and of how many versions."""
        missing = [label for label in labels if label not in self.found]
        notes = [f"{len(missing):,} of {len(labels):,} trials were not run: the bars are those of the others"]
        kept = [f"{self.path} has trials of several commits: {', '.join(sorted(self.commits))}"]
        return (notes if missing else []) + (kept if len(self.commits) > 1 else [])


def _measurement(given: Mapping[str, Any]) -> Measurement:
    return Measurement(given["case"], given["variant"], given["size"], Sample(**given["sample"]))
