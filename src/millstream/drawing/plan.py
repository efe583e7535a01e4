"""A plan that one can look at: as a text, as a document, and as a picture in a notebook."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from millstream.drawing.dot import to_dot
from millstream.drawing.svg import to_svg
from millstream.errors import BindError

FORMATS = ("text", "json", "dot", "svg")


def check_format(name: object) -> str:
    """One of those that there are."""
    found = name.lower() if isinstance(name, str) else name
    if found not in FORMATS:
        raise BindError(f"a plan's format is one of {', '.join(FORMATS)}, not {name!r}")
    return str(found)


def whole_text(document: Mapping[str, Any]) -> str:
    """A line for each node of a plan that many queries share."""
    return "\n".join(f"{node['id']}  {node['label']}" for node in document["nodes"])


class PlanView:
    """The plan of a query: `str(plan)` is what EXPLAIN says, `plan.document` what the service says, and in a notebook
    it draws itself. It stays as it was when it was asked for."""

    def __init__(self, text: str, document: dict[str, Any], *, measured: bool = True) -> None:
        self.text, self.document, self._measured = text, document, measured

    @property
    def json(self) -> str:
        return json.dumps(self.document, ensure_ascii=False)

    @property
    def dot(self) -> str:
        """In the language of Graphviz."""
        return to_dot(self.document, measured=self._measured)

    @property
    def svg(self) -> str:
        return to_svg(self.document, measured=self._measured)

    def in_format(self, name: str) -> str:
        """As text, json, dot or svg."""
        return str(getattr(self, check_format(name)))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<plan of {len(self.document['nodes'])} nodes at epoch {self.document['epoch']}>"

    def _repr_svg_(self) -> str:
        return self.svg
