"""Random typed expressions, from the tables of constructs."""

from __future__ import annotations

from collections.abc import Sequence

from tests.properties.dice import Dice
from tests.text_oracle.aggregates import AGGREGATES, ORDERED
from tests.text_oracle.kinds import LITERALS, Column, Kind, Text, filled
from tests.text_oracle.known import is_known
from tests.text_oracle.lists import LIST_AGGREGATES, LISTS
from tests.text_oracle.scalars import CONSTRUCTS, Construct
from tests.text_oracle.user_code import AGGREGATES as USER_AGGREGATES
from tests.text_oracle.user_code import FUNCTIONS

Scope = Sequence[Column]


def _by_result(constructs: Sequence[Construct]) -> dict[Kind, list[Construct]]:
    return {kind: [c for c in constructs if c.result is kind and not is_known(c.text.cql)] for kind in Kind}


_SCALARS, _ORDERED = _by_result((*CONSTRUCTS, *LISTS)), _by_result(ORDERED)
_AGGREGATES = _by_result((*AGGREGATES, *LIST_AGGREGATES))


_USERS = _by_result([declared.construct for declared in FUNCTIONS.values()])
_USER_AGGREGATES = _by_result([declared.construct for declared in USER_AGGREGATES.values()])


def operand(dice: Dice, scope: Scope, kind: Kind) -> Text:
    """A column where there is one, else a constant."""
    columns = [column for column in scope if column.kind is kind]
    if columns and not dice.chance(15):
        return dice.pick(columns).text
    return dice.pick(LITERALS[kind])


def expression(dice: Dice, scope: Scope, kind: Kind, depth: int = 1) -> Text:
    if depth < 0 or dice.chance(45) or not _SCALARS[kind]:
        return operand(dice, scope, kind)
    of_users = _USERS[kind] and dice.chance(4)
    return _built(dice, dice.pick(_USERS[kind] if of_users else _SCALARS[kind]), scope, depth)


def _built(dice: Dice, construct: Construct, scope: Scope, depth: int) -> Text:
    arguments = [expression(dice, scope, argument, depth - 1) for argument in construct.arguments]
    return filled(construct.text, *arguments)


def condition(dice: Dice, scope: Scope, depth: int = 1) -> Text:
    """A construct with a truth value over columns; mostly over a kind that there is."""
    kinds = {column.kind for column in scope} | {Kind.BOOLEAN}
    fitting = [c for c in _SCALARS[Kind.BOOLEAN] if set(c.arguments) <= kinds]
    return _built(dice, dice.pick(fitting), scope, depth - 1)


def aggregate(dice: Dice, scope: Scope, kind: Kind, *, ordered: bool = False) -> Text | None:
    """An aggregate of a kind; FIRST and LAST only over the rows of one stream, which are in order."""
    options = [*_AGGREGATES[kind], *(_ORDERED[kind] if ordered else ())]
    if _USER_AGGREGATES[kind] and dice.chance(10):
        options = _USER_AGGREGATES[kind]
    return _built(dice, dice.pick(options), scope, 1) if options else None
