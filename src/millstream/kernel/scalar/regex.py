"""Java's regular expressions and SQL's LIKE patterns, as regular expressions of Polars (Rust).

Both are alike in most things but not in all: in Java `.` stops at more line ends and \\d, \\w and \\s mean ASCII. Those
are written out. What Rust's expressions cannot do (looking around, back references, possessive quantifiers) is refused.
One difference stays: `$` does not match before a line end that closes the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from millstream.errors import TypeError as WrongTypeError

_CLASSES = {
    "d": "0-9",
    "w": "a-zA-Z0-9_",
    "s": r" \t\n\x0B\f\r",
    "h": r" \t\x{A0}\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}",
    "v": r"\n\x0B\f\r\x{85}\x{2028}\x{2029}",
}
_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Blank": r" \t",
    "Space": r" \t\n\x0B\f\r",
    "XDigit": "0-9a-fA-F",
    "ASCII": r"\x00-\x7F",
}
_ANY_BUT_LINE_END = r"[^\n\r\x{85}\x{2028}\x{2029}]"
_KEPT_ESCAPES = "tnrfbBAz"
_GROUP_START = re.compile(r"\(\?(?::|[imsx-]+[:)]|<[a-zA-Z][a-zA-Z0-9]*>)")


@dataclass(frozen=True)
class RegexPattern:
    """A pattern for Polars, and how many groups it captures."""

    text: str
    groups: int


def translate(pattern: str) -> RegexPattern:
    """A Java pattern as a Rust one."""
    return _Translator(pattern).run()


class _Translator:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.output: list[str] = []
        self.groups = 0

    def run(self) -> RegexPattern:
        while self.at < len(self.source):
            self._step()
        text = "".join(self.output)
        try:
            pl.select(pl.lit("").str.contains(text))
        except pl.exceptions.ComputeError as error:
            reason = str(error).partition("\n\nThis error occurred")[0].strip().splitlines()[-1]
            raise WrongTypeError(f"'{self.source}' is not a regular expression", detail=reason) from None
        return RegexPattern(text, self.groups)

    def _refuse(self, what: str) -> WrongTypeError:
        return WrongTypeError(f"{what} in the regular expression '{self.source}' is not supported")

    def _step(self) -> None:
        character = self.source[self.at]
        if character == "\\":
            self.output.append(self._escape(inside=False))
        elif character == "[":
            self.output.append(self._character_class())
        elif character == "(":
            self._group()
        else:
            self.output.append(_ANY_BUT_LINE_END if character == "." else character)
            self.at += 1
            if character in "*+?}" and self.source[self.at : self.at + 1] == "+":
                raise self._refuse("a possessive quantifier")

    def _group(self) -> None:
        if self.source[self.at : self.at + 2] != "(?":
            self.groups += 1
            self.output.append("(")
            self.at += 1
            return
        start = _GROUP_START.match(self.source, self.at)
        if start is None:
            raise self._refuse("looking ahead or behind, or an atomic group,")
        if "<" in start[0]:
            self.groups += 1
        flags = "" if "<" in start[0] else start[0].partition("-")[0]
        if "s" in flags:
            raise self._refuse("the flag s")  # the dots are written out already
        if "i" in flags and not self.source.isascii():
            raise self._refuse("the flag i, which in Java knows only ASCII, beside other letters")
        self.output.append(start[0])
        self.at = start.end()

    def _escape(self, *, inside: bool) -> str:
        """One escape, also inside of brackets, where classes lose their own."""
        letter = self.source[self.at + 1 : self.at + 2]
        if not letter:
            raise self._refuse("a single backslash at the end")
        if letter in "pP":
            return self._property(inside=inside)
        self.at += 2
        if letter.lower() in _CLASSES:
            members = _CLASSES[letter.lower()]
            return f"[^{members}]" if letter.isupper() else (members if inside else f"[{members}]")
        if letter == "Q":
            end = self.source.find("\\E", self.at)
            quoted = self.source[self.at : end if end >= 0 else len(self.source)]
            self.at += len(quoted) + (2 if end >= 0 else 0)
            return re.escape(quoted)
        if letter == "Z":
            raise self._refuse("\\Z")
        if letter.isdigit() or letter == "k":
            raise self._refuse("a back reference")
        if letter in ("u", "x"):
            return self._code_point(letter)
        if letter.isalpha():
            if letter not in _KEPT_ESCAPES or (inside and letter in "bBAz"):
                raise self._refuse(f"\\{letter}")
            return "\\" + letter
        # Rust has meanings of its own for escaped angle brackets, and none for letters of other scripts.
        return "\\" + letter if letter.isascii() and not letter.isalnum() and letter not in "<>" else letter

    def _code_point(self, letter: str) -> str:
        match = re.compile(r"[0-9a-fA-F]{4}" if letter == "u" else r"[0-9a-fA-F]{2}|\{[0-9a-fA-F]+\}").match(
            self.source, self.at
        )
        if match is None:
            raise self._refuse(f"an incomplete \\{letter}")
        self.at = match.end()
        return f"\\x{{{match[0].strip('{}')}}}"

    def _property(self, *, inside: bool) -> str:
        match = re.compile(r"\\([pP])(?:\{(\w+)\}|(\w))").match(self.source, self.at)
        if match is None:
            raise self._refuse("an incomplete \\p")
        self.at = match.end()
        name = match[2] or match[3]
        if name in _POSIX:
            return f"[{'^' if match[1] == 'P' else ''}{_POSIX[name]}]"
        name = name.removeprefix("Is")
        return f"\\{match[1]}{{{name}}}"

    def _character_class(self) -> str:
        output = ["["]
        self.at += 1
        if self.source[self.at : self.at + 1] == "^":
            output.append("^")
            self.at += 1
        first = True
        while self.at < len(self.source):
            character = self.source[self.at]
            if character == "]" and not first:
                self.at += 1
                return "".join([*output, "]"])
            if character == "\\":
                output.append(self._escape(inside=True))
            elif character == "[":
                output.append(self._character_class())
            else:
                # Rust takes these for operators between sets; in Java only && is one.
                output.append("\\" + character if character in "~-" and self._doubled(character) else character)
                self.at += 1
            first = False
        raise self._refuse("a [ that is not closed")

    def _doubled(self, character: str) -> bool:
        return self.source[self.at : self.at + 2] == character * 2


def translate_replacement(replacement: str, groups: int) -> str:
    """Java's replacement text ($1 is a group, \\ quotes a character) as Rust's ($$ is a dollar sign)."""
    output, at = [], 0
    while at < len(replacement):
        character = replacement[at]
        at += 1
        if character == "\\":
            if at == len(replacement):
                raise WrongTypeError(f"the replacement '{replacement}' ends with a single backslash")
            output.append(replacement[at].replace("$", "$$"))
            at += 1
        elif character == "$":
            digits = re.compile(r"[0-9]+").match(replacement, at)
            # As many digits as still name a group.
            length = len(digits[0]) if digits else 0
            while length > 1 and int(replacement[at : at + length]) > groups:
                length -= 1
            if not length or int(replacement[at : at + length]) > groups:
                raise WrongTypeError(
                    f"the replacement '{replacement}' names a group that the pattern does not have",
                    hint="write \\$ for a dollar sign",
                )
            output.append(f"${{{replacement[at : at + length]}}}")
            at += length
        else:
            output.append(character)
    return "".join(output)


def translate_like(pattern: str, escape: str) -> str:
    """A LIKE pattern as an anchored Rust pattern: % is any text and _ any character, line ends too."""
    output, at = ["(?s)^"], 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == escape:
            following = pattern[at : at + 1]
            if not following or following not in ("%", "_", escape):
                raise WrongTypeError(
                    f"the LIKE pattern '{pattern}' is wrong: {escape} stands before %, _ or itself",
                    hint=f"write {escape}{escape} for {escape}",
                )
            output.append(re.escape(following))
            at += 1
        else:
            output.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "".join([*output, "$"])
