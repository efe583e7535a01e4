"""What the kept directories hold: one database with something of everything that is written to disk.

`define` and `feed` are what made a directory; a directory that was fed with the first rows is opened by later versions,
which feed it with the rest and compare it with one that they made themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import millstream as ms

STATEMENTS = """
CREATE STREAM Orders (id BIGINT, customer STRING, amount DOUBLE, price DECIMAL(10, 2)) TIMESTAMP BY ts;
CREATE STREAM Clicks (customer STRING, page STRING, at TIMESTAMP) TIMESTAMP BY at TICK INTERVAL 1 SECOND;
CREATE TABLE Customers (name STRING, city STRING) KEY (name);
INSERT INTO Customers VALUES ('ann', 'Basel'), ('bob', 'Bern'), ('cid', 'Chur');
CREATE VIEW Large AS SELECT ISTREAM(id, customer, amount) FROM Orders [RANGE UNBOUNDED] WHERE amount > 20;
CREATE VIEW Cities (city, orders) AS
    SELECT c.city, COUNT(*) FROM Orders [RANGE 10] o, Customers c WHERE o.customer = c.name GROUP BY c.city;
"""

QUERIES: Mapping[str, tuple[str, str]] = {
    "window": ("eager", "SELECT id, amount FROM Orders [RANGE 6]"),
    "rows": ("eager", "SELECT id FROM Orders [ROWS 3]"),
    "latest": ("eager", "SELECT id, customer FROM Orders [PARTITION BY customer ROWS 1]"),
    "sums": (
        "eager",
        "SELECT customer, COUNT(*) AS n, SUM(price) AS total, MAX(amount) AS most "
        "FROM Orders [RANGE 9] GROUP BY customer",
    ),
    "distinct_customers": ("eager", "SELECT DISTINCT customer FROM Orders [RANGE 5]"),
    "new_customers": ("eager", "SELECT ISTREAM(customer) FROM Orders [RANGE 5]"),
    "pairs": (
        "eager",
        "SELECT a.id AS first, b.id AS second FROM Orders [RANGE 4] a, Orders [RANGE 4] b "
        "WHERE a.customer = b.customer AND a.id < b.id",
    ),
    "without": (
        "eager",
        "SELECT o.id FROM Orders [RANGE 8] o "
        "WHERE NOT EXISTS (SELECT 1 FROM Large [RANGE 3] l WHERE l.customer = o.customer)",
    ),
    "outer_join": ("eager", "SELECT o.id, c.city FROM Orders [RANGE 7] o LEFT JOIN Customers c ON o.customer = c.name"),
    "cities": ("eager", "SELECT city, orders FROM Cities"),
    "large": ("eager", "SELECT customer, COUNT(*) AS n FROM Large [RANGE 20] GROUP BY customer"),
    "clicks": ("eager", "SELECT customer, COUNT(*) AS n FROM Clicks [RANGE 1 MINUTE] GROUP BY customer"),
    "halves": ("eager", "SELECT id, negated(amount) AS x FROM Orders [RANGE 5]"),
    "spans": ("eager", "SELECT customer, span(amount) AS x FROM Orders [RANGE 9] GROUP BY customer"),
    "lazy": ("lazy", "SELECT id, customer FROM Orders [RANGE 12] WHERE amount > 11"),
    "lazy_sum": ("lazy", "SELECT SUM(amount) AS total FROM Orders [RANGE 12]"),
    "none": ("none", "SELECT id FROM Orders [RANGE 12] WHERE customer <> 'bob'"),
    "failed": ("eager", "SELECT 10 DIV (id - 7) AS x FROM Orders [RANGE 3]"),
}
TEMPLATE = "SELECT id, amount FROM Orders [RANGE 6] WHERE amount > ? AND customer = ?"
PARAMETERS = [(float(least), customer) for least in range(0, 40, 10) for customer in ("ann", "bob", "cid")]
CUSTOMERS = ("ann", "bob", "cid", "dee")


class Span:
    """The largest value less the smallest; it has all values as its state."""

    def initialize(self) -> list[float]:
        return []

    def iterate(self, state: list[float], batch: Any) -> list[float]:
        return state + [value for value in batch if value is not None]

    def terminate(self, state: list[float]) -> float | None:
        return max(state) - min(state) if state else None


def define(db: ms.Database) -> None:
    db.create_function("negated", pc.negate, returns="double", columns="arrow")
    db.create_aggregate("span", Span, returns="double")
    db.execute(STATEMENTS)
    for name, (mode, text) in QUERIES.items():
        db.register(text, name=name, mode=mode)
    db.register_many(TEMPLATE, PARAMETERS, names=[f"alert_{place}" for place in range(len(PARAMETERS))])


def feed(db: ms.Database, instants: Sequence[int]) -> None:
    """Rows of these instants, an epoch for each, and changes of the table at some."""
    for instant in instants:
        customer = CUSTOMERS[instant * 7 % 4]
        price = "NULL" if instant % 5 == 0 else f"{instant}.25"
        db.execute(f"INSERT INTO Orders VALUES ({instant}, '{customer}', {instant * 13 % 45}.0, {price}, {instant})")
        db.execute(
            f"INSERT INTO Clicks VALUES ('{customer}', '/{instant % 3}', TIMESTAMP '1970-01-01 00:00:{instant:02}')"
        )
        if instant % 6 == 0:
            db.execute(f"UPDATE Customers SET city = 'Olten {instant}' WHERE name = '{customer}'")


def answers(db: ms.Database) -> dict[str, Any]:
    """What each query answers now, all its changes, or why it failed."""
    found: dict[str, object] = {}
    for query in db.queries():
        try:
            found[query.name] = {"result": _shown(query.result()), "changes": _shown(query.changes())}
        except ms.EvaluationError as error:
            found[query.name] = {"failed": error.primary}
    return found


def _shown(table: pa.Table) -> list[list[str]]:
    return sorted([str(value) for value in row.values()] for row in table.to_pylist())
