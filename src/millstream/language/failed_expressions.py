"""Where in the text of a query an expression stands that failed when rows came.

Such an error names the expression as it was bound. Operators know no texts, which many queries share that are written
in other ways; so the query's text is bound once more, and what each of its parts became is noted.
"""

from __future__ import annotations

from collections.abc import Mapping

from millstream.errors import EvaluationError, Place
from millstream.kernel.scalar.expressions import Expression


def note_places(bound: Expression, place: Place | None, places: dict[str, Place]) -> None:
    """A part of the text became this; what was noted before is a smaller part."""
    if place is not None:
        for part in bound.walk():
            places.setdefault(str(part), place)


def place_of_failure(error: EvaluationError, places: Mapping[str, Place]) -> Place | None:
    """Where the expression that an error names was written."""
    _, _, named = error.primary.partition(" in ")
    return places.get(named)
