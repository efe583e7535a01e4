"""What is wrong today and known to be: constructs that random cases leave out, each with what it waits for.

An entry is a pattern of the CQL text and the reason. Remove it with the mending.
"""

from __future__ import annotations

import re

KNOWN: dict[str, str] = {}


def is_known(text: str) -> bool:
    return any(re.search(pattern, text) for pattern in KNOWN)
