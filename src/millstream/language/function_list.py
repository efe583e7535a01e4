"""All functions that a query may call, as SHOW FUNCTIONS lists them."""

from __future__ import annotations

from typing import NamedTuple

from millstream.kernel.scalar.functions import REFUSED, signatures
from millstream.language.aggregates import AGGREGATES
from millstream.language.expressions import UserCode
from millstream.language.over import WINDOW_FUNCTIONS


class ListedFunction(NamedTuple):
    name: str
    kind: str  # scalar, aggregate, over, refused; or that of a user
    takes: str


def functions(code: UserCode) -> list[ListedFunction]:
    """By name; those of users come in the place of others of the same name."""
    found = {name: ListedFunction(name, "scalar", takes) for name, takes in signatures().items()}
    found |= {name: ListedFunction(name, "refused", why) for name, why in REFUSED.items()}
    found |= {name: ListedFunction(name, "aggregate", "columns, over the rows of a group") for name in AGGREGATES}
    found |= {name: ListedFunction(name, "over", "columns, with OVER (..)") for name in WINDOW_FUNCTIONS}
    for name, function in code.functions.items():
        found[name] = ListedFunction(name, "scalar of this database", f"whole columns, and gives {function.returns}")
    for name, (_, kind) in code.aggregates.items():
        found[name] = ListedFunction(name, "aggregate of this database", f"a column, and gives {kind}")
    return sorted(found.values())
