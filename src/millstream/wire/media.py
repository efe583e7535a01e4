"""The formats that rows are sent in, and how a request says which."""

from __future__ import annotations

from enum import StrEnum

from millstream.errors import InputError


class RowFormat(StrEnum):
    """A format of rows, by its media type."""

    JSON = "application/json"
    NDJSON = "application/x-ndjson"
    CSV = "text/csv"
    ARROW = "application/vnd.apache.arrow.stream"


_ALSO = {
    "application/ndjson": RowFormat.NDJSON,
    "application/jsonlines": RowFormat.NDJSON,
    "application/vnd.apache.arrow.file": RowFormat.ARROW,
    "*/*": RowFormat.JSON,
    "application/*": RowFormat.JSON,
    "text/*": RowFormat.CSV,
}
_OF_FORMS = "application/x-www-form-urlencoded"
_BY_TYPE = {**{str(known): known for known in RowFormat}, **_ALSO}


def accepted(header: str | None) -> RowFormat:
    """The format that an Accept header likes best of ours; JSON where there is none."""
    if not header:
        return RowFormat.JSON
    best: tuple[float, RowFormat] | None = None
    for part in header.split(","):
        kind, _, parameters = part.strip().partition(";")
        known = _BY_TYPE.get(kind.strip().lower())
        weight = _quality(parameters)
        if known is not None and weight > 0 and (best is None or weight > best[0]):
            best = weight, known
    if best is None:
        raise InputError("none of the formats that are accepted is known", detail=f"Accept: {header}", hint=_LISTED)
    return best[1]


def sent(header: str | None) -> RowFormat:
    """The format of a body by its Content-Type; JSON where there is none."""
    kind = (header or "").partition(";")[0].strip().lower()
    if not kind:
        return RowFormat.JSON
    if kind == _OF_FORMS:
        raise InputError(
            "the request does not say what its rows are",
            detail=f"its Content-Type is {kind}, which is what curl says by itself",
            hint="say it, as in curl -H 'Content-Type: application/json' -d '[[1, \"a\"]]'; " + _LISTED,
        )
    if kind not in _BY_TYPE or "*" in kind:
        raise InputError(f"rows cannot be read from {kind}", hint=_LISTED)
    return _BY_TYPE[kind]


def _quality(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


_LISTED = f"rows are sent as {', '.join(RowFormat)}"
