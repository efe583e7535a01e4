"""LIKE, RLIKE and the functions of regular expressions. Regular expressions must be constants; LIKE takes any text."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from millstream import errors
from millstream.kernel.scalar.expressions import Call, Expression, Literal
from millstream.kernel.scalar.functions_math import constant_integer
from millstream.kernel.scalar.growth import bytes_of, grown
from millstream.kernel.scalar.outcome import Failure, Outcome
from millstream.kernel.scalar.regex import RegexPattern, translate, translate_like, translate_replacement
from millstream.kernel.scalar.signature import TEXT, WHOLE, Function, Signature, TypeRule, row
from millstream.types import BOOLEAN, STRING

_NO_TEXT = pl.lit(None, dtype=pl.String)
_NO_ANSWER = pl.lit(None, dtype=pl.Boolean)


def _constant_text(argument: Expression, what: str) -> str | None:
    if not isinstance(argument, Literal):
        raise errors.TypeError(f"{what} must be a constant, not {argument}")
    return None if argument.value is None else str(argument.value)


def _pattern(node: Call) -> RegexPattern | None:
    text = _constant_text(node.arguments[1], "the regular expression")
    return None if text is None else translate(text)


def _bind_like(arguments: Sequence[Expression]) -> Signature | None:
    signature = row(TEXT, TEXT, TEXT, optional=1, result=BOOLEAN).bind(arguments)
    if signature is not None:
        escape = _escape_of(arguments)
        pattern = arguments[1]
        if isinstance(pattern, Literal) and isinstance(pattern.value, str):
            translate_like(pattern.value, escape)
    return signature


def _escape_of(arguments: Sequence[Expression]) -> str:
    escape = _constant_text(arguments[2], "the escape character") if len(arguments) > 2 else "\\"
    if escape is None or len(escape) != 1:
        raise errors.TypeError("ESCAPE takes one character")
    return escape


def _like(node: Call, text: pl.Expr, pattern: pl.Expr, _: pl.Expr | None = None) -> pl.Expr | Outcome:
    constant, escape = node.arguments[1], _escape_of(node.arguments)
    if not isinstance(constant, Literal):
        return _like_column(text, pattern, escape)
    if constant.value is None:
        return _NO_ANSWER
    like = str(constant.value)
    plain = like.strip("%")
    if "_" in like or escape in like or "%" in plain:
        return text.str.contains(translate_like(like, escape))
    # Without single characters to match, a comparison does.
    if like == plain:
        return text == plain
    if like.startswith("%") and like.endswith("%"):
        return text.str.contains(plain, literal=True)
    return text.str.ends_with(plain) if like.startswith("%") else text.str.starts_with(plain)


def _like_column(text: pl.Expr, pattern: pl.Expr, escape: str) -> Outcome:
    """Patterns from a column, translated by Polars: the escaped characters are put aside while the rest is quoted."""
    aside = {escape + "%": "\ue001", escape + "_": "\ue002", escape + escape: "\ue003"}
    unescaped = pattern.str.replace_many(list(aside), list(aside.values()))
    translated = unescaped.str.escape_regex().str.replace_many(
        ["%", "_", *aside.values()], [".*", ".", "%", "_", "\\\\" if escape == "\\" else escape]
    )
    value = text.str.contains(pl.concat_str(pl.lit("(?s)^"), translated, pl.lit("$")))
    failure = Failure(
        lambda _: text.is_not_null() & unescaped.str.contains(escape, literal=True),
        f"a LIKE pattern has {escape} before another character than %, _ or itself",
    )
    return Outcome(value, (failure,))


def _bind_rlike(arguments: Sequence[Expression]) -> Signature | None:
    signature = row(TEXT, TEXT, result=BOOLEAN).bind(arguments)
    if signature is not None:
        _check_pattern(arguments)
    return signature


def _check_pattern(arguments: Sequence[Expression]) -> RegexPattern | None:
    """Patterns are translated when a query is bound, so that a wrong one is its author's error."""
    text = _constant_text(arguments[1], "the regular expression")
    return None if text is None else translate(text)


def _rlike(node: Call, text: pl.Expr, _: pl.Expr) -> pl.Expr:
    pattern = _pattern(node)
    return _NO_ANSWER if pattern is None else text.str.contains(pattern.text)


def _bind_extract(arguments: Sequence[Expression]) -> Signature | None:
    signature = row(TEXT, TEXT, WHOLE, optional=1, result=STRING).bind(arguments)
    if signature is not None:
        pattern, group = _check_pattern(arguments), _group_of(arguments)
        if pattern is not None and group is not None and not 0 <= group <= pattern.groups:
            raise errors.TypeError(
                f"regexp_extract asks for group {group} of a pattern with {pattern.groups} groups",
                hint="groups stand in parentheses; group 0 is the whole match, and 1 is asked for by default",
            )
    return signature


def _group_of(arguments: Sequence[Expression]) -> int | None:
    return constant_integer(arguments[2], "the group") if len(arguments) > 2 else 1


def _extract(node: Call, text: pl.Expr, _: pl.Expr, __: pl.Expr | None = None) -> pl.Expr:
    """What a group of the first match holds; empty without a match, or where the group took no part in it."""
    pattern, group = _pattern(node), _group_of(node.arguments)
    if pattern is None or group is None:
        return _NO_TEXT
    found = text.str.extract(f"({pattern.text})", 1) if group == 0 else text.str.extract(pattern.text, group)
    return pl.when(text.is_not_null()).then(found.fill_null(""))


def _bind_replace(arguments: Sequence[Expression]) -> Signature | None:
    signature = row(TEXT, TEXT, TEXT, result=STRING).bind(arguments)
    if signature is not None:
        pattern = _check_pattern(arguments)
        replacement = _constant_text(arguments[2], "the replacement")
        if pattern is not None and replacement is not None:
            translate_replacement(replacement, pattern.groups)
            if pl.select(pl.lit("").str.contains(pattern.text)).item():
                # Java and Rust disagree on where an empty match may stand.
                raise errors.TypeError("regexp_replace with a pattern that matches nothing at all is not supported")
    return signature


def _replace(node: Call, text: pl.Expr, _: pl.Expr, __: pl.Expr) -> pl.Expr | Outcome:
    pattern, replacement = _pattern(node), _constant_text(node.arguments[2], "the replacement")
    if pattern is None or replacement is None:
        return _NO_TEXT
    put = translate_replacement(replacement, pattern.groups)
    literal, references = len(put.encode()), put.count("${")

    def replaced(text: pl.Expr) -> pl.Expr:
        return text.str.replace_all(pattern.text, put)

    def size(text: pl.Expr) -> pl.Expr:
        return bytes_of(text) * (1 + references + literal) + literal

    def closer(text: pl.Expr) -> pl.Expr:
        matches = text.str.count_matches(pattern.text).cast(pl.Int64)
        return bytes_of(text) * (1 + references) + matches * literal

    return grown([text], STRING, replaced, size, closer)


FUNCTIONS = (
    Function("like", TypeRule("(string, string, [constant string])", _bind_like), _like),
    Function(
        "rlike", TypeRule("(string, constant string)", _bind_rlike), _rlike, ("regexp", "regexp_like"), reads_once=True
    ),
    Function("regexp_extract", TypeRule("(string, constant string, [constant integer])", _bind_extract), _extract),
    Function("regexp_replace", TypeRule("(string, constant string, constant string)", _bind_replace), _replace),
)
