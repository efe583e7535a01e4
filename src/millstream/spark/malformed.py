"""Why a line of text is not a row: which column, which value."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.types import Field, Schema


@dataclass(frozen=True)
class Grammar:
    """How a format's lines are read, as far as that is needed to say what is wrong with one."""

    format: str
    options: Mapping[str, str]  # names in lower case

    def reason(self, raw: str, columns: Schema, parsed: Sequence[Any]) -> str:
        """What is wrong with a line of which Spark could read `parsed`, with NULL for what it could not."""
        given = _values_of_json(raw, columns) if self.format == "json" else self._values_of_csv(raw, columns)
        if isinstance(given, str):
            return given
        for field, text, value in zip(columns, given, parsed, strict=True):
            if value is None and text is not None:
                return f'column "{field.name}": {_shown(text)} is not {field.type}'
        return f"cannot be read as {self.format}"

    def _values_of_csv(self, raw: str, columns: Schema) -> list[Any] | str:
        option = self.options.get
        separator, quote = option("sep") or option("delimiter") or ",", option("quote") or '"'
        if len(separator) != 1 or len(quote) != 1:
            return "cannot be read as csv"
        try:
            found = next(csv.reader([raw], delimiter=separator, quotechar=quote), [])
        except csv.Error as error:
            return f"not csv: {error}"
        if len(found) != len(columns):
            return f"{len(found)} values, not {len(columns)}"
        return [None if text in ("", option("nullvalue", "")) else text for text in found]


def _values_of_json(raw: str, columns: Schema) -> list[Any] | str:
    try:
        found = json.loads(raw)
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(found, dict):
        return "not a JSON object"
    return [found.get(field.name) for field in columns]


def as_text(columns: Sequence[Field], values: Sequence[Any]) -> str:
    """A row that came without a text of its own."""
    named = {field.name: value for field, value in zip(columns, values, strict=True)}
    return json.dumps(named, default=str, ensure_ascii=False)


def _shown(value: Any, most: int = 80) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= most else f"{text[:most]}..."
