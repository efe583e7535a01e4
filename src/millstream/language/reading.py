"""Whatever was parsed and not understood is refused: of every syntax node, the arguments that nobody read.

sqlglot parses far more than CQL has, and keeps it as arguments of its nodes: `LIKE` and `NOT LIKE` differ in nothing
but `negate`. Who binds a tree reads the arguments that it knows, by name. `all_read` has every node note which were,
and refuses afterwards what is set and was not, at its place in the text. So no list has to be kept of what is not
supported, and what a newer sqlglot parses is refused before it is understood.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlglot import exp

from millstream.errors import NotSupportedError
from millstream.language.nesting import room_to_nest, without_collecting
from millstream.language.refusals import refused_clause
from millstream.language.syntax import StreamOperator, place_of
from millstream.plan.analysis.depth import too_deep

# What the parser sets by itself, whatever the text: how it would print `/` and `||`, how a name was quoted. Names are
# compared without case in any case. `whole` says how an operator is printed.
_NOT_OF_THE_TEXT: dict[type[exp.Expr], frozenset[str]] = {
    exp.Div: frozenset({"typed", "safe"}),
    exp.DPipe: frozenset({"safe"}),
    exp.TryCast: frozenset({"safe"}),
    exp.Concat: frozenset({"safe", "coalesce"}),
    exp.Identifier: frozenset({"quoted"}),
    StreamOperator: frozenset({"whole"}),
}
# Nothing but the value, which is read with its kind.
_WHOLE = (exp.Literal,)


class _Noted(dict[str, Any]):
    """A node's arguments, with the names of those that were asked for."""

    __slots__ = ("read",)

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__(arguments)
        self.read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)


@contextmanager
def all_read(tree: exp.Expr, text: str) -> Iterator[None]:
    """Refuses, once the block is over, what of the tree was not read in it."""
    # Of a part of a tree that is being read, whoever reads the tree takes note.
    nodes = [node for node in tree.walk() if not isinstance(node, _WHOLE) and not isinstance(node.args, _Noted)]
    noted = [_Noted(node.args) for node in nodes]
    for node, arguments in zip(nodes, noted, strict=True):
        node.args = arguments
    try:
        with room_to_nest(), without_collecting():
            yield
    except RecursionError:
        raise too_deep(place_of(tree, text)) from None
    finally:
        for node in nodes:
            node.args = dict(node.args)
    # Outermost first: what was not read at all is named as a whole.
    for node, arguments in zip(nodes, noted, strict=True):
        allowed = _NOT_OF_THE_TEXT.get(type(node), frozenset())
        for name, value in arguments.items():
            if _is_set(value) and name not in arguments.read and name not in allowed:
                raise _refused(node, name, value, text)


def _is_set(value: object) -> bool:
    return value is not None and value is not False and value != [] and value != ""


def _refused(node: exp.Expr, name: str, value: object, text: str) -> NotSupportedError:
    first = value[0] if isinstance(value, list) else value
    return refused_clause(node, name, value, place_of(first if isinstance(first, exp.Expr) else node, text))
