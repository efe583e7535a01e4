"""The text of a query that was said before something was altered, as one would say it now.

FROM s [RANGE 10]       s is called sensors now          FROM sensors [RANGE 10] AS s
FROM s [RANGE 10]       its column b is called name now  FROM s [RANGE 10] AS s (a, b)
SELECT * FROM s         a column c was added             SELECT * EXCEPT (c) FROM s
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from millstream.plan.definitions import Definition, StreamDefinition, TableDefinition

Definitions = Mapping[str, Definition]


def as_called_now(tree: exp.Query, then: Definitions, now: Definitions) -> exp.Query:
    """The same query, where names of then may have another meaning now, or none."""
    known = {definition.edge: definition for definition in now.values()}
    if all(known.get(each.edge) is None or _is_as_it_was(key, each, known[each.edge]) for key, each in then.items()):
        return tree
    tree = tree.copy()
    for block in [*tree.find_all(exp.Select)]:
        tables = [*_tables_of(block)]
        for table in tables:
            key = ".".join(part.name for part in table.parts).lower()
            before = then.get(key)
            after = None if before is None or _is_of_with(table) else known.get(before.edge)
            if before is not None and after is not None and not _is_as_it_was(key, before, after):
                _without_added(block, table, before, after, alone=len(tables) == 1)
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
    said = table.alias or table.name
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


def _without_added(block: exp.Select, table: exp.Table, before: Definition, after: Definition, *, alone: bool) -> None:
    """Stars stand for the columns of then."""
    added, name = _added(before, after), table.alias or table.name
    if not added:
        return
    for star in [*_stars(block)]:
        column = star.parent if isinstance(star.parent, exp.Column) else None
        owner = None if column is None else column.table
        if (owner is None and alone) or (owner is not None and owner.lower() == name.lower()):
            excepted = star.args.get("except_") or []
            star.set("except_", [*excepted, *(exp.column(each) for each in added)])


def _stars(block: exp.Select) -> Iterator[exp.Star]:
    """Those of the select list, which may stand in a relation-to-stream operator."""
    for item in block.expressions:
        for star in item.find_all(exp.Star):
            if isinstance(star.parent, exp.Column | exp.Select) or star.parent is item or star is item:
                yield star
