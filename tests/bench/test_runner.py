"""Experiments run, print, write their results and draw; the benchmark's own parts do what they say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bench.experiments.cacq import adaptivity
from bench.experiments.upa import update_patterns
from bench.harness import runner
from bench.harness.answers import ByValue
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find, in_turns
from bench.harness.pictures import bars as draw_bars
from bench.workloads.network import Generator
from bench.workloads.queries import QUERIES
from rich.console import Console
from typer.testing import CliRunner

from millstream import cli
from millstream.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def tiny(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """Two queries of the real experiment, over little traffic."""
    monkeypatch.setattr(update_patterns, "BATCH", 300)
    monkeypatch.setattr(update_patterns, "WINDOWS", (500,))
    monkeypatch.setattr(update_patterns, "MEASURED", 900)
    chosen = {name: QUERIES[name] for name in ("Q2 pairs", "Q3 not exists", "Q3 except")}
    monkeypatch.setattr(update_patterns, "QUERIES", chosen)
    return update_patterns.EXPERIMENT


def test_an_experiment_runs_through_the_runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    console = Console(record=True, width=140)
    measurements, bars = runner.run(tiny(monkeypatch), Settings(out=tmp_path), console)
    assert {(m.case, m.variant) for m in measurements} >= {
        ("Q2 pairs", "upa/10"),
        ("Q2 pairs", "direct/scan"),
        ("Q2 pairs", "negative/value"),
        ("Q3 not exists", "upa/value"),
        ("Q3 except", "negative/value"),
    }
    assert not any(m.variant.startswith("direct") for m in measurements if m.case.startswith("Q3"))
    assert all(m.sample.elements > 0 and m.sample.cpu > 0 and m.sample.rows_held > 0 for m in measurements)
    assert [bar.target for bar in bars] == [0.8]
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [line["variant"] for line in lines] == [m.variant for m in measurements]
    assert (tmp_path / "update_patterns.png").stat().st_size > 1000
    assert "Q3 except" in console.export_text()


def test_strategies_that_disagree_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    experiment = tiny(monkeypatch)
    monkeypatch.setattr(ByValue, "read", lambda self: self.counts.head(1))
    with pytest.raises(AssertionError, match="strategies disagree"):
        runner.run(experiment, Settings(out=tmp_path), Console(quiet=True))


def test_alternatives_take_turns_and_the_best_run_counts() -> None:
    order: list[str] = []
    times = iter([3.0, 1.0, 2.0, 4.0])

    def run(name: str) -> Sample:
        order.append(name)
        return Sample(10, next(times), 1.0)

    best = in_turns({"a": lambda: run("a"), "b": lambda: run("b")}, 2)
    assert order == ["a", "b", "b", "a"]
    assert {name: sample.cpu for name, sample in best.items()} == {"a": 3.0, "b": 1.0}
    times = iter([1.0, 2.5, 3.0])
    best = in_turns({"a": lambda: run("a"), "b": lambda: run("b")}, 2, median=True, far_behind=2.0)
    assert order[4:] == ["a", "b", "a"]
    assert {name: sample.cpu for name, sample in best.items()} == {"a": 3.0, "b": 2.5}


def test_what_was_measured_is_kept_and_not_run_again(tmp_path: Path) -> None:
    ran: list[str] = []

    def measured(case: str) -> list[Measurement]:
        ran.append(case)
        return [Measurement(case, "variant", 1, Sample(100, 1.0, 2.0, more={"pairs": 3.0}))]

    def trials(_: Settings) -> list[Trial]:
        return [Trial(case, partial(measured, case)) for case in ("one", "two", "three")]

    def bars(measurements: Sequence[Measurement]) -> list[Bar]:
        return [Bar("cells", len(measurements), 3)]

    experiment = Experiment("kept", "a test", trials, bars, lambda figure, _: None)
    kept, console = tmp_path / "kept.jsonl", Console(record=True, width=120)
    assert runner.run(experiment, Settings(out=tmp_path, keep=kept, minutes=0), console)[0] == []
    assert "3 of 3 trials were not run" in console.export_text()
    found, _ = runner.run(experiment, Settings(out=tmp_path, keep=kept), Console(quiet=True))
    assert [m.case for m in found] == ran == ["one", "two", "three"]
    kept.write_text("".join(kept.read_text().splitlines(keepends=True)[:2]))
    again, _ = runner.run(experiment, Settings(out=tmp_path, keep=kept), Console(quiet=True))
    assert again == found
    assert ran[3:] == ["three"]
    kept.write_text("{}\n")
    with pytest.raises(InputError, match="has no measurements"):
        runner.run(experiment, Settings(out=tmp_path, keep=kept), Console(quiet=True))


def test_bars_are_shown_as_met_or_missed(tmp_path: Path) -> None:
    def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
        draw_bars(figure, measurements, lambda m: m.rate, "rate")

    def bars(measurements: Sequence[Measurement]) -> list[Bar]:
        found = find(measurements, "case", "variant")
        assert found is not None
        return [Bar("high", found.rate, 50.0), Bar("low", found.rate, 50.0, at_most=True)]

    trial = Trial("case", lambda: [Measurement("case", "variant", 1, Sample(100, 1.0, 2.0))])
    experiment = Experiment("fast", "a test", lambda _: [trial], bars, draw)
    console = Console(record=True, width=120)
    runner.run(experiment, Settings(out=tmp_path), console)
    text = console.export_text()
    assert "met" in text
    assert "missed" in text
    assert runner.run(experiment, Settings(quick=True, out=tmp_path), Console(quiet=True))[1] == []


def test_traffic_is_repeatable_and_as_described() -> None:
    traffic = Generator().traffic(20_000)
    assert Generator().traffic(20_000).links["link1"].equals(traffic.links["link1"])
    assert not Generator(seed=8).traffic(20_000).links["link1"].equals(traffic.links["link1"])
    for link in traffic.links.values():
        assert link.get_column("ts").is_sorted()
        assert 19_000 < link.height < 21_000
        counts = dict(link.get_column("protocol").value_counts().iter_rows())
        assert 8 < counts["telnet"] / counts["ftp"] < 12.5
        assert link.select("src", "dst").n_unique() > 3 * link.get_column("src").n_unique()


def test_all_experiments_load() -> None:
    assert [runner.load(name).name for name in runner.EXPERIMENTS] == list(runner.EXPERIMENTS)


def test_the_command_says_where_benchmarks_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "lib" / "millstream" / "cli.py"))
    result = CliRunner().invoke(cli.app, ["bench", "--quick"])
    assert result.exit_code == 1
    assert "there is no bench folder" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", ["shared_queries", "keyed_queries", "lineage_bits", "routing", "query_storage"])
def test_experiments_with_many_queries_run(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    experiment = runner.load(name)
    if name == "shared_queries":
        monkeypatch.setattr("bench.experiments.cacq.shared_queries.ROWS", {1: 10_000, 10: 10_000})
    measurements, _ = runner.run(experiment, Settings(quick=True, out=tmp_path), Console(quiet=True))
    assert all(m.sample.elements > 0 and m.sample.cpu > 0 for m in measurements)
    assert (tmp_path / f"{name}.png").stat().st_size > 1000


@pytest.mark.parametrize("case", ["workload 1", "flip"])
def test_who_decides_most_has_most_tickets_in_the_end(case: str) -> None:
    (trial,) = [trial for trial in adaptivity.trials(Settings()) if trial.label == case]
    last = {m.variant: m.sample.more["ticket_share"] for m in trial.measure()}
    assert max(last, key=lambda name: last[name]) == "S.e"
