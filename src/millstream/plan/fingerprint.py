"""A short name for what a plan means: equal plans have equal fingerprints, in every process and run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from millstream.kernel.scalar.expressions import Call, Column, Expression, Literal, memoized
from millstream.plan.tags import TAGS
from millstream.types import DataType

FORGETTING = "+"  # in names of steps: what follows tells what windows below have forgotten
_CHAINS = ("and", "or")  # which may be long: their parts are noted, and not they themselves as parts of others

_ALWAYS = object()  # no value of a field


class Fingerprints:
    """Fingerprints of values that have parts in common, each part written down once."""

    def __init__(self) -> None:
        self._written: dict[int, tuple[object, str]] = {}  # with the value, so that no other one gets its place

    def of(self, value: object) -> str:
        """Twelve hexadecimal digits; fields that do not take part in comparison (names for display) do not count, nor
        do those whose metadata say so (what is another object in every process)."""
        return hashlib.sha256(self._canonical(value).encode()).hexdigest()[:12]

    def _canonical(self, value: object) -> str:
        if _has_fields(type(value)):  # type: ignore[arg-type]
            if isinstance(value, Expression):
                return memoized(value, "written", _of_part)  # it is written for one plan after the other
            known = self._written.get(id(value))
            if known is None:
                known = self._written[id(value)] = value, _of_fields(value, self._canonical)
            return known[1]
        if isinstance(value, tuple):
            return f"[{','.join(map(self._canonical, value))}]"
        return _of_value(value)


def _of_part(value: object) -> str:
    if isinstance(value, DataType):
        return _of_type(value)
    if isinstance(value, tuple):
        return f"[{','.join([_of_part(part) for part in value])}]"
    if type(value) is Literal:
        return f"{TAGS[Literal]}({_of_type(value.type)},{_of_part(value.value)})"
    if type(value) is Column:
        return f"{TAGS[Column]}({_of_type(value.type)},{_of_part(value.index)})"
    if type(value) is Call and value.function not in _CHAINS:
        return memoized(value, "written", _of_call)  # comparisons come in many conditions
    if _has_fields(type(value)):  # type: ignore[arg-type]
        return _of_fields(value, _of_part)
    return _of_value(value)


def _of_call(value: Call) -> str:
    return _of_fields(value, _of_part)


def _of_value(value: object) -> str:
    """Texts, numbers and other values of Python's own; classes of users, which say where they are defined."""
    return f"{type(value).__name__}:{value!r}"


def _of_fields(value: Any, written: Callable[[object], str]) -> str:
    given = ((getattr(value, name), usual) for name, usual in _counted(type(value)))  # type: ignore[arg-type]
    return f"{TAGS[type(value)]}({','.join([written(part) for part, usual in given if part != usual])})"


@cache
def _has_fields(kind: Any) -> bool:
    """Types are few, and asked about for every part of every plan."""
    return is_dataclass(kind)


@cache
def _of_type(kind: DataType) -> str:
    return _of_fields(kind, _of_part)


def fingerprint(value: object) -> str:
    return Fingerprints().of(value)


def producer_of(join: str) -> str:
    """What a join that is made for consumers, who ask for some of its rows, is called by its fingerprint."""
    return f"producer-{join}"


@cache
def _counted(kind: Any) -> tuple[tuple[str, object], ...]:
    """The fields that count, and the value with which they do not: one that was added later must not count where it is
    as it was before, since what is kept under the old names would be lost."""
    counted = (part for part in fields(kind) if part.compare and part.metadata.get("fingerprint", True))
    return tuple(
        (part.name, part.default if part.metadata.get("fingerprint") == "where given" else _ALWAYS) for part in counted
    )
