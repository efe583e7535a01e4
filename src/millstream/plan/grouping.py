"""Queries as rows: a plan split into what many queries have in common and what one of them asks of it.

    K(σ_p(X))   of many queries that differ in p only   =   K'(Selection(X)),   K' keeping the queries apart

The core X is a FROM list: windows, tables and inner joins, without any selection, so that it serves queries that come
later too. All selections on it are pulled up into one condition p, of which constants are taken out: what is left is
the query's shape, and the constants are its row in the query table. What stands above (the skeleton K) is lifted: as
long as it looks at single rows, these carry the set of queries that want them; where a query's own state begins, each
query gets its own rows, and its number becomes a column that everything is kept apart by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

from millstream.kernel.aggregation.aggregate_calls import BOOLEANS, VARIANCES, canonical
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import (
    TRUE,
    Call,
    Column,
    Expression,
    InList,
    Literal,
    Parameter,
    Tried,
    conjunction,
    conjuncts,
    map_columns,
    shift_columns,
)
from millstream.kernel.sharing.keyed_selection import equality_key
from millstream.kernel.windows.time import Rows
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.monotonic import is_non_retroactive
from millstream.plan.cells import can_be_summed_in_cells, summed_in_cells
from millstream.plan.fingerprint import fingerprint
from millstream.plan.tags import TAGS
from millstream.types import BIGINT, BOOLEAN, STRING, DataType, Field

_COMPARISONS = {"=", "<>", "<", "<=", ">", ">="}
# Aggregates that do not see NULL, so that a row of NULLs makes a group exist and changes nothing else.
_BLIND_TO_NULL = {"count", "sum", "avg", "min", "max", *VARIANCES, *BOOLEANS}
_PRESENT = Literal(BIGINT, 1)
_MANY_CONSTANTS = 1_000
QUERY_ROWS = "_queries-"  # what the names of query tables as sources begin with


@dataclass(frozen=True)
class Split:
    """A query taken apart: `core`, its condition over the core's columns, and what is made of the rows that satisfy it:
    the columns of the first projection, and the operators above, lowest first."""

    core: lo.Node
    condition: Expression
    columns: tuple[Expression, ...]
    names: tuple[str, ...]
    above: tuple[lo.Node, ...]

    @cached_property
    def skeleton(self) -> tuple[object, ...]:
        """What queries of a group have in common."""
        return self.core, self.columns, tuple(_as_such(node) for node in self.above)

    @property
    def is_join(self) -> bool:
        return isinstance(self.core, lo.Join | ph.ManyJoin)


def split(plan: lo.Node) -> Split | None:
    """None where there is no selection to take out, or something that cannot keep queries apart."""
    above: list[lo.Node] = []
    node = plan
    while not _is_row_wise(node):
        if not _can_be_lifted(node):
            return None
        above.append(node)
        node = node.children[0]
    if _fails_outside_selections(node):
        return None
    pulled = _pull(node)
    if pulled.condition == TRUE or not any(isinstance(n, lo.StreamScan) for n in pulled.core.walk()):
        return None
    names = tuple(f.name for f in node.schema)
    found = Split(pulled.core, _once(pulled.condition), tuple(pulled.columns), names, tuple(reversed(above)))
    return None if _has_parameters(found) else found


def _fails_outside_selections(node: lo.Node, *, below: bool = False) -> bool:
    """Whether what can fail stands below a selection: there it does on rows that no query wants. A group tells it of
    selections as rows come, so that none may be taken back."""
    selects = isinstance(node, lo.Filter | lo.Join | ph.ManyJoin)
    if any(map(can_fail, node.computed)):
        retracting = any(map(_takes_back, node.walk()))
        if below or (selects and (retracting or not isinstance(node, lo.Filter))):
            return True
    return any(_fails_outside_selections(child, below=below or selects) for child in node.children)


def _takes_back(node: lo.Node) -> bool:
    """Whether rows that it has given may be nothing in the end, even at the instant at which they came."""
    if isinstance(node, lo.TableScan):
        return node.nature not in ("APPEND ONLY", "STATIC")
    return isinstance(node, lo.Window) and isinstance(node.window, Rows)


def _once(condition: Expression) -> Expression:
    """A condition that must be true need not be possible too."""
    parts = conjuncts(condition)
    return conjunction([p for p in parts if not (isinstance(p, Tried) and p.argument in parts)])


def _has_parameters(found: Split) -> bool:
    """Whether what stands above the selection, or what is joined below it, differs from query to query."""
    expressions = [*found.columns, *(e for node in (*found.above, *found.core.walk()) for e in node.computed)]
    return any(map(_is_parametrised, expressions))


def _is_parametrised(expression: Expression) -> bool:
    return any(isinstance(part, Parameter) for part in expression.walk())


def _is_equality(expression: Expression) -> bool:
    """By which a join finds pairs: taken out of it, it would leave all of them."""
    return isinstance(expression, Call) and expression.function == "="


def _is_row_wise(node: lo.Node) -> bool:
    """Selections, projections and inner joins of windows on base streams and of tables."""
    match node:
        case lo.Filter() | lo.Project():
            return _is_row_wise(node.input)
        case lo.Join(join="inner") | ph.ManyJoin():
            return not any(is_non_retroactive(child) for child in node.children) and all(
                _is_row_wise(child) for child in node.children
            )
        case lo.Window():
            return isinstance(node.input, lo.StreamScan | lo.Sample) and all(
                isinstance(below, lo.StreamScan | lo.Sample) for below in node.input.walk()
            )
        case ph.Stamped():
            return isinstance(node.input, lo.Window) and _is_row_wise(node.input)
        case lo.TableScan():
            return True
        case _:
            return False


def _can_be_lifted(node: lo.Node) -> bool:
    match node:
        case lo.Filter() | lo.Project() | lo.Distinct() | lo.RelationToStream() | lo.Window():
            return True
        case ph.Matches() | ph.RankedTree():
            return True
        case lo.Aggregate():
            return bool(node.keys) or all(
                canonical(call.function) in _BLIND_TO_NULL and call.definition is None for call in node.calls
            )
        case _:
            return False


@dataclass(frozen=True)
class _Pulled:
    """A row-wise plan as columns of the rows of a core that satisfy a condition."""

    core: lo.Node
    condition: Expression
    columns: list[Expression]


def _pull(node: lo.Node) -> _Pulled:
    match node:
        case lo.Filter():
            below = _pull(node.input)
            own = _over(node.condition, below.columns)
            return replace(below, condition=conjunction([*conjuncts(below.condition), *conjuncts(own)]))
        case lo.Project():
            below = _pull(node.input)
            return replace(below, columns=[_over(e, below.columns) for e in node.expressions])
        case lo.Join() | ph.ManyJoin():
            return _pull_join(node)
        case _:
            return _Pulled(node, TRUE, [Column(f.type, index, f.name) for index, f in enumerate(node.schema)])


def _pull_join(node: lo.Join | ph.ManyJoin) -> _Pulled:
    if isinstance(node, ph.ManyJoin):
        # What the queries of a group need is known above it only.
        node = replace(node, consumers=(), shared=False)
    inputs = [_pull(child) for child in node.children]
    conditions: list[Expression] = []
    columns: list[Expression] = []
    width = 0
    for pulled in inputs:
        conditions += conjuncts(shift_columns(pulled.condition, width))
        columns += (shift_columns(column, width) for column in pulled.columns)
        width += len(pulled.core.schema)
    cores, condition = tuple(pulled.core for pulled in inputs), _over(node.condition, columns)
    own = [part for part in conjuncts(condition) if _is_parametrised(part) and not _is_equality(part)]
    if own:  # above the join, where each query has constants of its own
        conditions += own
        condition = conjunction([part for part in conjuncts(condition) if part not in own])
    core: lo.Node
    if isinstance(node, ph.ManyJoin):
        core = replace(node, inputs=cores, condition=condition)
    else:
        core = lo.Join(cores[0], cores[1], "inner", condition)
    return _Pulled(core, conjunction(conditions), columns)


def _over(expression: Expression, columns: Sequence[Expression]) -> Expression:
    return map_columns(expression, lambda column: columns[column.index])


# Shapes: what is left of a condition when the constants are taken out


@dataclass(frozen=True)
class Shape:
    """A condition with parameters; its name is the same in every process."""

    condition: Expression
    parameters: tuple[DataType, ...]
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", fingerprint((self.condition, self.parameters)))

    @cached_property
    def key(self) -> tuple[Expression, int] | None:
        """The column that queries ask for a value of, and which parameter that is, if they do."""
        asked = equality_key(self.condition)
        if asked is None or asked[0].type == BOOLEAN or not isinstance(asked[1], Parameter):
            return None
        return asked[0], asked[1].index


def has_many_constants(plan: lo.Node) -> bool:
    """Whether a query is not worth a place in a group: its constants would be columns of the query table."""
    return any(len(constants_of(e)) > _MANY_CONSTANTS for node in plan.walk() for e in node.computed)


def constants_of(condition: Expression) -> list[Literal]:
    return [part for part in condition.walk() if isinstance(part, Literal)]


def shape_of(condition: Expression) -> tuple[Shape, tuple[object, ...]]:
    """The condition with the constants that columns are compared with taken out, and these constants."""
    general, taken = generalised(condition)
    return Shape(general, tuple(literal.type for literal in taken)), tuple(literal.value for literal in taken)


def generalised(condition: Expression) -> tuple[Expression, list[Literal]]:
    """A condition with parameters for constants, and these."""
    taken: list[Literal] = []

    def take(constant: Expression) -> Expression:
        if not isinstance(constant, Literal) or constant.value is None or constant.type == BOOLEAN:
            return constant
        taken.append(constant)
        return Parameter(constant.type, len(taken) - 1)

    def generalise(node: Expression) -> Expression:
        if isinstance(node, Call) and node.function in _COMPARISONS:
            return node.with_children(tuple(take(argument) for argument in node.arguments))
        if isinstance(node, InList):
            return replace(node, values=tuple(take(value) for value in node.values))
        prefix = _prefix(node)
        if prefix is not None and isinstance(node, Call):
            return Call(BOOLEAN, "startswith", (node.arguments[0], take(Literal(STRING, prefix))))
        return node

    return condition.transform(generalise), taken


def _prefix(node: Expression) -> str | None:
    """What a text must begin with to satisfy LIKE 'begin%'."""
    if not (isinstance(node, Call) and node.function == "like" and len(node.arguments) == 2):
        return None
    pattern = node.arguments[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str) or not pattern.value.endswith("%"):
        return None
    begin = pattern.value[:-1]
    return None if any(sign in begin for sign in "%_\\") else begin


# Lifting: the skeleton over the rows of many queries


@dataclass(frozen=True)
class Lifted:
    """A plan for all queries of a group. Where it is `expanded`, the query is the first column of its rows; else rows
    carry the set of queries that want them. `group` names the rows of QueryRows, if it has such. Where rows are totals
    of cells, `upper` is what is done with those of queries that are asked, the place of each in front."""

    plan: lo.Node
    expanded: bool
    group: str
    upper: lo.Node | None = None


def lift(split: Split, key: Expression | None, shapes: Mapping[str, Expression]) -> Lifted:
    group = QUERY_ROWS + fingerprint((split.skeleton, key))
    if split.above and isinstance(split.above[0], ph.Matches):
        matches = split.above[0]
        held = matches.instants, matches.kept, matches.timed
        plan = ph.MatchedSelection(split.core, group, key, split.columns, *held, split.names, shapes)
        return Lifted(plan, expanded=False, group=group)
    if split.above and isinstance(split.above[0], ph.RankedTree):
        tree = split.above[0]
        asked = tree.instants, tree.keys, tree.calls, tree.kept, tree.shifts
        trees = ph.TreeSelection(split.core, group, key, split.columns, *asked, split.names, shapes)
        return Lifted(trees, expanded=False, group=group)
    selection = ph.Selection(split.core, group, key, shapes)
    if key is None and can_be_summed_in_cells(split.core, split.columns, split.above):
        cells = summed_in_cells(selection, split.columns, split.above[0])
        upper = _Lifting(cells.combined, True, group)
        for node in split.above[1:]:
            upper.add(node, last=False)
        return Lifted(cells.plan, expanded=False, group=group, upper=upper.plan)
    lifting = _Lifting(selection, key is not None, group)
    lifting.project(split.columns, split.names)
    for node in split.above:
        lifting.add(node, last=node is split.above[-1])
    return Lifted(lifting.plan, lifting.expanded, lifting.group)


def _as_such(node: lo.Node) -> tuple[object, ...]:
    """An operator, whatever it stands on."""
    own = (part.name for part in fields(node) if part.compare and part.name != "input")
    return TAGS[type(node)], *(getattr(node, name) for name in own)


class _Lifting:
    def __init__(self, plan: lo.Node, expanded: bool, group: str) -> None:
        self.plan, self.expanded, self.group = plan, expanded, group

    def project(self, columns: Sequence[Expression], names: Sequence[str]) -> None:
        if self.expanded:
            columns, names = [_query(), *(shift_columns(e, 1) for e in columns)], [ph.QUERY.name, *names]
        indexes = [e.index if isinstance(e, Column) else None for e in columns]
        if indexes != list(range(len(self.plan.schema))):
            self.plan = lo.Project(self.plan, tuple(columns), tuple(names))

    def expand(self) -> None:
        if not self.expanded:
            self.plan, self.expanded = ph.Expand(self.plan), True

    def add(self, node: lo.Node, *, last: bool) -> None:
        match node:
            case lo.Filter():
                self.plan = lo.Filter(self.plan, shift_columns(node.condition, int(self.expanded)))
            case lo.Project():
                self.project(node.expressions, node.names)
            case lo.RelationToStream(operator="rstream") if last:
                self.plan = lo.RelationToStream(self.plan, "rstream")
            case lo.Aggregate():
                self._aggregate(node)
            case lo.Window(window=Rows() as window):
                self.expand()
                apart = replace(window, partition=(0, *(column + 1 for column in window.partition)))
                self.plan = lo.Window(self.plan, apart)
            case _:
                self.expand()
                self.plan = node.with_children((self.plan,))

    def _aggregate(self, node: lo.Aggregate) -> None:
        """Only what the aggregate reads is expanded, so that equal rows of a query have become one before."""
        needed = [*node.keys, *(call.argument for call in node.calls if call.argument is not None)]
        columns = list(dict.fromkeys(needed))
        self.project(columns, [str(column) for column in columns])
        self.expand()
        if not node.keys:
            self._keep_all_queries()
        places = {expression: index + 1 for index, expression in enumerate(columns)}
        keys = (_query(), *(_column(key, places[key]) for key in node.keys))
        calls = []
        for call in node.calls:
            argument = None if call.argument is None else _column(call.argument, places[call.argument])
            if argument is None and not node.keys:
                argument = Column(BIGINT, len(columns) + 1, "*")
            calls.append(replace(call, argument=argument))
        self.plan = lo.Aggregate(self.plan, keys, tuple(calls))

    def _keep_all_queries(self) -> None:
        """Without keys there is one row always: a row of NULLs for each query that no function sees makes it so."""
        schema = self.plan.schema
        columns = (*(Column(f.type, index, f.name) for index, f in enumerate(schema)), _PRESENT)
        real = lo.Project(self.plan, columns, (*(f.name for f in schema), "*"))
        always = ph.QueryRows(self.group, (*schema[1:], Field("*", BIGINT)))
        self.plan = lo.SetOperation("union all", real, always)


def _query() -> Column:
    return Column(ph.QUERY.type, 0, ph.QUERY.name)


def _column(expression: Expression, index: int) -> Column:
    return Column(expression.type, index, str(expression))
