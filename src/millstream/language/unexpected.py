"""What to write where the parser stopped: a misspelt word, or what other systems write."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from sqlglot.tokenizer_core import TokenType

_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN", "UNION", "QUALIFY", "SELECT", "BETWEEN")
_WINDOWS = ("RANGE", "ROWS", "TUMBLE", "HOP", "SESSION")
_NEAR = 0.85  # of a misspelt word to the right one, by difflib

_NUMBERED = "leave it out: there are no sequences, and each row brings its own number"
# A word where the parser stopped.
_AT = {
    "RETURNING": "leave RETURNING out, and ask for the rows: SELECT .. FROM t",
    "AUTO_INCREMENT": _NUMBERED,
    "AUTOINCREMENT": _NUMBERED,
    "IDENTITY": _NUMBERED,
    "PARTITIONED": "leave it out: how rows are spread is the database's own business",
}
# Two words in a row, of which the parser stopped at one.
_PAIRS = {
    ("EMIT", "CHANGES"): "leave EMIT CHANGES out: who registers a query follows it, by q.follow() or \\watch",
    ("EMIT", "FINAL"): "leave EMIT FINAL out: what a query answers is final",
    ("WINDOW", "TUMBLING"): "windows stand behind their stream, in brackets: FROM s [TUMBLE 10 SECONDS]",
    ("WINDOW", "HOPPING"): "windows stand behind their stream, in brackets: FROM s [HOP 1 MINUTE SLIDE 10 SECONDS]",
    ("WINDOW", "SESSION"): "windows stand behind their stream, in brackets: FROM s [SESSION 5 MINUTES]",
}
_SOURCE = "files and topics are read by USING format OPTIONS (..) at the end, as in USING json OPTIONS (path 'in')"


def hint_at(tokens: Sequence[Any], place: int) -> str | None:
    """What to write instead, where the parser stopped at one of the tokens."""
    words = [token.text.upper() for token in tokens]
    here = words[place] if place < len(words) else ""
    before = words[place - 1] if place else ""
    if here == "[":
        return "a window stands before the alias: FROM s [RANGE 10] AS x"
    for start in range(max(place - 5, 0), place + 1):
        if (known := _PAIRS.get((words[start], words[start + 1] if start + 1 < len(words) else ""))) is not None:
            return known
    if here in _AT:
        return _AT[here]
    if before in _WINDOWS and _is_size(tokens[place : place + 1]):
        return f"windows stand in brackets: FROM s [{_window(tokens, place - 1)}]"
    if before in ("GROUP", "ORDER"):
        return f"write {before} BY"
    if here == "WITH" and "CREATE" in words[:place]:
        return _SOURCE
    return next((hint for token in tokens[max(place - 1, 0) : place + 1] if (hint := _misspelt(token))), None)


def _is_size(tokens: Sequence[Any]) -> bool:
    return any(
        token.token_type in (TokenType.NUMBER, TokenType.INTERVAL) or token.text.upper() == "UNBOUNDED"
        for token in tokens
    )


def _window(tokens: Sequence[Any], start: int) -> str:
    """The text of a window without brackets, up to its unit."""
    end = start + 2
    if end < len(tokens) and tokens[start + 1].token_type == TokenType.INTERVAL:
        return f"{tokens[start].text.upper()} INTERVAL '{tokens[end].text}' " + " ".join(
            token.text.upper() for token in tokens[end + 1 : end + 2]
        )
    last = tokens[end : end + 1] if tokens[start].text.upper() != "ROWS" else []
    units = [token.text.upper() for token in last if token.token_type == TokenType.VAR]
    return " ".join([tokens[start].text.upper(), tokens[start + 1].text.upper(), *units])


def _misspelt(token: Any) -> str | None:
    """The clause that a name is nearly the word of."""
    word = token.text.upper()
    if token.token_type != TokenType.VAR or word in _CLAUSES:
        return None
    for clause in _CLAUSES:
        is_near = sorted(word) == sorted(clause) or difflib.SequenceMatcher(None, word, clause).ratio() >= _NEAR
        if is_near:
            return f'did you mean "{clause}"?'
    return None
