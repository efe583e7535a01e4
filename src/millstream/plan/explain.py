"""A plan as a stable text tree: operator, kind, update pattern, schema, window, key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

from millstream.kernel.joins.graph import JoinGraph
from millstream.kernel.just_in_time.tree_shape import shown_shape
from millstream.kernel.ordering.sort_keys import RowOrder, SortKey
from millstream.kernel.ordering.top import Places
from millstream.kernel.ordering.window_functions import WindowCall
from millstream.kernel.windows.time import RangeOn, Rows, Sessions
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.keys import split_condition
from millstream.plan.analysis.patterns import pattern_of
from millstream.plan.definitions import TimeDomain
from millstream.types import DATE, DataType, Schema, show_schema

PLAIN_TICKS = TimeDomain(None)
_SIZES = re.compile(r"(RANGE|SLIDE|TUMBLE|HOP|SESSION|-) (\d+)")


def explain(plan: lo.Node, domain: TimeDomain | None = None) -> str:
    """The domain says in which units windows are shown."""
    return "\n".join(_lines(plan, domain or PLAIN_TICKS, "", ""))


def _lines(node: lo.Node, domain: TimeDomain, first: str, rest: str) -> Iterator[str]:
    kind = "stream" if node.kind == "stream" else f"relation {pattern_of(node).name}"
    yield f"{first}{describe(node, domain)}  {kind} {show_schema(node.schema)}"
    for index, child in enumerate(node.children):
        last = index == len(node.children) - 1
        yield from _lines(child, domain, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def describe(node: lo.Node, domain: TimeDomain = PLAIN_TICKS) -> str:
    """One operator in words."""
    match node:
        case lo.StreamScan():
            return f"Stream {node.title}"
        case lo.TableScan():
            return f"Table {node.title}{f' {node.nature}' if node.nature else ''}"
        case lo.OneRow():
            return "One row"
        case lo.Values():
            return f"Values of {len(node.rows)} row{'s' * (len(node.rows) > 1)}"
        case lo.Sample():
            return f"Sample {node.percent:g} percent, seed {node.seed}"
        case ph.SizedRows():
            return "Window of each query, [ROWS]"
        case lo.Window():
            return f"Window {_window(node, domain)}"
        case lo.Bounds():
            return f"Bounds of the window, cut every {domain.duration(node.slide)}"
        case lo.RelationToStream():
            return node.operator.capitalize() + (f" every {domain.duration(node.every)}" if node.every > 1 else "")
        case lo.Filter():
            return f"Filter {node.condition}"
        case lo.Project():
            return f"Project {', '.join(str(expression) for expression in node.expressions)}"
        case lo.Unnest():
            lists = ", ".join(field.name for field in node.input.schema[-node.lists :])
            words = f"Unnest {lists}{' with places' * node.position}"
            return words + ", rows without elements too" * node.outer
        case lo.Join():
            return _join(node)
        case lo.AsofJoin():
            return _asof_join(node)
        case ph.ManyJoin():
            return _many_join(node)
        case ph.Stamped():
            return "Stamp with the instant"
        case ph.Shortened():
            return f"Shorten to {', '.join(f'instant + {ticks}' for _, ticks in node.ends)}"
        case lo.Aggregate():
            key = f" key {', '.join(map(str, node.keys))}" if node.keys else ""
            calls = ", ".join(str(call) for call in node.calls if not call.gives_error)
            return f"Aggregate{key} computing {calls or 'nothing'}"
        case ph.Selection():
            return "Selection for many queries" + (f" key {node.key}" if node.key is not None else "")
        case ph.Constants():
            return f"Constants {', '.join(map(str, node.parameters))} of queries"
        case ph.QueryWindow():
            kind = "RANGE of each input" if node.window.instants else f"[{node.window.kind.upper()}]"
            return f"Window of each query, {kind}"
        case ph.Expand():
            return "Expand to queries"
        case ph.CellSelection():
            return "Selection for many queries by cell"
        case ph.Combined():
            return f"Combine cells computing {', '.join(map(str, node.calls)) or 'nothing'}"
        case ph.QueryRows():
            return "Query table"
        case ph.Matches():
            kept = "" if node.kept is None else f" within {node.kept} ticks"
            return (
                f"Matches of {node.instants} elements{kept} by the oldest" if node.instants > 1 else "Matches by time"
            )
        case ph.RankedTree():
            return f"Ranked tree computing {', '.join(map(str, node.calls))}"
        case ph.Guard():
            return "Guard"
        case lo.Failing():
            return f"Errors of {', '.join(map(str, node.expressions))}"
        case lo.Checked():
            return "Check errors"
        case ph.TreeSelection():
            return f"Ranked trees for many queries computing {', '.join(map(str, node.calls))}"
        case ph.MatchedSelection():
            return "Matches for many queries" + (f" key {node.key}" if node.key is not None else "")
        case ph.MatchScan():
            return "Materialized"
        case ph.Runs():
            return "Runs of presence"
        case lo.Distinct():
            return "Distinct"
        case lo.Top():
            return _top(node)
        case ph.SizedTop():
            return f"First rows of each query{_shown_places(node.order, node.places, node.schema)}"
        case lo.Over():
            return _over(node)
        case lo.SetOperation():
            return node.operation.capitalize()
        case _:
            return type(node).__name__


def _asof_join(node: lo.AsofJoin) -> str:
    own, operator, other = node.nearest
    keys = ", ".join(f"{node.left.schema[one].name} = {node.right.schema[two].name}" for one, two in node.keys)
    nearest = f"{node.left.schema[own].name} {operator} {node.right.schema[other].name}"
    return f"Join asof{' left' if node.outer else ''}{f' key {keys}' if keys else ''} nearest {nearest}"


def _top(node: lo.Top) -> str:
    limit = node.places.limit
    words = "First rows" if limit is None else f"First {limit} rows"
    return words + _shown_places(node.order, node.places, node.schema)


def _shown_places(order: RowOrder, places: Places, schema: Schema) -> str:
    words = ["with ties"] if places.with_ties else []
    words += [f"after {places.offset}"] if places.offset else []
    words += [f"by {shown_keys(order.keys, schema)}"] if order.keys else []
    words += [f"key {', '.join(schema[column].name for column in order.partition)}"] if order.partition else []
    return "".join(f" {word}" for word in words)


def _over(node: lo.Over) -> str:
    shown = [name for call, name in zip(node.calls, node.names, strict=True) if not _gives_error(call)]
    words = [f"Over{f' {shown_keys(node.order.keys, node.schema)}' if node.order.keys else ''}"]
    partition = ", ".join(node.schema[column].name for column in node.order.partition)
    words += [f"key {partition}"] if partition else []
    return f"{' '.join(words)} computing {', '.join(name.removesuffix(' OVER (...)') for name in shown) or 'nothing'}"


def _gives_error(call: WindowCall) -> bool:
    return call.aggregate is not None and call.aggregate.gives_error


def shown_keys(keys: Sequence[SortKey], schema: Schema) -> str:
    return ", ".join(
        f"{schema[key.column].name}{' DESC' if key.descending else ''}"
        f"{'' if key.nulls_first != key.descending else ' NULLS FIRST' if key.nulls_first else ' NULLS LAST'}"
        for key in keys
    )


def _distance(within: int | float, kind: DataType) -> str:
    """How far values of a type lie apart, as people write it."""
    if kind.is_temporal:
        return TimeDomain(86_400_000_000 if kind == DATE else 1).duration(int(within))
    return str(Decimal(within).scaleb(-kind.scale)) if kind.is_decimal else str(within)


def _window(node: lo.Window, domain: TimeDomain) -> str:
    window = node.window
    if isinstance(window, Rows) and window.partition:
        names = ", ".join(node.schema[index].name for index in window.partition)
        slide = f" SLIDE {window.slide}" if window.slide != 1 else ""
        return f"[PARTITION BY {names} ROWS {window.rows}{slide}] key {names}"
    if isinstance(window, RangeOn):
        names = ", ".join(node.schema[index].name for index in window.partition)
        kind, half_open = node.schema[window.column].type, " HALF OPEN" * window.half_open
        size = "left out of RANGE" if window.left_out else f"RANGE {_distance(window.within, kind)}"
        shown = f"{size} ON {node.schema[window.column].name}{half_open}"
        return f"[PARTITION BY {names} {shown}] key {names}" if names else f"[{shown}]"
    shown, key = str(window), ""
    if isinstance(window, Sessions) and window.partition:
        names = ", ".join(node.schema[index].name for index in window.partition)
        shown, key = str(replace(window, partition=())), f" key {names}"
    if not isinstance(window, Rows):
        shown = _SIZES.sub(lambda found: f"{found[1]} {domain.duration(int(found[2]))}", shown)
    return shown + key


def _join(node: lo.Join) -> str:
    keys, residual = split_condition(node.condition, len(node.left.schema))
    words = [f"Join {node.join}{' foretold' if node.foretold else ''}"]
    if keys:
        pairs = (f"{left} {'<=>' if safe else '='} {right}" for left, right, safe in keys)
        words.append(f"key {', '.join(pairs)}")
    if residual:
        words.append(f"where {' AND '.join(map(str, residual))}")
    return " ".join(words)


def _consumers(node: ph.ManyJoin) -> str:
    """Who needs which rows: by number, the inputs that are only asked."""
    found: dict[int, list[str]] = {}
    for number, consumer in enumerate(node.consumers, start=len(node.inputs) + 1):
        how = "none in" if consumer.refuses else "as of" if consumer.as_of else "some in"
        found.setdefault(consumer.alternative, []).append(f"{how} {number}")
    return " or ".join(" and ".join(words) for words in found.values())


def _many_join(node: ph.ManyJoin) -> str:
    graph = JoinGraph([len(child.schema) for child in node.inputs], node.condition)
    words = [f"Join of {len(node.inputs)}"]
    if isinstance(node, ph.JoinTree):
        shape = shown_shape(node.shape, [str(number + 1) for number in range(len(node.inputs))])
        words.append(f"as the tree {shape} just in time")
        words += [] if node.detection == "all" else [f"by {node.detection}"]
    elif isinstance(node, ph.StemJoin):
        words.append("by SteMs" if node.routing == "ticket" else f"by SteMs in {node.routing} order")
        words += ["just in time"] if node.jit else []
    words += [f"for {_consumers(node)}"] if node.consumers else ["for all consumers"] if node.shared else []
    if graph.classes:
        keys = (
            (" <=> " if equal.null_safe else " = ").join(node.inputs[n].schema[at].name for n, at in equal.columns)
            for equal in graph.classes
        )
        words.append(f"key {', '.join(keys)}")
    if graph.conditions:
        words.append(f"where {' AND '.join(str(condition.expression) for condition in graph.conditions)}")
    return " ".join(words)
