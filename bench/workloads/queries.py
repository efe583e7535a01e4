"""The five queries of the update-pattern paper's experiments, over the links of `network`, and how to lower them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.workloads.network import SCHEMA

import millstream as ms
from millstream.errors import BindError
from millstream.kernel.joins.pairwise import KeyedJoin
from millstream.kernel.pipeline import Pipeline
from millstream.language.binder import Binder
from millstream.language.statement_parser import parse_query
from millstream.plan.cost import Statistics
from millstream.plan.lowering.lower import Lowering
from millstream.plan.lowering.options import Options
from millstream.plan.rewrite import rewrite

_QUERY_1 = """
    SELECT a.src, a.dst, a.payload, b.dst, b.payload FROM Link1 [RANGE {window}] AS a, Link2 [RANGE {window}] AS b
    WHERE a.src = b.src AND a.protocol = '{protocol}' AND b.protocol = '{protocol}'"""

# `frequent` and `rare` are protocols: telnet and ftp, unless the records come from a trace.
QUERIES: Mapping[str, str] = {
    "Q1 rare": _QUERY_1.replace("{protocol}", "{rare}"),
    "Q1 frequent": _QUERY_1.replace("{protocol}", "{frequent}"),
    "Q2 sources": "SELECT DISTINCT src FROM Link1 [RANGE {window}]",
    "Q2 pairs": "SELECT DISTINCT src, dst FROM Link1 [RANGE {window}]",
    "Q3 not exists": """
        SELECT src, dst FROM Link1 [RANGE {window}] AS a
        WHERE NOT EXISTS (SELECT 1 FROM Link2 [RANGE {window}] AS b WHERE b.src = a.src)""",
    "Q3 except": "SELECT src FROM Link1 [RANGE {window}] EXCEPT SELECT src FROM Link2 [RANGE {window}]",
    "Q4": """
        SELECT a.src FROM (SELECT DISTINCT src FROM Link1 [RANGE {window}]) AS a,
            (SELECT DISTINCT src FROM Link2 [RANGE {window}]) AS b
        WHERE a.src = b.src""",
    "Q5 pulled up": """
        SELECT * FROM (SELECT Link1.src AS s, Link3.dst FROM Link1 [RANGE {window}], Link3 [RANGE {window}]
            WHERE Link1.src = Link3.src AND Link3.protocol = '{rare}') AS j
        WHERE NOT EXISTS (SELECT 1 FROM Link2 [RANGE {window}] WHERE Link2.src = j.s)""",
    "Q5 pushed down": """
        SELECT n.src, Link3.dst FROM Link3 [RANGE {window}],
            (SELECT * FROM Link1 [RANGE {window}] WHERE NOT EXISTS
                (SELECT 1 FROM Link2 [RANGE {window}] WHERE Link2.src = Link1.src)) AS n
        WHERE n.src = Link3.src AND Link3.protocol = '{rare}'""",
}


@dataclass(frozen=True)
class Plan:
    """A query as the kernel runs it: the steps, and the edge that carries an answer of so many columns."""

    pipeline: Pipeline
    edge: str
    width: int

    @property
    def sources(self) -> list[str]:
        made = {step.name for step in self.pipeline.steps}
        return sorted({edge for step in self.pipeline.steps for edge in step.inputs} - made)

    @property
    def has_joins(self) -> bool:
        return any(isinstance(step.operator, KeyedJoin) for step in self.pipeline.steps)


def lower(cql: str, options: Options, statistics: Statistics) -> Plan | None:
    """The plan of a query under a strategy; None where the strategy cannot run it."""
    with ms.connect(engine="inprocess") as db:
        db.execute(SCHEMA)
        bound = Binder(db.catalog, db.settings, cql, db.session.code).bind(parse_query(cql))
    # Both plans of Query 5 are to run as they are written.
    plan = rewrite(bound.plan, statistics, disabled=("pull_up_negation",))
    try:
        lowering = Lowering(plan, options)
    except BindError:
        return None
    return Plan(Pipeline(tuple(lowering.steps.values())), lowering.edge, len(plan.schema))
