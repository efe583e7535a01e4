"""A short name for what a plan means: equal plans have equal fingerprints, in every process and run."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass


def fingerprint(value: object) -> str:
    """Twelve hexadecimal digits; fields that do not take part in comparison (names for display) do not count."""
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:12]


def _canonical(value: object) -> str:
    if is_dataclass(value) and not isinstance(value, type):
        parts = (_canonical(getattr(value, part.name)) for part in fields(value) if part.compare)
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, tuple):
        return f"[{','.join(_canonical(item) for item in value)}]"
    return f"{type(value).__name__}:{value!r}"
