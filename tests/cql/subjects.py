"""What `.cql` files are run against: the oracle, which says what is right, and the engine."""

from __future__ import annotations

import importlib
import re
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from tests.cql.runner import Row
from tests.oracle import Oracle


class OracleSubject:
    def __init__(self) -> None:
        self.oracle = Oracle()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def execute(self, text: str) -> None:
        self.oracle.execute(text)

    def result(self, query: str, at: Any) -> list[Row]:
        is_stream = self.kind(query) == "stream"
        if at is None:
            bag = self.oracle.now(query)
        else:
            t = self.oracle.tick(query, at)
            bag = self.oracle.elements(query, t) if is_stream else self.oracle.relation(query, t)
        if not is_stream:
            return list(bag.elements())
        return [(self.oracle.timestamp(query, ts), *values) for ts, values in bag.elements()]

    def changes(self, query: str, since: Any) -> list[Row]:
        start = None if since is None else self.oracle.tick(query, since)
        net = self.oracle.changes(query, start)
        return [(self.oracle.timestamp(query, ts), weight, *row) for (ts, row), weight in net.items()]

    def kind(self, query: str) -> str:
        return self.oracle.kind(query)

    def defaults(self, query: str) -> list[str]:
        return self.oracle.defaults(query)


class EngineSubject:
    """The engine, in this process unless said otherwise, with settings of its own, on so many shards."""

    def __init__(
        self,
        strategy: str = "upa",
        shards: int = 1,
        sharing: str = "auto",
        join_plan: str = "auto",
        jit: str = "auto",
        mode: str = "eager",
        **where: Any,
    ) -> None:
        # Here and not above, so that the oracle's tests run without the engine.
        self.mode = mode
        millstream: Any = importlib.import_module("millstream")
        self.db = millstream.connect(**(where or {"engine": "inprocess"}))
        self.db.execute(
            f"SET strategy = '{strategy}'; SET shards = {shards}; SET sharing = '{sharing}';"
            f"SET join_plan = '{join_plan}'; SET jit = '{jit}'"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.db.close()

    def execute(self, text: str) -> None:
        self.db.execute(re.sub(r"(REGISTER QUERY \w+) AS", rf"\1 MODE {self.mode} AS", text))

    def result(self, query: str, at: Any) -> list[Row]:
        return _rows(self.db.query(query).result(at=at))

    def changes(self, query: str, since: Any) -> list[Row]:
        return _rows(self.db.query(query).changes(since=since))

    def kind(self, query: str) -> str:
        return str(self.db.query(query).kind)

    def defaults(self, query: str) -> list[str]:
        return list(self.db.query(query).defaults)


def _rows(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
