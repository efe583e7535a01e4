"""Alerts on payments: every customer has an own limit, and no rule may cost a plan of its own.

python examples/payments.py            # in this process
python examples/payments.py spark      # on an embedded Spark
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import millstream as ms

CUSTOMERS = 3_000
BATCHES, SECONDS = 6, 60  # a batch holds a minute of payments
THIEF = 471  # pays small amounts, one every few seconds


def payments(seed: int = 1) -> Iterator[pa.Table]:
    """A minute of payments at a time: (customer, amount, ts), in order of time."""
    random = np.random.default_rng(seed)
    for batch in range(BATCHES):
        count = 2_000
        customers = random.integers(0, CUSTOMERS, count)
        if batch >= 3:
            customers[::200] = THIEF
        yield pa.table(
            {
                "customer": customers,
                "amount": np.round(random.lognormal(3.0, 1.0, count), 2),
                "ts": batch * SECONDS + np.sort(random.integers(0, SECONDS, count)),
            }
        )


def main(engine: str = "inprocess") -> None:
    random = np.random.default_rng(7)
    limits = [(customer, float(limit)) for customer, limit in enumerate(random.integers(300, 900, CUSTOMERS))]
    with ms.connect(engine=engine) as db:
        db.execute("CREATE STREAM Payments (customer BIGINT, amount DOUBLE) TIMESTAMP BY ts TICK INTERVAL '1' SECOND")
        rules = db.register_many("SELECT * FROM Payments WHERE customer = ? AND amount > ?", limits)
        hasty = db.register(
            "SELECT customer FROM Payments [RANGE 45 SECONDS] GROUP BY customer HAVING count(*) > 6",
            name="hasty",
        )
        # A sink gets every final change once: (+1) the customer enters the answer, (-1) leaves it.
        db.create_sink("desk", "hasty", lambda number, changes: _report(changes))

        print(f"{len(rules):,} rules, one plan: {rules[0].cql}")
        for batch in payments():
            db.insert("Payments", batch)
        db.advance("Payments", to=BATCHES * SECONDS)

        alerts = db.results(rules)  # of all rules at once
        largest = alerts.sort_by([("amount", "descending")]).slice(0, 3).to_pylist()
        print(f"{alerts.num_rows} payments above their customer's own limit; the largest:")
        for alert in largest:
            customer, limit = limits[alert["customer"]]
            print(f"  customer {customer:>5} paid {alert['amount']:>8.2f}, limit {limit:.0f}")
        print(f"hasty customers now: {hasty.result().to_pylist()}")


def _report(changes: pa.Table) -> None:
    for row in changes.to_pylist():
        sign = "+" if row["_weight"] > 0 else "-"
        print(f"  {row['_ts']:>4} s {sign} customer {row['customer']}: more than 6 payments in 45 seconds")


if __name__ == "__main__":
    main(*sys.argv[1:2])
