"""The page of functions: what the registry has, with examples whose answers are computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

import millstream as ms
from millstream.answers.aligned import shown_value
from millstream.kernel.aggregation.aggregate_calls import ALIASES
from millstream.kernel.scalar.functions import REFUSED, canonical_names, signatures
from millstream.language.function_reference import AGGREGATES, EXAMPLE_ROWS, SCALARS, WITH_OVER

_HEAD = """# Functions

All functions that a query may call. Names may be written in any case. What an example gives was computed when this
page was made.

Types, NULLs and errors are those of Spark SQL with ANSI on, unless the line says otherwise: a NULL among the
arguments gives NULL,
and what cannot be computed is an error, which stops its query and no other. [Semantics](semantics.md#sql) says more.
"""
_GROUPED = """## Aggregates

They are for GROUP BY, or for all rows. `DISTINCT` goes before the argument of count, sum, avg, min and max; `FILTER
(WHERE ..)` goes behind any. With `OVER` each of
them is a function of the rows around a row. The examples read these rows:
"""
_OVER = """## Functions with OVER

They look at the rows around a row, as do all aggregates with OVER. The examples read the same rows, and give a value
for each of them.
"""


def functions_page() -> str:
    with ms.connect(engine="inprocess") as db:
        parts = [*_scalars(db), *_aggregates(db), *_with_over(db), *_refused()]
        return "\n".join([_HEAD, '<div class="functions" markdown>\n', *parts, "</div>\n"])


def _scalars(db: ms.Database) -> Iterator[str]:
    takes, aliases = signatures(), _aliases(canonical_names())
    for subject, entries in SCALARS.items():
        yield f"## {subject}\n\n{_COLUMNS}"
        for name, (about, example) in entries.items():
            value = shown_value(db.execute(f"SELECT {example} AS v").arrow()["v"][0].as_py())
            yield _line(_heading(name, takes), aliases.get(name, []), about, example, value)
        yield ""


def _aggregates(db: ms.Database) -> Iterator[str]:
    yield f"{_GROUPED}\n{_rows(db)}\n\n{_COLUMNS}"
    aliases = _aliases(ALIASES)
    for name, (about, example) in AGGREGATES.items():
        found = db.execute(f"SELECT {example} AS v FROM {EXAMPLE_ROWS}").arrow()["v"][0].as_py()
        yield _line(_code(name), aliases.get(name, []), about, example, shown_value(found))
    yield ""


def _with_over(db: ms.Database) -> Iterator[str]:
    yield f"{_OVER}\n{_COLUMNS}"
    for name, (about, example) in WITH_OVER.items():
        found = db.execute(f"SELECT room, minute, {example} AS v FROM {EXAMPLE_ROWS}").arrow()
        values = ", ".join(
            map(shown_value, found.sort_by([("room", "ascending"), ("minute", "ascending")])["v"].to_pylist())
        )
        yield _line(_code(name), [], about, example, values)
    yield ""


def _refused() -> Iterator[str]:
    yield "## Functions that are refused\n\nAn answer depends on the rows alone, whoever asks and whenever.\n"
    yield "| function | why |\n|---|---|"
    for reason in dict.fromkeys(REFUSED.values()):
        yield f"| {', '.join(f'`{name}`' for name, why in REFUSED.items() if why == reason)} | {reason} |"
    yield ""


_COLUMNS = "| function | | example | gives |\n|---|---|---|---|"


def _heading(name: str, takes: Mapping[str, str]) -> str:
    """A name with what it takes, where that is written in parentheses."""
    given = takes.get(name, "")
    return _code(f"{name}{given}" if given.startswith("(") and given.endswith(")") else name)


def _aliases(canonical: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for alias, name in canonical.items():
        if alias != name:
            found.setdefault(name, []).append(alias)
    return found


def _line(heading: str, aliases: list[str], about: str, example: str, value: str) -> str:
    also = f"; also {', '.join(_code(alias) for alias in aliases)}" if aliases else ""
    return f"| {heading} | {about}{also} | {_code(example)} | {_code(value)} |"


def _code(text: str) -> str:
    """As code in a cell of a table, where a bar would end the cell."""
    return f"<code>{escape(text).replace('|', '&#124;')}</code>"


def _rows(db: ms.Database) -> str:
    return f"```output\n{db.execute(f'SELECT * FROM {EXAMPLE_ROWS}')}\n```"
