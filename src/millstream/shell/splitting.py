"""Takes what is typed apart into statements, without parsing them: at semicolons outside quotes and comments."""

from __future__ import annotations

import re
from collections.abc import Collection

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


def with_command(text: str, commands: Collection[str]) -> tuple[str, str]:
    """An unfinished statement whose last line is a command instead: what stands before it, and the command."""
    before, _, line = text.rstrip().rpartition("\n")
    is_quoted = any(token.start() <= len(before) < token.end() for token in _TOKEN.finditer(text))
    found = line.strip() if not is_quoted and line.split(maxsplit=1)[:1] and line.split()[0] in commands else ""
    return (before, found) if found else (text, "")


def is_blank(text: str) -> bool:
    """Whether there is nothing but space and comments."""
    return not _COMMENT.sub("", text).strip()
