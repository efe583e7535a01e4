"""What an operator raises on its data stops those who read it, and nobody else; what says nothing about the data fails
the epoch, which is tried again."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import polars as pl
import pyarrow as pa
import pytest

import millstream as ms
from millstream import kernel
from millstream.errors import StateError
from millstream.kernel.batch import Batch
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.ordering.ordered_operator import OrderedOperator
from millstream.kernel.relational.linear import Project
from millstream.kernel.sharing.cells import CellSelection

for module in pkgutil.walk_packages(kernel.__path__, "millstream.kernel."):
    importlib.import_module(module.name)

Answers = dict[str, object]  # of each query
Users = dict[type[Operator], set[str]]  # of each operator


def operators(kind: type[Operator] = Operator) -> set[type[Operator]]:
    return {kind, *(each for below in kind.__subclasses__() for each in operators(below))}


STEPPING = {kind for kind in operators() if "step" in vars(kind)} - {Operator, OrderedOperator}
OPERATORS = sorted({*STEPPING, *OrderedOperator.__subclasses__()}, key=lambda kind: kind.__name__)
ON_DATA = [
    pl.exceptions.ComputeError("a Polars error"),
    pl.exceptions.PanicException("a panic"),
    OverflowError("too large"),
    pa.ArrowInvalid("an Arrow error"),
    IndexError("a NumPy error"),
    ms.TypeError("another error of ours"),
]
# Each with the settings under which it has the operators that stand behind it.
PLANS: dict[str, tuple[str, ...]] = {
    "SELECT a FROM S [RANGE 5] WHERE a > 0": (),
    "SELECT 10 / (b + 1) AS c FROM S [RANGE 5]": (),
    "SELECT a, b FROM S [ROWS 2]": (),
    "SELECT a, b FROM S [PARTITION BY a ROWS 2]": (),
    "SELECT a FROM S SAMPLE (50 PERCENT) [RANGE 5]": (),
    "SELECT a, sum(b) AS b FROM S [RANGE 5] GROUP BY a": (),
    "SELECT DISTINCT a FROM S [RANGE 5]": (),
    "SELECT a FROM S [RANGE 5] EXCEPT SELECT a FROM R [RANGE 5]": (),
    "SELECT a FROM S [RANGE 5] UNION ALL SELECT a FROM R [RANGE 5]": (),
    "SELECT S.a FROM S [RANGE 5], R [RANGE 5] WHERE S.a = R.a": ("SET join_plan = 'tree'", "SET jit = 'off'"),
    "SELECT S.a, R.b FROM S [RANGE 5], R [RANGE 5] WHERE S.a = R.a": ("SET join_plan = 'eddy'",),
    "SELECT S.a FROM S [RANGE 5], R [RANGE 5], Q [RANGE 5] WHERE S.a = R.a AND R.b = Q.b": ("SET jit = 'on'",),
    "SELECT S.a FROM S [RANGE 5] LEFT JOIN R [RANGE 5] ON S.a = R.a": (),
    "SELECT a FROM S [RANGE 5] WHERE NOT EXISTS (SELECT 1 FROM R [RANGE 5] WHERE R.a = S.a)": (),
    "SELECT a FROM S [RANGE 5] WHERE EXISTS (SELECT 1 FROM R [RANGE 5] WHERE R.a = S.a)": (),
    "ISTREAM(SELECT a FROM S [RANGE 5])": (),
    "RSTREAM(SELECT a FROM S [RANGE 5])": (),
    "SELECT a FROM (ISTREAM(SELECT a FROM S [RANGE 5])) [ROWS 2]": (),
    "SELECT S.a, N.n FROM S [RANGE 5], N WHERE S.a = N.a": (),
    "SELECT d.a, N.n FROM (SELECT DISTINCT a FROM S [RANGE 5]) d, N WHERE d.a = N.a": (),
    "SELECT d.a, N.n FROM (SELECT DISTINCT a FROM S [ROWS 2]) d, N WHERE d.a = N.a": (),
    "SELECT a FROM C": (),
    "SELECT a FROM K": (),
    "SELECT a, b FROM S [RANGE 1 ON b]": (),
    "SELECT a, n FROM S [RANGE 5], UNNEST(array(a, b)) AS u(n)": (),
    "SELECT a, count(*) AS n FROM S [ROWS 2] GROUP BY a": ("SET strategy = 'negative'",),
    "SELECT DISTINCT a, b FROM S [RANGE 6]": ("SET strategy = 'direct'",),
    "SELECT DISTINCT a, b FROM S [RANGE 7]": ("SET strategy = 'negative'",),
    "SELECT DISTINCT a, b FROM S [ROWS 4]": (),
    "SELECT S.a, R.b FROM S [RANGE 6] ASOF JOIN R [RANGE 6] ON S.a = R.a AND S.b >= R.b": (),
    "SELECT a FROM S [RANGE 6] INTERSECT SELECT a FROM R [RANGE 6]": (),
    "SELECT a FROM S [RANGE 6] EXCEPT ALL SELECT a FROM R [RANGE 5]": ("SET strategy = 'negative'",),
    "SELECT a FROM S [halves]": (),
    "SELECT RSTREAM(a) EVERY 2 FROM S [RANGE 5]": (),
    "SELECT S.b, R.b FROM S [RANGE 5], R [RANGE 5], Q [RANGE 5] WHERE S.a = R.a AND R.b = Q.b": (
        "SET join_plan = 'mjoin'",
        "SET jit = 'off'",
    ),
    "SELECT a, window_end FROM S [TUMBLE 3]": (),
    "SELECT b, window_end FROM S [TUMBLE 3]": ("SET strategy = 'negative'",),
    "SELECT a, count(*) AS n FROM S [SESSION 2] GROUP BY a": (),
    "SELECT a, b FROM S [RANGE 5] ORDER BY b LIMIT 1": (),
    "SELECT a, lag(b) OVER (PARTITION BY a ORDER BY b) AS c FROM S [RANGE 5]": (),
}


@contextmanager
def faulty(kind: type[Operator], error: BaseException) -> Iterator[list[int]]:
    """Every step of the operator raises once there are rows or time passes; gives how often it did."""
    right, raised = kind.step, [0]

    def step(self: Operator, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        if type(self) is kind and (any(batch.height for batch in inputs) or progress.low > 0):
            raised[0] += 1
            raise error
        return right(self, inputs, state, progress)

    kind.step = step  # type: ignore[method-assign]
    try:
        yield raised
    finally:
        kind.step = right  # type: ignore[method-assign]


def database() -> ms.Database:
    db = ms.connect(engine="inprocess")
    for name in "SRQ":
        db.execute(f"CREATE STREAM {name} (a INT, b INT) TIMESTAMP BY t")
    db.execute("CREATE TABLE N (a INT, n INT) NON RETROACTIVE; INSERT INTO N VALUES (1, 10)")
    db.execute("CREATE TABLE C (a INT) CHANGES BY op TIMESTAMP BY t")
    db.execute("CREATE TABLE K (a INT) KEY (a) CHANGES BY op TIMESTAMP BY t")
    db.create_window("halves", lambda values, instants: pl.DataFrame({"start": instants, "end": instants + 2}))
    return db


def feed(db: ms.Database, first: int) -> None:
    for name in "SRQ":
        db.insert(name, [(1, first, first), (2, 2, first + 1)])
    for name in "CK":
        db.insert(name, [(first, "+", first)])
    db.advance(to=first + 3)


def read(query: ms.Query) -> object:
    try:
        return query.result().to_pylist()
    except ms.EvaluationError:
        return "failed"


GROUPS = {
    "grouped": ("SELECT a, b FROM S [RANGE 5] WHERE b > ?", "eager"),
    "keyed": ("SELECT a, b FROM S [RANGE 5] WHERE a = ?", "eager"),
    "summed": ("SELECT a, sum(b) AS n FROM S [RANGE 5] WHERE b > ? GROUP BY a", "eager"),
    "lasting": ("SELECT a, sum(b) AS n FROM S [ROWS 9] WHERE b > ? GROUP BY a", "eager"),
    "checked": ("SELECT a, sum(CAST(b AS BIGINT)) AS n FROM S [RANGE 5] WHERE b > ? GROUP BY a", "eager"),
    "matched": ("SELECT a, b FROM S [RANGE 5] WHERE b > ?", "lazy"),
    "distinct": ("SELECT DISTINCT a, b FROM S [RANGE 5] WHERE b > ?", "eager"),
    "constants": ("SELECT a, max(b) AS n FROM S [RANGE 5] WHERE b > ? GROUP BY a HAVING max(b) < ? + 99", "eager"),
    "sized": ("SELECT DISTINCT a, b FROM S [RANGE ?] WHERE b > ?", "eager"),
    "routed": (
        "SELECT S.a, Q.b FROM S [RANGE 5], R [RANGE 5], Q [RANGE 5] WHERE S.a = R.a AND R.b = Q.b AND S.b > ?",
        "eager",
    ),
    "rows": ("SELECT a, b FROM R [ROWS ?] WHERE b > ?", "eager"),
    "ranked": ("SELECT sum(b) AS n FROM S [RANGE 5] WHERE b > ?", "lazy"),
}
LAZY = {
    "matches": "SELECT a + b AS c FROM S [RANGE 5]",
    "tree": "SELECT sum(b) AS n FROM S [RANGE 5]",
    "guard": "SELECT 10 / b AS n FROM S [RANGE 5]",
}
# Within others, made only where consumers or many queries ask, run by who reads, done at instant 0, shown by
# `_malformed` alone, or called only where something fails: all are run by the same function.
NOT_TRIED = {
    "CombinedAggregate",
    "ElementsLeftOut",
    "Expand",
    "Failures",
    "KeptSelection",
    "OneRow",
    "Shorten",
    "Stamp",
    "ProducerOutput",
    "Values",
}
CONTROL = "SELECT a, b FROM S [ROWS 3]"


def registered(db: ms.Database, wanted: set[str] | None = None) -> dict[str, ms.Query]:
    queries = {CONTROL: db.register(CONTROL)}
    for text, settings in PLANS.items():
        if wanted is None or text in wanted:
            for setting in ("SET join_plan = 'auto'", "SET jit = 'auto'", "SET strategy = 'upa'", *settings):
                db.execute(setting)
            queries[text] = db.register(text)
    db.execute("SET strategy = 'upa'")
    for name, text in LAZY.items():
        if wanted is None or name in wanted:
            queries[name] = db.register(text, mode="lazy")
    for name, (text, mode) in GROUPS.items():
        if wanted is None or name in wanted:
            queries[name] = db.register_many(text, [(i or 12,) * text.count("?") for i in range(12)], mode=mode)[1]
    return queries


@pytest.fixture(scope="module")
def right() -> Answers:
    """The answers without faults."""
    with database() as db:
        queries = registered(db)
        feed(db, 1)
        feed(db, 10)
        return {name: read(query) for name, query in queries.items()}


@pytest.fixture(scope="module")
def users() -> Users:
    """Of each operator, the queries that have it, and not all of them."""
    found: Users = {}
    with database() as db:
        queries = registered(db)
        feed(db, 1)  # queries of groups take part from the next epoch on
        for name, query in queries.items():
            pipeline = db.engine.pipeline
            below = {edge for own in query.materialization.edges for edge in pipeline.edges_below(own)}
            for step in pipeline.steps:
                if step.name in below:
                    found.setdefault(type(step.operator), set()).add(name)
    return found


def check_others(queries: dict[str, ms.Query], right: Answers) -> set[str]:
    """The queries that failed; all others answer as they should."""
    answers = {name: read(query) for name, query in queries.items()}
    failed = {name for name, answer in answers.items() if answer == "failed"}
    assert {n: a for n, a in answers.items() if n not in failed} == {n: right[n] for n in answers if n not in failed}
    return failed


def is_named(kind: type[Operator], said: str) -> bool:
    """By its own name, or as the selection of cells, which has a projection within."""
    return kind.__name__ in said or (kind is Project and CellSelection.__name__ in said)


def test_every_operator_is_tried(users: Users) -> None:
    missing = {kind.__name__ for kind in OPERATORS} - {kind.__name__ for kind in users}
    assert sorted(missing - NOT_TRIED) == []


@pytest.mark.parametrize("kind", OPERATORS, ids=lambda kind: kind.__name__)
def test_a_step_that_raises_stops_its_queries_alone(right: Answers, users: Users, kind: type[Operator]) -> None:
    error = ON_DATA[OPERATORS.index(kind) % len(ON_DATA)]
    with database() as db:
        queries = registered(db, users.get(kind, set()))
        with faulty(kind, error):
            feed(db, 1)
        feed(db, 10)
        failed = check_others(queries, right)
        assert failed <= users.get(kind, set())
        assert failed or kind not in users or kind.__name__ in NOT_TRIED
        for name in failed:
            said = queries[name].error
            assert said is not None
            assert "ours" in str(said) or (is_named(kind, said.primary) and type(error).__name__ in str(said.detail))
            assert queries[name].stats()["state"] == "failed"


@pytest.mark.parametrize(
    "error", [OSError("a full disk"), MemoryError(), StateError("a lost file"), KeyboardInterrupt()]
)
def test_surroundings_fail_the_epoch_and_no_query(right: Answers, error: BaseException) -> None:
    with database() as db:
        queries = registered(db, {"SELECT a FROM S [RANGE 5] WHERE a > 0", "grouped"})
        for kind in {type(step.operator) for step in db.engine.pipeline.steps}:
            with faulty(kind, error), pytest.raises(type(error)):
                db.insert("S", [(1, 1, 1), (2, 2, 2)])
            assert db.stats()["streams"]["S"]["arrived"] == 0
        assert all(query.error is None for query in queries.values())
        feed(db, 1)
        feed(db, 10)
        assert check_others(queries, right) == set()


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
@pytest.mark.parametrize("background", [True, False])
def test_late_queries_and_reads(right: Answers, mode: str, background: bool) -> None:
    """A past that cannot be worked through fails the query that asks for it, however it is kept."""
    with database() as db:
        db.execute(f"SET background_rows = {1 if background else 1000}")
        feed(db, 1)
        feed(db, 10)
        other = db.register(CONTROL)
        with faulty(Project, OverflowError("too large")), pytest.raises(ms.EvaluationError, match="Project"):
            db.register("SELECT a + b AS c FROM S [RANGE 5]", "late", mode).result()
        with faulty(Project, OverflowError("too large")), pytest.raises(ms.EvaluationError, match="Project"):
            db.execute("SELECT a + b AS c FROM S [RANGE 5]")
        assert read(other) == right[CONTROL]
        db.insert("S", [(3, 3, 100)])
