"""What people say of objects: COMMENT ON. A comment goes with what it is about."""

from __future__ import annotations

from collections.abc import Collection

from millstream.catalog.entries import Declarations

COMMENT = "comment"  # the kind of such entries; their names say what they are about


def comment_key(kind: str, name: str) -> str:
    return f"{kind} {name}"


def comment_of(declared: Declarations, kind: str, name: str) -> str | None:
    entry = declared.find(COMMENT, comment_key(kind, name))
    return None if entry is None else str(entry["text"])


def with_comment(declared: Declarations, kind: str, name: str, text: str | None) -> Declarations:
    """With another comment on an object, or (None) with none."""
    found = declared.without_all({(COMMENT, comment_key(kind, name).lower())})
    return found if text is None else found.with_entry(COMMENT, comment_key(kind, name), text=text)


def without_comments(declared: Declarations, kind: str, names: Collection[str]) -> Declarations:
    """Without what was said of objects that are gone, and of their columns."""
    about = [entry["name"] for entry in declared.entries if entry["kind"] == COMMENT]
    if not about:
        return declared
    gone = {comment_key(kind, name).lower() for name in names}
    owners = {name.lower() for name in names} if kind in ("stream", "table", "view") else set()
    found = {each for each in about if each in gone or each.removeprefix("column ").rpartition(".")[0] in owners}
    return declared.without_all({(COMMENT, each) for each in found}) if found else declared
