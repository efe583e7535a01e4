"""Why a line of text is not a row: which column, which value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.spark.half_characters import MARK, broken_column
from millstream.spark.shapes import split_line
from millstream.types import BOOLEAN, INTEGER_BITS, STRING, DataType, Field, Schema

_SEVERAL_LINES = "; a quoted value over several lines needs OPTIONS (multiLine 'true')"


@dataclass(frozen=True)
class Grammar:
    """How a format's lines are read, as far as that is needed to say what is wrong with one: options with names in
    lower case, how many values a line has, and where those of the columns are (None: not in the line)."""

    format: str
    options: Mapping[str, str]
    width: int | None = None
    places: tuple[int | str | None, ...] | None = None
    marked: bool = False  # whether lines with halves of characters have a mark before them

    @property
    def finds_halves(self) -> bool:
        """Whether lines are such that halves of characters can be found in them."""
        several = self.options.get("multiline", "").lower() == "true"
        return self.format == "json" and not several and not {"encoding", "charset"} & self.options.keys()

    def names(self, columns: Schema) -> list[str]:
        """What the texts are called in lines of JSON."""
        spelled = self.places or [field.name for field in columns]
        return [str(name) for name, field in zip(spelled, columns, strict=True) if field.type == STRING]

    def reason(self, raw: str, columns: Schema, parsed: Sequence[Any]) -> str:
        """What is wrong with a line of which Spark could read `parsed`, with NULL for what it could not."""
        if self.marked and raw.startswith(MARK):
            return self._broken(raw.removeprefix(MARK), columns)
        match self.format:
            case "json":
                given = self._values_of_json(raw, columns)
            case "csv":
                given = self._values_of_csv(raw, columns)
            case _:
                given = f"cannot be read as {self.format}"
        if isinstance(given, str):
            return given
        for field, text, value in zip(columns, given, parsed, strict=True):
            if value is None and text is not None and not (self.format == "json" and _is(text, field.type)):
                return f'column "{field.name}": {_shown(text)} is not {field.type}'
        return f"cannot be read as {self.format}"

    def _broken(self, raw: str, columns: Schema) -> str:
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            found = None
        for row in found if isinstance(found, list) else [found]:
            if (name := broken_column(row, self.names(columns))) is not None:
                return f'column "{name}" is not Unicode: half of a surrogate pair'
        return "not Unicode: half of a surrogate pair"

    def _values_of_csv(self, raw: str, columns: Schema) -> list[Any] | str:
        option = self.options.get
        if len(option("quote", '"')) > 1:
            return "cannot be read as csv"
        found = split_line(raw, self.options)
        places = range(len(columns)) if self.places is None else self.places
        width = len(columns) if self.width is None else self.width
        if len(found) != width:
            many = option("multiline", "").lower() == "true" or raw.count(option("quote", '"')) % 2 == 0
            return f"{len(found)} value{'' if len(found) == 1 else 's'}, not {width}" + ("" if many else _SEVERAL_LINES)
        texts = [found[place] if isinstance(place, int) else None for place in places]
        return [None if text in (None, "", option("nullvalue", "")) else text for text in texts]

    def _values_of_json(self, raw: str, columns: Schema) -> list[Any] | str:
        try:
            found = json.loads(raw)
        except ValueError as error:
            return f"not JSON: {error}"
        except RecursionError:
            return "not JSON: nested too deeply"
        if not isinstance(found, dict):
            return "not a JSON object"
        names = self.places or [field.name for field in columns]
        return [found.get(str(name)) for name in names]


def _is(value: Any, kind: DataType) -> bool:
    """Whether a value of JSON has a type, so that something else was wrong with its row."""
    if kind.is_integer:
        bits = INTEGER_BITS[kind]
        return isinstance(value, int) and not isinstance(value, bool) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
    if kind.is_fractional:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return (kind == STRING and isinstance(value, str)) or (kind == BOOLEAN and isinstance(value, bool))


def as_text(columns: Sequence[Field], values: Sequence[Any]) -> str:
    """A row that came without a text of its own."""
    named = {field.name: value for field, value in zip(columns, values, strict=True)}
    return json.dumps(named, default=str, ensure_ascii=False)


def _shown(value: Any, most: int = 80) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= most else f"{text[:most]}..."
