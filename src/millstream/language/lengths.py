"""How much a text may hold: what takes longer to read and to plan than others can wait is refused at its place.

Rows of plain constants and long lists of them are read apart (`literal_rows`, `literal_lists`) and count for nothing
here. How deeply a plan may be nested is said by `plan.analysis.depth`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot.tokenizer_core import TokenType

from millstream.errors import NotSupportedError, Place, TypeError
from millstream.language.type_names import is_stored

MAX_TEXT = 1 << 20  # characters, besides constants: its tokens and trees take some hundred times that
MAX_WORDS = 20_000  # names, constants, operators and signs of one statement
MAX_COLUMNS = 4_000  # of a select list
MAX_DIGITS = 1_000  # of one number: 38 are kept, and Python itself reads no more than 4,300
MAX_INPUTS = 1_000  # streams and tables that one query reads, each as often as it does, those of views too


def check_length(text: str, kept: str) -> None:
    """Refuse a text that is too long without its constants."""
    if len(kept) > MAX_TEXT and not is_stored():
        raise NotSupportedError(
            f"a text of {len(kept):,} characters, besides rows and lists of plain constants",
            detail=f"at most {MAX_TEXT:,} are read at a time",
            hint="run its statements in several texts; rows are inserted faster by db.insert()",
            place=Place(text, 0, 0),
        )


def check_tokens(tokens: Sequence[Any], text: str) -> None:
    """Refuse statements that are too long, and numbers that nobody can mean."""
    for token in tokens:
        if token.token_type == TokenType.NUMBER and len(token.text) > MAX_DIGITS:
            raise TypeError(
                f"a number of {len(token.text):,} characters",
                hint="whole numbers have at most 38 digits; write it as a DOUBLE, such as 1e40",
                place=Place(text, token.start, token.end + 1),
            )
    if len(tokens) <= MAX_WORDS or is_stored():
        return
    for statement in _statements(tokens):
        if len(statement) > MAX_WORDS and not _has_rows_only(statement):
            beyond = statement[MAX_WORDS]
            raise NotSupportedError(
                f"a statement of {len(statement):,} words and signs",
                detail=f"at most {MAX_WORDS:,} are read of one statement; lists of plain constants in IN count as one",
                hint="put what is listed into a table, and join it",
                place=Place(text, beyond.start, beyond.end + 1),
            )


def _statements(tokens: Sequence[Any]) -> Iterator[Sequence[Any]]:
    start = 0
    for place, token in enumerate(tokens):
        if token.token_type == TokenType.SEMICOLON:
            yield tokens[start:place]
            start = place + 1
    yield tokens[start:]


def _has_rows_only(statement: Sequence[Any]) -> bool:
    """INSERT .. VALUES: its rows are taken one by one."""
    kinds = {token.token_type for token in statement}
    return statement[0].token_type == TokenType.INSERT and TokenType.SELECT not in kinds


def check_columns(count: int, place: Place) -> None:
    if count > MAX_COLUMNS and not is_stored():
        raise NotSupportedError(
            "a select list of too many columns", detail=f"at most {MAX_COLUMNS:,}, those of * counted", place=place
        )


def too_many_inputs(place: Place) -> NotSupportedError:
    return NotSupportedError(
        "a query that reads too much",
        detail=f"at most {MAX_INPUTS:,} streams and tables, each counted as often as it stands in the query or in what "
        "its views and WITH stand for",
        hint="what is read again and again can be a query of its own, followed by a stream",
        place=place,
    )
