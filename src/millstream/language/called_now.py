"""The text of a query that was said before something was altered, as one would say it now.

FROM s [RANGE 10]       s is called sensors now          FROM sensors [RANGE 10] AS s
FROM s [RANGE 10]       its column b is called name now  FROM s [RANGE 10] AS s (a, b)
SELECT * FROM s         a column c was added             SELECT * EXCEPT (c) FROM s
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from millstream.language.stars import star_of
from millstream.language.syntax import StreamOperator
from millstream.plan.definitions import Definition, StreamDefinition, TableDefinition

Definitions = Mapping[str, Definition]


def as_called_now(tree: exp.Query, then: Definitions, now: Definitions) -> exp.Query:
    """The same query, where names of then may have another meaning now, or none."""
    known = {definition.edge: definition for definition in now.values()}
    if all(known.get(each.edge) is None or _is_as_it_was(key, each, known[each.edge]) for key, each in then.items()):
        return tree
    tree = tree.copy()
    for block in [*tree.find_all(exp.Select)]:
        changed = list[tuple[exp.Table, Definition, Definition]]()
        for table in _tables_of(block):
            key = ".".join(part.name for part in table.parts).lower()
            before = then.get(key)
            after = None if before is None or _is_of_with(table) else known.get(before.edge)
            if before is not None and after is not None and not _is_as_it_was(key, before, after):
                changed.append((table, before, after))
        added = {_said(table).lower(): _added(before, after) for table, before, after in changed}
        _without_added(block, {name: columns for name, columns in added.items() if columns})
        for table, before, after in changed:
            _renamed(table, before, after)
    return tree


def _is_as_it_was(key: str, before: Definition, after: Definition) -> bool:
    names = [field.name for field in before.columns] == [field.name for field in after.columns]
    return names and key == after.name.lower()


def _tables_of(block: exp.Select) -> Iterator[exp.Table]:
    """What stands in FROM by its name."""
    from_ = block.args.get("from_")
    waiting = [] if from_ is None else [from_.this, *(join.this for join in block.args.get("joins") or [])]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table | exp.Subquery):
            waiting.append(item.this)
        if isinstance(item, exp.Table):
            yield item
        waiting += [join.this for join in item.args.get("joins") or []]


def _is_of_with(table: exp.Table) -> bool:
    """Whether a WITH around it gives the name a meaning: to the parts behind the one that has it, and to the query."""
    above, own = table.parent, list[exp.Expr]()
    while above is not None:
        own += [above] if isinstance(above, exp.CTE) else []
        for part in above.args["with_"].expressions if above.args.get("with_") is not None else ():
            if any(part is each for each in own):
                break  # it knows those before it
            if part.alias.lower() == table.name.lower():
                return True
        above = above.parent
    return False


def _renamed(table: exp.Table, before: Definition, after: Definition) -> None:
    """The name of now; what else the text says goes by the names of then."""
    said = _said(table)
    *owner, name = after.name.split(".")
    table.set("this", exp.to_identifier(name))
    table.set("db", exp.to_identifier(owner[0]) if owner else None)
    alias = table.args.get("alias")
    old, new = ([field.name for field in each.columns] for each in (before, after))
    given = [column.name for column in alias.args.get("columns") or []] if alias is not None else []
    kept = [position for position, field in enumerate(after.columns) if field.name not in _added(before, after)]
    names = [*new]
    for position, name_then in zip(kept, given or old, strict=True):
        names[position] = name_then
    columns = [exp.to_identifier(each) for each in names] if names != new else []
    if said.lower() != name.lower() or columns:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(said), columns=columns))


def _added(before: Definition, after: Definition) -> list[str]:
    """The columns that were not there: of streams and tables that were altered, those behind the others."""
    if not isinstance(after, StreamDefinition | TableDefinition):
        return []
    first = len(before.columns)
    return [field.name for field in after.columns[first:]]


def _said(item: exp.Expr) -> str:
    """What an item of FROM is called in its text."""
    return str(item.alias or (item.name if isinstance(item, exp.Table) else ""))


def _without_added(block: exp.Select, added: Mapping[str, list[str]]) -> None:
    """Stars stand for the columns of then."""
    for star in [*_stars(block)] if added else ():
        column = star.parent if isinstance(star.parent, exp.Column) else None
        names = _items_of(block) if column is None else None
        if column is not None:
            _except(star, added.get(column.table.lower(), []))
        elif names is None or len(names) == 1 or star.args.get("replace") or star.args.get("rename"):
            _except(star, [name for columns in added.values() for name in columns])
        else:
            # Others in FROM may have columns of these names.
            owned = [exp.Column(this=star.copy(), table=exp.to_identifier(name)) for name in names]
            for name, each in zip(names, owned, strict=True):
                _except(each.this, added.get(name.lower(), []))
            above: exp.Expr = star.parent or block
            listed = [*above.expressions]
            place = next(number for number, item in enumerate(listed) if item is star)
            above.set("expressions", [*listed[:place], *owned, *listed[place + 1 :]])


def _except(star: exp.Star, added: list[str]) -> None:
    if added:
        star.set("except_", [*(star.args.get("except_") or []), *map(exp.column, added)])


def _items_of(block: exp.Select) -> list[str] | None:
    """What FROM's items are called, in their order; None where `*` is not all of their columns, one after the other."""
    joins = block.args.get("joins") or []
    items = [block.args["from_"].this, *(join.this for join in joins)]
    names = [_said(item) for item in items]
    plain = all(not (join.method or join.args.get("using") or join.kind in ("SEMI", "ANTI")) for join in joins)
    nested = any(item.args.get("joins") for item in items)
    return names if plain and all(names) and not nested and not block.args.get("laterals") else None


def _stars(block: exp.Select) -> Iterator[exp.Star]:
    """Those of the select list, which may stand in a relation-to-stream operator."""
    for item in block.expressions:
        for each in item.expressions if isinstance(item, StreamOperator) else [item]:
            if (star := star_of(each)) is not None:
                yield star
