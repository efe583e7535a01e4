"""The system streams: their names and columns.

They are streams like others, with the wall clock as their time. Nobody inserts into them or drops them, and what they
hold is kept for an hour.
"""

from __future__ import annotations

from millstream.plan.definitions import HeartbeatRule, StreamDefinition, TimeDomain, TimestampDefinition
from millstream.types import BIGINT, DOUBLE, STRING, TIMESTAMP, DataType, Field

PREFIX = "sys."
RETAIN = 3_600_000_000  # microseconds
TIMESTAMP_COLUMN = "ts"


def is_system(source: str) -> bool:
    return source.startswith(PREFIX)


def _stream(name: str, **columns: DataType) -> StreamDefinition:
    fields = (*(Field(column, kind) for column, kind in columns.items()), Field(TIMESTAMP_COLUMN, TIMESTAMP))
    stamp = TimestampDefinition(TIMESTAMP_COLUMN, TIMESTAMP, len(columns))
    return StreamDefinition(
        f"{PREFIX}{name}", fields, stamp, TimeDomain(1, TIMESTAMP), HeartbeatRule("EXPLICIT"), RETAIN
    )


# One element per epoch. Phases are milliseconds: waiting for the lock, letting queries in, preparing the work, running
# it, committing it, and what follows the commit.
EPOCHS = _stream(
    "epochs",
    epoch=BIGINT,
    rows=BIGINT,
    late=BIGINT,
    operators=BIGINT,
    failures=BIGINT,
    wait_ms=DOUBLE,
    admit_ms=DOUBLE,
    prepare_ms=DOUBLE,
    run_ms=DOUBLE,
    commit_ms=DOUBLE,
    finish_ms=DOUBLE,
    total_ms=DOUBLE,
)

# One per epoch and operator that took part, the costliest where these are very many.
OPERATORS = _stream(
    "operators",
    epoch=BIGINT,
    operator=STRING,
    kind=STRING,
    rows=BIGINT,
    ms=DOUBLE,
    memory_bytes=BIGINT,
    state_bytes=BIGINT,
)

# One whenever a query comes, goes, or changes its state.
QUERIES = _stream("queries", query=STRING, state=STRING, mode=STRING, error=STRING)

# One per epoch and stream that has moved. The lag is that of the heartbeat behind the wall clock, where time is such.
STREAMS = _stream(
    "streams",
    stream=STRING,
    epoch=BIGINT,
    rows=BIGINT,
    arrived=BIGINT,
    late=BIGINT,
    malformed=BIGINT,
    shed=BIGINT,
    heartbeat=BIGINT,
    lag_ms=DOUBLE,
)

# One per filter and SteM of an eddy that has learnt something. A share is that of the lottery's tickets.
ROUTING = _stream("routing", operator=STRING, source=BIGINT, module=STRING, tickets=DOUBLE, share=DOUBLE, work=DOUBLE)

# One per delivery, and when a sink is paused.
SINKS = _stream("sinks", sink=STRING, query=STRING, state=STRING, delivery=BIGINT, rows=BIGINT, ms=DOUBLE, error=STRING)

SYSTEM_STREAMS = (EPOCHS, OPERATORS, QUERIES, STREAMS, ROUTING, SINKS)
