"""What expressions were compiled to: stages of Polars expressions, the results, and where these do not count.

A program can be run in two ways. `run` raises where an expression fails on a row. `attempt` never does: on such rows it
gives some value, the same for equal rows, and `failures` tells which rows these are and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from millstream.errors import EvaluationError
from millstream.kernel.batch import value_column
from millstream.kernel.scalar.casts_text import to_text
from millstream.kernel.scalar.expressions import Column, Expression
from millstream.kernel.scalar.outcome import Failure
from millstream.types import to_polars

_FLAG, _ROW = "_f", "_failing_row"
_BEFORE_HINT = "\x1e"  # in texts of errors that are carried along
# What `failures` says of a row: its number, then the parts of an error.
ROW, PRIMARY, DETAIL, HINT = "row", "primary", "detail", "hint"
_SAID: dict[str, pl.DataType] = {ROW: pl.UInt32(), PRIMARY: pl.String(), DETAIL: pl.String(), HINT: pl.String()}
_TOO_FAR = "years from -262143 to 262142 can be computed with"


@dataclass(frozen=True)
class Check:
    """A failure of one node: on rows that satisfy `mask` the result does not count."""

    mask: pl.Expr
    node: Expression
    failure: Failure

    @property
    def flag(self) -> pl.Expr:
        """Computed with the values: whether any row failed, or may have."""
        return self.mask.any() if self.failure.suspicion is None else self.failure.suspicion

    def failed(self, computed: pl.DataFrame) -> bool:
        """Whether a row did fail, once the flag is up."""
        return self.failure.suspicion is None or bool(computed.select(self.mask.any()).item())

    def said(self, computed: pl.DataFrame) -> pl.DataFrame:
        """The rows that failed, and why."""
        found = computed.with_row_index(_ROW).filter(self.mask)
        hint = pl.Series(HINT, [self.failure.hint], dtype=pl.String).new_from_index(0, found.height)
        if self.failure.text is None:
            shown = pl.Series(DETAIL, self._values(found), dtype=pl.String)
            primary = found.select(pl.lit(f"{self.failure.message} in {self.node}"))
        else:
            said = said_in(found.select(self.failure.text).to_series())
            primary, shown, hint = said.select(PRIMARY), said[DETAIL], said[HINT].fill_null(hint)
        return pl.DataFrame(
            [
                found[_ROW].alias(ROW),
                _of_height(primary.to_series(), found.height).alias(PRIMARY),
                shown,
                hint,
            ]
        ).with_columns(pl.col(ROW).cast(pl.UInt32))

    @property
    def text(self) -> pl.Expr:
        """What to say of a row that failed: the primary line, then the values that the node read, and the hint."""
        hint = pl.lit("" if self.failure.hint is None else _BEFORE_HINT + self.failure.hint)
        if (text := self.failure.text) is not None:
            if self.failure.hint is None:
                return text
            line = pl.when(text.str.contains("\n", literal=True)).then(pl.lit("")).otherwise(pl.lit("\n"))
            said_already = text.str.contains(_BEFORE_HINT, literal=True)
            return pl.when(said_already).then(text).otherwise(pl.concat_str([text, line, hint]))
        columns = {node.index: node for node in self.node.walk() if isinstance(node, Column)}.values()
        said = [pl.lit(f"{self.failure.message} in {self.node}\n")]
        for place, node in enumerate(columns):
            value = to_text(pl.col(value_column(node.index)), node.type)
            said += [pl.lit(f"{', ' if place else 'for '}{node.name} = "), value.fill_null("None")]
        return pl.concat_str([*said, hint])

    def _values(self, found: pl.DataFrame) -> list[str | None]:
        """The values that the node read on each of the rows."""
        columns = {node.index: node for node in self.node.walk() if isinstance(node, Column)}
        texts = [to_text(pl.col(value_column(index)), node.type) for index, node in columns.items()]
        if not columns:
            return [None] * found.height
        try:
            rows = found.select(pl.concat_list(texts)).to_series().to_list()
        except pl.exceptions.PanicException:  # a date that Polars cannot write
            return [None] * found.height
        names = [node.name for node in columns.values()]
        return ["for " + ", ".join(f"{n} = {t}" for n, t in zip(names, row, strict=True)) for row in rows]


@dataclass(frozen=True)
class Program:
    stages: tuple[tuple[pl.Expr, ...], ...]
    values: tuple[pl.Expr, ...]
    checks: tuple[Check, ...]
    dtypes: tuple[pl.DataType, ...]
    panics: bool = False  # whether Polars itself may give up: on dates that are too far away

    def run(self, frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        """One column per expression; raises where one of them fails on a row."""
        values = self.attempt(frame, names)
        failed = self.failures(frame)
        if failed is not None:
            raise error_of(failed.row(0, named=True))
        return values

    def attempt(self, frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        """The same; where one fails, its value is any."""
        if not self.values:
            return pl.DataFrame(height=frame.height)
        if not frame.height:  # where some of Polars' functions of constants and columns give one row
            return pl.DataFrame(schema=dict(zip(names, self.dtypes, strict=True)))
        outputs = [value.alias(name) for value, name in zip(self.values, names, strict=True)]

        def compute(part: pl.DataFrame) -> pl.DataFrame:
            # Not `select`, which gives one row where all results are constants (or Polars finds that they are).
            result = _with_columns(self._staged(part), outputs)
            return pl.DataFrame([result.get_column(name) for name in names])

        nothing = pl.DataFrame([pl.Series(n, [None], dtype=t) for n, t in zip(names, self.dtypes, strict=True)])
        return _by_rows(frame, compute, nothing)

    def failures(self, frame: pl.DataFrame) -> pl.DataFrame | None:
        """The rows on which an expression fails, each once, with the first thing that fails there; None if there are
        none, which costs little."""
        if not frame.height or not self.can_fail:
            return None

        def compute(part: pl.DataFrame) -> pl.DataFrame:
            computed = self._staged(part)
            if self.panics:
                computed.with_columns(value.alias(f"v{place}") for place, value in enumerate(self.values))
            flags = [check.flag.alias(f"{_FLAG}{i}") for i, check in enumerate(self.checks)]
            up = computed.select(flags).row(0) if flags else ()
            raised = [check for check, flag in zip(self.checks, up, strict=True) if flag and check.failed(computed)]
            return pl.concat([pl.DataFrame(schema=_SAID), *(check.said(computed) for check in raised)])

        found = _by_rows(frame, compute, _too_far(), numbered=True)
        return found.unique(ROW, keep="first", maintain_order=True).sort(ROW) if found.height else None

    @property
    def can_fail(self) -> bool:
        return bool(self.checks) or self.panics

    @cached_property
    def _reads(self) -> tuple[tuple[list[str], list[str]], ...]:
        """Of each stage, the columns that it reads, and those that it adds."""
        return tuple(
            (
                [*dict.fromkeys(name for each in stage for name in each.meta.root_names())],
                [each.meta.output_name() for each in stage],
            )
            for stage in self.stages
        )

    def _staged(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with what all stages add: each sees only what it reads, since there may be thousands of both."""
        # As series: Polars may know a column as one value, and then computes with a column of one row.
        columns = {column.name: column for column in frame.get_columns()}
        for stage, (reads, adds) in zip(self.stages, self._reads, strict=True):
            read = reads or [*columns][:1]  # of constants too there are as many as there are rows
            made = _with_columns(pl.DataFrame([columns[name] for name in read]) if read else frame, stage)
            columns |= {name: made.get_column(name) for name in adds}
        return pl.DataFrame([*columns.values()]) if columns else frame


def _with_columns(frame: pl.DataFrame, expressions: Sequence[pl.Expr]) -> pl.DataFrame:
    """The frame with further columns. Where Polars finds on its way that a value is the same for all rows (all of a
    column is NULL) it may go on with one row, and refuses that among others: it is the value of all of them."""
    try:
        return frame.with_columns(expressions)
    except pl.exceptions.InvalidOperationError:
        columns = [frame.select(expression).to_series() for expression in expressions]
        return frame.with_columns(_of_height(column, frame.height) for column in columns)


def said_in(texts: pl.Series) -> pl.DataFrame:
    """The parts of errors whose texts were carried along."""
    lines = texts.str.splitn("\n", 2).struct.unnest()
    parts = lines.to_series(1).str.splitn(_BEFORE_HINT, 2).struct.unnest()
    detail = parts.to_series(0).replace("", None)
    return pl.DataFrame([lines.to_series(0).alias(PRIMARY), detail.alias(DETAIL), parts.to_series(1).alias(HINT)])


def error_of(said: dict[str, str | None]) -> EvaluationError:
    return EvaluationError(said[PRIMARY] or "", detail=said[DETAIL], hint=said[HINT])


def _too_far() -> pl.DataFrame:
    said = {ROW: [0], PRIMARY: ["a date or time is too far away"], DETAIL: [_TOO_FAR], HINT: [None]}
    return pl.DataFrame(said, schema=_SAID)


def _by_rows(
    frame: pl.DataFrame,
    compute: Callable[[pl.DataFrame], pl.DataFrame],
    otherwise: pl.DataFrame,
    *,
    numbered: bool = False,
    first: int = 0,
) -> pl.DataFrame:
    """What is computed of a frame; of rows that Polars panics on, found by halves, `otherwise`. With `numbered` what is
    computed begins with numbers of rows."""
    try:
        found = compute(frame)
    except pl.exceptions.PanicException:
        if frame.height <= 1:
            found = otherwise
        else:
            middle = frame.height // 2
            halves = (frame.slice(0, middle), 0), (frame.slice(middle), middle)
            parts = [_by_rows(half, compute, otherwise, numbered=numbered, first=at) for half, at in halves]
            found = pl.concat(parts)
    return found.with_columns(pl.col(ROW) + first) if numbered and first else found


def _of_height(series: pl.Series, height: int) -> pl.Series:
    return series if series.len() == height else series.new_from_index(0, height)


def dtypes_of(expressions: Sequence[Expression]) -> tuple[pl.DataType, ...]:
    return tuple(to_polars(expression.type) for expression in expressions)
