"""Every scalar function against Spark itself, ANSI mode on: values, types and errors, over rows with extremes in them.

The rows on which an expression of spark_cases does not fail must give what Spark gives (one Spark job for all
expressions and rows), and of those on which it fails, Spark must fail on the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from tests.kernel.scalar.spark_cases import CASES, COLUMNS, DEPARTURES, HEIGHT, parse, rows

from millstream import types
from millstream.errors import EvaluationError
from millstream.kernel.scalar.compiler import compile_expressions
from millstream.kernel.scalar.evaluate import evaluate
from millstream.kernel.scalar.expressions import Expression
from millstream.spark.session import embedded_session

pytestmark = pytest.mark.spark

# Java's StrictMath and the C library may differ in a result's last digits.
INEXACT = ("sqrt", "cbrt", "pow", "exp", "ln", "log", "sin", "cos", "tan", "atan", "degrees", "radians", "hypot")


@dataclass
class Answer:
    """What Millstream says to one expression: its values where it does not fail, and the rows on which it does."""

    sql: str
    expression: Expression
    values: pl.Series
    failed: list[int]

    def kept(self) -> pl.DataFrame:
        return _without(rows(), self.failed)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    started = embedded_session("local[1]")
    session = started.session.newSession()
    session.sparkContext.setLogLevel("OFF")
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    # Compiling hundreds of expressions takes longer than interpreting them on a few rows.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    schema = pa.schema([pa.field(name, types.to_arrow(column.type)) for name, column in COLUMNS.items()])
    table = rows().to_arrow().rename_columns(list(COLUMNS)).cast(schema)
    table = table.append_column("row", pa.array(range(HEIGHT), pa.int32()))
    session.createDataFrame(table).createOrReplaceTempView("t")
    yield session
    started.stop()


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    return {text: answer(text) for texts in CASES.values() for text in texts}


def answer(text: str) -> Answer:
    sql, expression = parse(text)
    program = compile_expressions((expression,))
    computed = rows()
    for stage in program.stages:
        computed = computed.with_columns(stage)
    failed: set[int] = set()
    for check in program.checks:
        failed.update(computed.with_columns(check.mask.alias("failed"))["failed"].fill_null(False).arg_true())
    return Answer(sql, expression, _values(_without(rows(), sorted(failed)), expression), sorted(failed))


def _without(frame: pl.DataFrame, dropped: list[int]) -> pl.DataFrame:
    return frame.filter(pl.Series([index not in dropped for index in range(HEIGHT)]))


def _values(frame: pl.DataFrame, expression: Expression) -> pl.Series:
    return evaluate(frame, [expression], ["v"]).to_series()


@pytest.fixture(scope="module")
def spark_answers(spark: Any, answers: dict[str, Answer]) -> pl.DataFrame:
    """Spark's values for all cases, NULL on the rows where Millstream fails."""
    columns = []
    for text, answer in answers.items():
        if len(answer.failed) < HEIGHT:
            rest = f"row NOT IN ({', '.join(map(str, answer.failed))})" if answer.failed else "TRUE"
            columns.append(f"CASE WHEN {rest} THEN {answer.sql} END AS `{text}`")
    result = spark.sql(f"SELECT row, {', '.join(columns)} FROM t").toArrow()
    frame = pl.from_arrow(result)
    assert isinstance(frame, pl.DataFrame)
    return frame.sort("row")


@pytest.mark.parametrize("group", CASES)
def test_types(group: str, spark: Any, answers: dict[str, Answer]) -> None:
    shown = ", ".join(f"{answers[text].sql} AS `{text}`" for text in CASES[group])
    theirs = {field.name: _shown_type(field.dataType) for field in spark.sql(f"SELECT {shown} FROM t").schema}
    mine = {text: str(answers[text].expression.type) for text in CASES[group]}
    assert mine == theirs


@pytest.mark.parametrize("group", CASES)
def test_values(group: str, answers: dict[str, Answer], spark_answers: pl.DataFrame) -> None:
    differences = {}
    for text in CASES[group]:
        answer = answers[text]
        if text in spark_answers.columns:
            theirs = _without(spark_answers, answer.failed)[text].cast(answer.values.dtype)
            pairs = zip(_shown(answer.values), _shown(theirs), strict=True)
            inexact = text.startswith(INEXACT)
            differing = [(mine, other) for mine, other in pairs if not _equal(mine, other, inexact=inexact)]
            if differing:
                differences[text] = differing[:3]
    assert not differences, "expression: [(Millstream, Spark), ...]"


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("group", CASES)
def test_failures(group: str, every: int, spark: Any, answers: dict[str, Answer]) -> None:
    """A job for each expression: all of them in the slow suite."""
    for text in CASES[group][::every]:
        answer = answers[text]
        if answer.failed:
            query = f"SELECT {answer.sql} AS v FROM t WHERE row = {answer.failed[0]}"
            with pytest.raises(Exception, match=r"SQLSTATE|Exception"):
                spark.sql(query).toArrow()


@pytest.mark.parametrize("group", CASES)
def test_batches(group: str, answers: dict[str, Answer]) -> None:
    """How rows are cut into batches does not matter; empty batches have the right type; failures are raised."""
    for text in CASES[group]:
        answer = answers[text]
        frame = answer.kept()
        for start in range(0, HEIGHT, 17):
            values = _values(frame[start : start + 17], answer.expression)
            assert values.dtype == types.to_polars(answer.expression.type), text
            pairs = zip(_shown(values), _shown(answer.values[start : start + 17]), strict=True)
            assert all(_equal(one, other, inexact=False) for one, other in pairs), text
        assert _values(frame.clear(), answer.expression).dtype == answer.values.dtype, text
        if answer.failed:
            with pytest.raises(EvaluationError):
                _values(rows()[answer.failed[0]], answer.expression)


@pytest.mark.parametrize("text", DEPARTURES)
def test_departures(text: str, spark: Any) -> None:
    sql, expression = parse(text)
    assert expression.type == DEPARTURES[text]
    assert _shown_type(spark.sql(f"SELECT {sql} AS v FROM t").schema[0].dataType) != str(DEPARTURES[text])


def _shown_type(kind: Any) -> str:
    return str(kind.simpleString()).upper().replace("INTERVAL DAY TO SECOND", "INTERVAL")


def _shown(values: pl.Series) -> list[object]:
    """Values that Python can hold: dates and times as numbers, which have no limits."""
    return values.to_physical().to_list() if values.dtype.is_temporal() else values.to_list()


def _equal(mine: object, theirs: object, *, inexact: bool) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        if math.isnan(mine) or math.isnan(theirs):
            return math.isnan(mine) and math.isnan(theirs)
        if inexact:
            return math.isclose(mine, theirs, rel_tol=1e-14)
        return mine == theirs and math.copysign(1, mine) == math.copysign(1, theirs)
    return mine == theirs
