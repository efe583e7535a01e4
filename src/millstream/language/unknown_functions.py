"""A function that is not there: the one that was meant, or what other systems' functions are here."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.errors import NameError, did_you_mean
from millstream.kernel.scalar.functions import function_names, has_function
from millstream.language.aggregates import AGGREGATES
from millstream.language.over import WINDOW_FUNCTIONS

_TUMBLE = "windows stand behind their stream, in brackets: FROM s [TUMBLE 10 SECONDS]"
_HOP = "windows stand behind their stream, in brackets: FROM s [HOP 1 MINUTE SLIDE 10 SECONDS]"
_SESSION = "windows stand behind their stream, in brackets: FROM s [SESSION 5 MINUTES]"
_BOUNDS = "window_start and window_end are columns of FROM s [TUMBLE 10 SECONDS], [HOP ..] and [SESSION ..]"
_NUMBERED = "there are no sequences: each row brings its own number"
_ELSEWHERE = {
    "tumble": _TUMBLE,
    "hop": _HOP,
    "session": _SESSION,
    "session_window": _SESSION,
    "window": f"{_TUMBLE}, with its window_start and window_end; in GROUP BY, window(ts, '10 seconds') is that",
    "time_bucket": f"{_TUMBLE}; its window_start and window_end are columns",
    "date_bin": f"{_TUMBLE}; its window_start and window_end are columns",
    **{f"{kind}_{end}": _BOUNDS for kind in ("tumble", "hop", "session") for end in ("start", "end", "rowtime")},
    **dict.fromkeys(("windowstart", "windowend"), _BOUNDS),
    "latest_by_offset": "last(x) is the value of the newest row, max_by(x, y) that of the row with the greatest y",
    "earliest_by_offset": "first(x) is the value of the oldest row, min_by(x, y) that of the row with the least y",
    "topk": "write SELECT .. ORDER BY x DESC LIMIT 3",
    "mz_now": "windows say how long rows count: FROM s [RANGE 10 SECONDS]",
    **dict.fromkeys(("nextval", "currval", "last_insert_id"), _NUMBERED),
}


def check_function(name: str, users: Iterable[str]) -> None:
    """Refuse a call of what is neither a function, an aggregate, nor one of `users`."""
    key, own = name.lower(), {*users}
    if has_function(key) or key in own or key in AGGREGATES or key in WINDOW_FUNCTIONS:
        return
    known = [each for each in function_names() if each.isidentifier()]
    hint = _ELSEWHERE.get(key) or did_you_mean(key, [*known, *AGGREGATES, *WINDOW_FUNCTIONS, *own])
    if hint is not None and hint.startswith("there are:"):
        hint = "SHOW FUNCTIONS lists those that there are"
    raise NameError(f'unknown function "{name}"', hint=hint)
