"""Syntax nodes that CQL adds to sqlglot's, and where a node stands in the text.

FROM items (`exp.Table`, `exp.Subquery`) carry a `StreamWindow` and a `StreamSample` under the argument names below;
a Select carries PSoup's trailing BEGIN .. END under the same window argument.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp

from millstream.errors import Place

WINDOW = "stream_window"
SAMPLE = "stream_sample"
STREAM_OPERATORS = ("ISTREAM", "DSTREAM", "RSTREAM")
# The text of an unnamed select item is its column's name; the parser notes it here.
SOURCE_TEXT = "source_text"
SOURCE_START = "source_start"  # where that begins
PARAMETER = "parameter"  # the number of a ?


class StreamWindow(exp.Expression):
    """`[NOW]`, `[RANGE size SLIDE slide]`, `[ROWS ..]`, `[PARTITION BY .. ROWS ..]`, `[TUMBLE size]`,
    `[HOP size SLIDE slide]`, `[SESSION size COMPLETE PARTITION BY ..]`, `[BEGIN begin END end]`,
    `[RANGE size ON column]`.

    `kind` is NOW, RANGE, ROWS, TUMBLE, HOP, SESSION, BEGIN, RANGE ON, or USER with a `name`; sizes are exp.Literal
    (ticks or rows), exp.Interval, or exp.Var UNBOUNDED. A window that was written as a table function of Flink, or as a
    group of Spark, has a `descriptor`: the column that it says to be the timestamp.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True,
        "size": False,
        "slide": False,
        "partition": False,
        "begin": False,
        "end": False,
        "descriptor": False,
        "complete": False,
        "name": False,
        "column": False,
    }


class Instant(exp.Expression):
    """An end of a BEGIN .. END window: `NOW`, `NOW - offset`, or a fixed instant."""

    arg_types: ClassVar[dict[str, bool]] = {"now": True, "offset": False, "at": False}


class StreamSample(exp.Expression):
    """`SAMPLE (p PERCENT)`: a coin toss per element, before the window."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class LiteralList(exp.Expression):
    """The constants of a long `IN (...)`, as they are written."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class DefaultValue(exp.Expression):
    """DEFAULT in the place of a value: what the column has where none is given."""

    arg_types: ClassVar[dict[str, bool]] = {}


class StreamOperator(exp.Expression):
    """ISTREAM, DSTREAM or RSTREAM around a select list, `every` being that of `RSTREAM(..) EVERY size`.

    `whole` marks the form around a whole query, `ISTREAM(SELECT ...)`, which is parsed as
    `SELECT ISTREAM(*) FROM (SELECT ...)`.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": True,
        "distinct": False,
        "whole": False,
        "every": False,
    }


def place_of(node: exp.Expr, text: str) -> Place:
    """The span of the text that a node was read from (its own tokens' and its descendants')."""
    starts, ends = [], []
    waiting = [node]  # not by `walk`, which takes several times as long: every name that is bound asks
    while waiting:
        part = waiting.pop()
        if part._meta and "start" in part._meta:
            starts.append(part._meta["start"])
            ends.append(part._meta["end"] + 1)
        for value in part.args.values():
            if isinstance(value, exp.Expr):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [each for each in value if isinstance(each, exp.Expr)]
    if not starts:
        return Place(text, 0, 0) if node.parent is None else place_of(node.parent, text)
    return Place(text, min(starts), max(ends))


def chain_of(node: exp.Expr, *kinds: type[exp.Expr]) -> tuple[list[type[exp.Expr]], list[exp.Expr]]:
    """The operators of a chain, `a + b - c`, and its operands, from left to right; it is nested to the left."""
    operators: list[type[exp.Expr]] = []
    operands: list[exp.Expr] = []
    while type(node) in kinds:
        operators.append(type(node))
        operands.append(node.args["expression"])
        node = node.args["this"]
    return operators[::-1], [node, *reversed(operands)]


def numbered_parameters(query: exp.Query) -> list[exp.Placeholder]:
    """The parameters (?) of a template in the order of its text; each is told its number."""
    found = sorted(query.find_all(exp.Placeholder), key=lambda node: int(node.meta["start"]))
    for number, node in enumerate(found):
        node.meta[PARAMETER] = number
    return found


def spanned(node: exp.Expr, start: int, end: int) -> None:
    """Note that a node covers the characters start to end (exclusive)."""
    node.meta["start"], node.meta["end"] = start, end - 1
