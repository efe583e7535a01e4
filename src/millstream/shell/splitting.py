"""Takes what is typed apart into statements, without parsing them: at semicolons outside quotes and comments."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""'(?:[^'\\]|\\.|'')*(?:'|$) | "(?:[^"\\]|\\.)*(?:"|$) | `[^`]*(?:`|$) | --[^\n]* | /\*.*?(?:\*/|$) | ;""",
    re.DOTALL | re.VERBOSE,
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def statements(text: str) -> tuple[list[str], str]:
    """The statements that are finished, and what is left behind the last semicolon."""
    found, start = [], 0
    for token in _TOKEN.finditer(text):
        if token[0] == ";":
            found.append(text[start : token.start()])
            start = token.end()
    return [statement.lstrip() for statement in found if not is_blank(statement)], text[start:]


def is_blank(text: str) -> bool:
    """Whether there is nothing but space and comments."""
    return not _COMMENT.sub("", text).strip()
