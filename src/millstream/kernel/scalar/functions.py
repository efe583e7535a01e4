"""All scalar functions and operators by name, and how a call is bound to one.

`call` is what a binder uses: it finds the function, checks the arguments, inserts casts, and gives the typed node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream import errors
from millstream.kernel.scalar import (
    functions_arithmetic,
    functions_chain,
    functions_lists,
    functions_logic,
    functions_math,
    functions_patterns,
    functions_text,
    functions_time,
    functions_time_formats,
    functions_time_zones,
)
from millstream.kernel.scalar.coercion import can_cast, cast
from millstream.kernel.scalar.expressions import FACTORS, TERMS, TOTAL, Call, Expression
from millstream.kernel.scalar.functions_logic import case, in_list
from millstream.kernel.scalar.functions_time_zones import localised
from millstream.kernel.scalar.functions_user import UserFunction
from millstream.kernel.scalar.signature import Function, Rewrite
from millstream.kernel.scalar.zones import session_zone
from millstream.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    DataType,
)

__all__ = ["REFUSED", "call", "canonical_names", "case", "function", "function_names", "in_list", "signatures"]

# The answer of a continuous query is a function of its inputs alone: whoever asks, whenever, on however many shards.
_CLOCK = "the answer would depend on when it is computed"
_CHANCE = "the answer would be another one each time it is computed"
_PLACE = "the answer would depend on how the input is cut into batches"
REFUSED = {
    **dict.fromkeys(("now", "current_timestamp", "current_date", "current_time", "localtimestamp", "curdate"), _CLOCK),
    **dict.fromkeys(("current_timezone", "unix_now"), _CLOCK),
    **dict.fromkeys(("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"), _CHANCE),
    **dict.fromkeys(("monotonically_increasing_id", "spark_partition_id", "input_file_name"), _PLACE),
}


def _cast_function(name: str, target: DataType) -> Rewrite:
    """Spark's casts that look like functions: INT(x), DOUBLE(x), ..."""

    def build(arguments: Sequence[Expression]) -> Expression | None:
        if len(arguments) != 1 or not can_cast(arguments[0].type, target):
            return None
        return cast(arguments[0], target)

    return Rewrite(name, "one argument that can be cast", build)


_CASTS = {
    "boolean": BOOLEAN,
    "tinyint": TINYINT,
    "smallint": SMALLINT,
    "int": INT,
    "bigint": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
}
_MODULES = (
    functions_arithmetic,
    functions_chain,
    functions_lists,
    functions_logic,
    functions_math,
    functions_patterns,
    functions_text,
    functions_time,
    functions_time_formats,
    functions_time_zones,
)
_ENTRIES: tuple[Function | Rewrite, ...] = (
    *(entry for module in _MODULES for entry in module.FUNCTIONS),
    *functions_logic.REWRITES,
    *functions_time.REWRITES,
    *functions_time_formats.REWRITES,
    *functions_time_zones.REWRITES,
    *(_cast_function(name, target) for name, target in _CASTS.items()),
)
# What EXTRACT and long sums become; nobody writes these.
_INTERNAL = {TOTAL, TERMS, FACTORS, "second_with_fraction", "interval_day", "interval_hour", "interval_minute"}
_INTERNAL |= (
    {functions_text.ROW_KEY, "seconds_since_1970"}
    | functions_lists.INTERNAL
    | functions_time_formats.INTERNAL
    | functions_time_zones.INTERNAL
)
_BY_NAME: dict[str, Function | Rewrite] = {name: entry for entry in _ENTRIES for name in (entry.name, *entry.aliases)}


def hint_instead(name: str) -> str:
    """What to write in the place of a function that is refused."""
    put = "put the value into the stream, as a column of its own"
    if REFUSED.get(name) != _CLOCK:
        return put
    return f"a window says how far back rows count, FROM s [RANGE 1 HOUR]; or {put}"


def has_function(name: str) -> bool:
    """Whether a name, in lower case, may be called, if only to be refused."""
    return name in REFUSED or (name in _BY_NAME and name not in _INTERNAL - {functions_lists.AT})


def function_names(user_functions: Mapping[str, UserFunction] | None = None) -> list[str]:
    """The names of all functions (operators too), in alphabetical order."""
    return sorted({*_BY_NAME, *(user_functions or {})} - _INTERNAL)


def canonical_names() -> dict[str, str]:
    """Every name that may be written, operators too, with that of the function which it means."""
    return {name: entry.name for name, entry in _BY_NAME.items() if name not in _INTERNAL}


def signatures() -> dict[str, str]:
    """What each function takes, in words; operators, which are no words, are left out."""
    found = {name: entry for name, entry in _BY_NAME.items() if name.isidentifier() and name not in _INTERNAL}
    return {name: entry.takes if isinstance(entry, Rewrite) else entry.rule.takes for name, entry in found.items()}


def function(name: str) -> Function:
    """The entry of a bound call."""
    entry = _BY_NAME[name]
    if not isinstance(entry, Function):
        raise KeyError(name)
    return entry


def call(
    name: str, arguments: Sequence[Expression], user_functions: Mapping[str, UserFunction] | None = None
) -> Expression:
    """A function or operator applied to arguments of any types; user functions come before those of the same name.

    The keys of `user_functions` are in lower case.
    """
    key = name.lower()
    if user_functions and key in user_functions:
        return user_functions[key](arguments)
    if key in REFUSED:
        raise errors.BindError(f"{name} is refused: {REFUSED[key]}", hint=hint_instead(key))
    entry = _BY_NAME.get(key)
    if entry is None or key in _INTERNAL - {functions_lists.AT}:
        raise errors.NameError(f'unknown function "{name}"')
    if isinstance(entry, Rewrite):
        built = entry.build(arguments)
        if built is None:
            raise _wrong_arguments(name, entry.takes, arguments)
        return built
    signature = entry.rule.bind(arguments)
    if signature is None:
        raise _wrong_arguments(name, entry.rule.takes, arguments)
    converted = tuple(cast(a, kind) for a, kind in zip(arguments, signature.arguments, strict=True))
    bound = Call(signature.result, entry.name, converted)
    zone = session_zone() if entry.is_local else None
    return bound if zone is None else localised(bound, zone)


def _wrong_arguments(name: str, takes: str, arguments: Sequence[Expression]) -> errors.TypeError:
    got = ", ".join(str(argument.type) for argument in arguments)
    return errors.TypeError(f"{name} takes {takes}, not ({got})")
