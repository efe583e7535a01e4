"""Epochs as operators see them: logged when something is wrong with them, and traced."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import millstream as ms
from millstream.inspection.epochs import PHASES, EpochSeen

LOGGER = "millstream.inspection.epochs"


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts")
        yield db


def logged(caplog: pytest.LogCaptureFixture, level: int) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("millstream") and record.levelno == level]


def test_a_line_an_epoch_at_debug(db: ms.Database, caplog: pytest.LogCaptureFixture) -> None:
    db.register("SELECT k FROM s WHERE v > 3")
    with caplog.at_level(logging.DEBUG, LOGGER):
        db.insert("s", [(1, 5, 1), (2, 6, 3)])
        db.insert("s", [(1, 5, 4), (2, 6, 2)])
    first, second = logged(caplog, logging.DEBUG)
    data, before = vars(second)["data"], vars(first)["data"]
    assert first.getMessage().startswith(f"epoch {before['epoch']}: 2 rows, 0 late, ")
    assert (data["epoch"] - before["epoch"], data["rows"], data["late"]) == (1, 2, 1)
    assert {f"{phase}_ms" for phase in PHASES} < data.keys()


def test_quiet_where_nobody_asked(db: ms.Database) -> None:
    """The library alone writes nothing, whatever goes wrong: not even by the handler of last resort."""
    program = """
import millstream as ms, time
with ms.connect(engine="inprocess") as db:
    db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts")
    db.execute("SET slow_epoch = 1")
    db.register("SELECT 1 / (k - 3) AS x FROM s", name="bad")
    db.create_function("rest", lambda column: (time.sleep(0.01), column)[1], "INT")
    db.register("SELECT rest(k) AS k FROM s")
    db.insert("s", [(3, 1)]); db.advance(to=5)
    print(db.query("bad").error is not None)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


def rested(column: pl.Series) -> pl.Series:
    time.sleep(0.02)
    return column


def test_slow_epochs_are_warnings(db: ms.Database, caplog: pytest.LogCaptureFixture) -> None:
    db.create_function("rest", rested, "INT")
    db.register("SELECT rest(k) AS k FROM s")
    db.insert("s", [(1, 1, 1)])
    assert not logged(caplog, logging.WARNING)
    db.execute("SET slow_epoch = 10")
    db.insert("s", [(1, 1, 2)])
    (slow,) = logged(caplog, logging.WARNING)
    assert slow.getMessage().startswith("slow epoch ")
    assert vars(slow)["data"]["total_ms"] > 10


def test_queries_that_fail_are_told_once(db: ms.Database, caplog: pytest.LogCaptureFixture) -> None:
    db.register("SELECT 1 / (k - 3) AS x FROM s", name="bad")
    db.register_many("SELECT 1 / (v - ?) AS x FROM s", [(7,), (8,)], names=["a", "b"])
    for ts in range(1, 4):
        db.insert("s", [(3, 8, ts)])
    warnings = logged(caplog, logging.WARNING)
    assert {vars(record)["data"]["query"] for record in warnings} == {"bad", "b"}
    assert len(warnings) == 2


def test_streams_that_lag(db: ms.Database, caplog: pytest.LogCaptureFixture) -> None:
    db.execute(
        "CREATE STREAM clocked (k INT) TIMESTAMP BY at TIMESTAMP; CREATE STREAM other (k INT) TIMESTAMP BY at TIMESTAMP"
    )
    now = datetime.now(UTC)
    db.insert("clocked", [(1, now - timedelta(hours=2))])
    assert not logged(caplog, logging.WARNING)  # nobody has said how far a stream may be behind
    db.execute("SET max_lag = 3600 FOR clocked")
    for minutes in (110, 100):
        db.insert("clocked", [(1, now - timedelta(minutes=minutes))])
    db.insert("other", [(1, now - timedelta(days=9))])
    (told,) = logged(caplog, logging.WARNING)
    assert vars(told)["data"]["stream"] == "clocked"
    assert db.inspection.troubles()["streams lag"].keys() == {"clocked"}
    with caplog.at_level(logging.INFO, LOGGER):
        db.insert("clocked", [(1, now)])
    assert [record.getMessage() for record in logged(caplog, logging.INFO)] == ["stream clocked is no longer behind"]
    assert not db.inspection.troubles()["streams lag"]


def test_epochs_are_spans_with_their_phases(db: ms.Database) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("tests")
    end = db.inspection.trace(tracer)
    with tracer.start_as_current_span("my insert") as outer:
        db.insert("s", [(1, 5, 1)])
    end()
    db.insert("s", [(1, 5, 2)])
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert spans.keys() == {"my insert", "epoch", *PHASES}
    epoch = spans["epoch"]
    assert epoch.parent is not None
    assert epoch.parent.span_id == outer.get_span_context().span_id
    assert epoch.attributes is not None
    assert (epoch.attributes["millstream.epoch"], epoch.attributes["millstream.rows"]) == (1, 1)
    at = epoch.start_time
    for phase in PHASES:
        span = spans[phase]
        assert span.parent is not None
        assert span.parent.span_id == epoch.context.span_id
        assert span.start_time == at
        at = span.end_time
    assert at is not None
    assert at <= (epoch.end_time or 0)


def test_nothing_of_opentelemetry_is_loaded_where_nobody_traces() -> None:
    """Libraries of the service load its interface by themselves, if it is there: that does nothing."""
    program = """
import millstream as ms, sys, json
def loaded(): return [name for name in sys.modules if name.split(".")[0] == "opentelemetry"]
with ms.connect(engine="inprocess") as db:
    db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts")
    db.insert("s", [(3, 1)])
    alone = loaded()
    import millstream.cli.serving, millstream.service.server
print(json.dumps([alone, [name for name in loaded() if ".sdk" in name or ".exporter" in name]]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[], []]


def test_observers_see_each_epoch_once(db: ms.Database) -> None:
    seen: list[EpochSeen] = []
    end = db.inspection.epochs.observe(seen.append)
    db.insert("s", [(1, 1, 1), (1, 1, 2)])
    db.register(
        "SELECT epoch FROM sys.epochs [RANGE 1 HOUR]"
    ).result()  # epochs that only feed system streams are not told
    end()
    db.insert("s", [(1, 1, 3)])
    assert [(each.epoch, each.rows) for each in seen] == [(1, 2)]
    assert sum(seen[0].phases.values()) == pytest.approx(seen[0].seconds)
