"""A short name for what a plan means: equal plans have equal fingerprints, in every process and run."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass


def fingerprint(value: object) -> str:
    """Twelve hexadecimal digits; fields that do not take part in comparison (names for display) do not count, nor do
    those whose metadata say so (what is another object in every process)."""
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:12]


def _canonical(value: object) -> str:
    if is_dataclass(value) and not isinstance(value, type):
        counted = (part for part in fields(value) if part.compare and part.metadata.get("fingerprint", True))
        parts = (_canonical(getattr(value, part.name)) for part in counted)
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, tuple):
        return f"[{','.join(_canonical(item) for item in value)}]"
    return f"{type(value).__name__}:{value!r}"
