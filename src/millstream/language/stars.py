"""What `*` and `t.*` stand for in a select list: `* EXCEPT (a) REPLACE (x AS b) RENAME (c AS d)`, in this order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from millstream.errors import BindError, Error, NameError, Place, did_you_mean
from millstream.kernel.scalar.expressions import Expression

Columns = list[tuple[str, Expression]]


def star_of(item: exp.Expr) -> exp.Star | None:
    """The star that a select item is, with or without the name of a FROM item before it."""
    if isinstance(item, exp.Column):
        item = item.this
    return item if isinstance(item, exp.Star) else None


def edited(columns: Columns, star: exp.Star, bind: Callable[[exp.Expr], Expression], place: PlaceOf) -> Columns:
    """The columns without those of EXCEPT, with the values of REPLACE and the names of RENAME."""
    for column in star.args.get("except_") or []:
        _position(columns, column, "EXCEPT", place)
    columns = _without(columns, star.args.get("except_") or [], place)
    for alias in _aliases(star, "replace", "REPLACE (value AS column)", place):
        index = _position(columns, alias.args["alias"], "REPLACE", place)
        columns[index] = columns[index][0], bind(alias.this)
    renamed = dict[int, str]()
    for alias in _aliases(star, "rename", "RENAME (column AS name)", place):
        index = _position(columns, alias.this, "RENAME", place)
        if index in renamed:
            raise NameError(f'RENAME names "{columns[index][0]}" twice', place=place(alias))
        renamed[index] = alias.args["alias"].name
    return [(renamed.get(index, name), value) for index, (name, value) in enumerate(columns)]


PlaceOf = Callable[[exp.Expr], Place]


def _without(columns: Columns, excepted: Sequence[exp.Expr], place: PlaceOf) -> Columns:
    names = {column.name.lower() for column in excepted}
    left = [(name, column) for name, column in columns if name.lower() not in names]
    if not left:
        raise BindError("* EXCEPT leaves no column", place=place(excepted[0]))
    return left


def _aliases(star: exp.Star, argument: str, form: str, place: PlaceOf) -> list[exp.Alias]:
    found = star.args.get(argument) or []
    for item in found:
        if not isinstance(item, exp.Alias):
            raise BindError(f"expected {form}", place=place(item))
    return found


def _position(columns: Columns, named: exp.Expr, clause: str, place: PlaceOf) -> int:
    """Where the one column of a name is."""
    plain = isinstance(named, exp.Identifier) or (isinstance(named, exp.Column) and not named.table)
    found = [index for index, (name, _) in enumerate(columns) if name.lower() == named.name.lower()]
    if not plain or not found:
        known = [name for name, _ in columns]
        raise _unknown(f'{clause} of an unknown column "{named.name}"', did_you_mean(named.name, known), place(named))
    if len(found) > 1 and clause != "EXCEPT":
        raise _unknown(f'{clause}: "{named.name}" is ambiguous', "write t.* for one item of FROM", place(named))
    return found[0]


def _unknown(message: str, hint: str | None, place: Place) -> Error:
    return NameError(message, hint=hint, place=place)
