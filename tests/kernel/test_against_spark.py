"""Every scalar function against Spark itself, ANSI mode on: values, types and errors, over rows with extremes in them.

The rows on which an expression of spark_cases does not fail must give what Spark gives (one Spark job for all
expressions and rows), and of those on which it fails, Spark must fail on the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pytest

from millstream import types
from millstream.errors import EvaluationError
from millstream.kernel.evaluate import evaluate
from millstream.kernel.expressions import Expression
from tests.kernel.spark_cases import CASES, COLUMNS, DEPARTURES, HEIGHT, parse, rows

pytestmark = pytest.mark.spark

# Java's StrictMath and the C library may differ in a result's last digits.
INEXACT = ("sqrt", "cbrt", "pow", "exp", "ln", "log", "sin", "cos", "tan", "atan", "degrees", "radians", "hypot")


@dataclass
class Answer:
    """What Millstream says to one expression: a value per row, and the rows on which it fails."""

    sql: str
    expression: Expression
    values: pl.Series
    failed: list[int]


@pytest.fixture(scope="module")
def spark() -> Iterator[object]:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .getOrCreate()
        .newSession()
    )
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    names = list(COLUMNS)
    table = rows().rename({f"c{i}": name for i, name in enumerate(names)}).to_arrow()
    schema = pa.schema([pa.field(name, types.to_arrow(COLUMNS[name].type)) for name in names])
    table = table.cast(schema).append_column("row", pa.array(range(HEIGHT), pa.int32()))
    session.createDataFrame(table).createOrReplaceTempView("t")
    yield session


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    return {text: _answer(text) for text in (*CASES, *DEPARTURES)}


def _answer(text: str) -> Answer:
    sql, expression = parse(text)
    try:
        return Answer(sql, expression, _values(rows(), expression), [])
    except EvaluationError:
        pass
    nothing = pl.Series([None], dtype=types.to_polars(expression.type))
    values, failed = [], []
    for index in range(HEIGHT):
        try:
            values.append(_values(rows()[index], expression))
        except EvaluationError:
            failed.append(index)
            values.append(nothing)
    return Answer(sql, expression, pl.concat(values), failed)


def _values(frame: pl.DataFrame, expression: Expression) -> pl.Series:
    return evaluate(frame, [expression], ["v"]).to_series()


@pytest.fixture(scope="module")
def spark_answers(spark: object, answers: dict[str, Answer]) -> pl.DataFrame:
    """Spark's values for all cases, NULL on the rows where Millstream fails."""
    columns = []
    for text in CASES:
        answer = answers[text]
        if len(answer.failed) < HEIGHT:
            guard = f"row NOT IN ({', '.join(map(str, answer.failed))})" if answer.failed else None
            value = f"CASE WHEN {guard} THEN {answer.sql} END" if guard else answer.sql
            columns.append(f"{value} AS `{text}`")
    result = spark.sql(f"SELECT row, {', '.join(columns)} FROM t").toArrow()  # type: ignore[attr-defined]
    return pl.from_arrow(result).sort("row")  # type: ignore[union-attr, return-value]


@pytest.fixture(scope="module")
def spark_types(spark: object, answers: dict[str, Answer]) -> dict[str, str]:
    shown = [f"{answers[text].sql} AS `{text}`" for text in CASES]
    schema = spark.sql(f"SELECT {', '.join(shown)} FROM t").schema  # type: ignore[attr-defined]
    return {field.name: field.dataType.simpleString().upper() for field in schema}


@pytest.mark.parametrize("text", CASES)
def test_type(text: str, answers: dict[str, Answer], spark_types: dict[str, str]) -> None:
    expected = spark_types[text].replace("INTERVAL DAY TO SECOND", "INTERVAL")
    assert str(answers[text].expression.type) == expected


@pytest.mark.parametrize("text", CASES)
def test_values(text: str, answers: dict[str, Answer], spark_answers: pl.DataFrame) -> None:
    answer = answers[text]
    assert answer.values.dtype == types.to_polars(answer.expression.type)
    if text not in spark_answers.columns:
        return
    expected = spark_answers[text].cast(answer.values.dtype)
    differing = [
        (row, mine, theirs)
        for row, (mine, theirs) in enumerate(zip(_shown(answer.values), _shown(expected), strict=True))
        if not _equal(mine, theirs, inexact=text.startswith(INEXACT))
    ]
    assert not differing, f"{answer.sql}: (row, Millstream, Spark) {differing[:5]}"


@pytest.mark.parametrize("text", CASES)
def test_failures(text: str, spark: object, answers: dict[str, Answer]) -> None:
    answer = answers[text]
    if not answer.failed:
        return
    query = f"SELECT {answer.sql} AS v FROM t WHERE row = {answer.failed[0]}"
    with pytest.raises(Exception, match=r"SQLSTATE|Exception"):
        spark.sql(query).toArrow()  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", CASES)
def test_batches(text: str, answers: dict[str, Answer]) -> None:
    """How rows are cut into batches does not matter, and empty batches have the right type."""
    answer = answers[text]
    kept = pl.Series([index not in answer.failed for index in range(HEIGHT)])
    frame, values = rows().filter(kept), answer.values.filter(kept)
    batches = [frame, *(frame[index] for index in range(0, frame.height, 7)), frame.clear()]
    expected = [values, *(values[index : index + 1] for index in range(0, frame.height, 7)), values.clear()]
    for batch, one in zip(batches, expected, strict=True):
        got = _values(batch, answer.expression)
        assert got.dtype == one.dtype == types.to_polars(answer.expression.type)
        assert all(_equal(a, b, inexact=False) for a, b in zip(_shown(got), _shown(one), strict=True))


@pytest.mark.parametrize("text", DEPARTURES)
def test_departures(text: str, spark: object, answers: dict[str, Answer]) -> None:
    assert answers[text].expression.type == DEPARTURES[text]
    theirs = spark.sql(f"SELECT {answers[text].sql} AS v FROM t").schema[0].dataType.simpleString()  # type: ignore[attr-defined]
    assert theirs.upper() != str(DEPARTURES[text])


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
