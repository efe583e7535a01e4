"""What a name may be, wherever one is given: in statements, from Python and over HTTP.

Names are kept in the catalog, shown, and sent as texts; those of objects also become parts of addresses, and those of
streams and tables parts of paths.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from urllib.parse import quote

MOST_CHARACTERS = 128
MISSING = b"millstream.missing"  # in the metadata of a table: which queries have no rows in it, and why
_MOST_OF_A_PATH = 200  # characters of a part of a path, which may have 255 with what is added
_UNWRITABLE = ("Cc", "Cs")  # control characters and halves of surrogate pairs


def is_text(text: str) -> bool:
    """Whether a text can be written down: it has no half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def why_unusable(name: object, *, is_object: bool = True) -> str | None:
    """What is wrong with a name, if something is; of columns less is asked than of objects."""
    if not isinstance(name, str):
        return f"a name is a text, not a {type(name).__name__}"
    if not name:
        return "a name has at least one character"
    if name.startswith("_"):
        return "names that start with _ are Millstream's own"
    if len(name) > MOST_CHARACTERS:
        return f"it has {len(name)} characters, and a name at most {MOST_CHARACTERS}"
    if any(unicodedata.category(character) in _UNWRITABLE for character in name):
        return "it has a character that cannot be written"
    return "it could be taken for a path" if is_object and name in (".", "..") else None


def why_no_path(name: str) -> str | None:
    """What is wrong with a usable name as a part of a path, if something is."""
    if "/" in name or "\\" in name:
        return "it could be taken for a path"
    return "as a part of a path it is too long" if len(quote(name, safe="")) > _MOST_OF_A_PATH else None


def shortly(names: Sequence[str]) -> str:
    """The first of many names, and how many there are."""
    return ", ".join(names[:3]) + (f", ... ({len(names):,})" if len(names) > 3 else "")


def shown_name(name: object) -> str:
    """A name in a message, whatever it is."""
    text = name if isinstance(name, str) else repr(name)
    text = "".join(c if unicodedata.category(c) not in _UNWRITABLE else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:40]}..."
