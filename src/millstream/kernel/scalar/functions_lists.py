"""Functions of lists. Elements are counted from 1, as SQL does, but in `x[i]` and `get(x, i)` from 0, as Spark has it.

NULL elements are equal to each other where lists are compared, and unknown where one looks for a value in a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from millstream import errors
from millstream.kernel import lists
from millstream.kernel.scalar.coercion import can_cast, common_type
from millstream.kernel.scalar.expressions import Call, Expression, Literal
from millstream.kernel.scalar.outcome import Failure, Outcome, by_column, fails_where_null
from millstream.kernel.scalar.regex import translate
from millstream.kernel.scalar.signature import ANY, CONDITION, TEXT, WHOLE, Function, Signature, Slot, TypeRule, row
from millstream.kernel.scalar.value_size import list_sizes
from millstream.kernel.step_limits import check_column, step_limits
from millstream.types import BIGINT, BOOLEAN, INT, NULL, STRING, DataType, array, to_polars

LIST = Slot("array", lambda kind: array(NULL) if kind == NULL else kind if kind.is_list else None)
_TEXTS = Slot(
    "array of strings",
    lambda kind: array(STRING) if kind == NULL or (kind.is_list and can_cast(kind, array(STRING))) else None,
)
_OUT_OF_RANGE = "use get(x, i), which counts from 0, or try_element_at(x, i): NULL where there is no such element"
_AHEAD = "\ue000"
AT = "[]"  # x[i]


def _element(types: tuple[DataType, ...]) -> DataType:
    return types[0].element or NULL


def _first(types: tuple[DataType, ...]) -> DataType:
    return types[0]


def _with_value(result: Callable[[DataType], DataType]) -> TypeRule:
    """A list and a value that both take the type in which they meet."""

    def bind(arguments: Sequence[Expression]) -> Signature | None:
        if len(arguments) != 2 or (listed := LIST.accept(arguments[0].type)) is None:
            return None
        kind = common_type([listed.element or NULL, arguments[1].type])
        return None if kind is None else Signature((array(kind), kind), result(array(kind)))

    return TypeRule("(array, a value of its elements' type)", bind)


def _two(result: Callable[[DataType], DataType]) -> TypeRule:
    """Two lists of one type."""

    def bind(arguments: Sequence[Expression]) -> Signature | None:
        common = common_type(argument.type for argument in arguments) if len(arguments) == 2 else None
        if common is None or (common != NULL and not common.is_list):
            return None
        kind = array(NULL) if common == NULL else common
        return Signature((kind, kind), result(kind))

    return TypeRule("two arrays of one type", bind)


def _bind_array(arguments: Sequence[Expression]) -> Signature | None:
    kind = common_type(argument.type for argument in arguments)
    return None if kind is None else Signature((kind,) * len(arguments), array(kind))


def _array(node: Call, *values: pl.Expr) -> pl.Expr:
    dtype = to_polars(node.type)
    if not values:
        return pl.lit(pl.Series([[]], dtype=dtype)).first()
    if not node.arguments[0].type.is_list:
        return pl.concat_list(values).cast(dtype)
    return by_column(lambda *columns: _of_columns(columns), values, dtype)


def _of_columns(columns: Sequence[pl.Series]) -> pl.Series:
    """One list for each row, of its value in each column."""
    height = len(columns[0])
    places = np.arange(height * len(columns)).reshape(len(columns), height).T.ravel()
    together = pl.concat([column.alias("") for column in columns])
    return lists.listed(together[places], np.full(height, len(columns)))


# What there is at a place


def _at(node: Call, values: pl.Expr, place: pl.Expr, *, lenient: bool) -> pl.Expr | Outcome:
    """By a number from 0 on."""
    value = pl.when(place >= 0).then(values.list.get(place.fill_null(0).clip(0), null_on_oob=True))
    if lenient:
        return value
    outside = ((place < 0) | (place >= values.list.len().cast(pl.Int64))).fill_null(False) & values.is_not_null()
    return Outcome(value, (Failure(lambda _: outside, "no such element: they are counted from 0", _OUT_OF_RANGE),))


def _element_at(node: Call, values: pl.Expr, place: pl.Expr, *, lenient: bool) -> Outcome:
    """By a number from 1 on, or from -1 on backwards."""
    known = values.is_not_null() & place.is_not_null()
    index = pl.when(place > 0).then(place - 1).otherwise(place)
    value = pl.when(known).then(values.list.get(index.fill_null(0), null_on_oob=True))
    zero = Failure(lambda _: known & (place == 0), "elements are counted from 1, or from -1 backwards")
    if lenient:
        return Outcome(value, (zero,))
    outside = known & (place.abs() > values.list.len().cast(pl.Int64))
    return Outcome(value, (zero, Failure(lambda _: outside, "no such element", _OUT_OF_RANGE)))


def _size(node: Call, values: pl.Expr) -> pl.Expr:
    return values.list.len().cast(pl.Int32)


def _slice(node: Call, values: pl.Expr, start: pl.Expr, length: pl.Expr) -> Outcome:
    known = values.is_not_null() & start.is_not_null() & length.is_not_null()
    size = values.list.len().cast(pl.Int64)
    first = pl.when(start > 0).then(start.cast(pl.Int64) - 1).otherwise(size + start.cast(pl.Int64))
    within = (first >= 0) & (first < size)
    cut = values.list.slice(first.clip(0).fill_null(0), pl.when(within).then(length).otherwise(0).clip(0).fill_null(0))
    zero = Failure(lambda _: known & (start == 0), "elements are counted from 1, or from -1 backwards")
    negative = Failure(lambda _: known & (length < 0), "a length is not negative")
    return Outcome(pl.when(known).then(cut), (zero, negative))


# What is in a list


def _found(values: pl.Series, sought: pl.Series) -> pl.DataFrame:
    """For each element its row, its place in the list, and whether it is what is sought in its list."""
    sizes = lists.lengths(values)
    row_of = np.repeat(np.arange(len(values)), sizes)
    place = np.arange(len(row_of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    own = lists.elements(values)
    known = own.is_not_null() & sought[row_of].is_not_null()
    return pl.DataFrame(
        {"row": row_of, "place": place, "equal": own.eq_missing(sought[row_of]) & known, "null": own.is_null()}
    )


def _contains(values: pl.Series, sought: pl.Series) -> pl.Series:
    found = _found(values, sought)
    hit, unknown = (_rows_of(found, name, len(values)) for name in ("equal", "null"))
    known = values.is_not_null() & sought.is_not_null()
    return pl.select(pl.when(known & hit).then(True).when(known & ~unknown).then(False)).to_series()


def _rows_of(found: pl.DataFrame, name: str, height: int) -> pl.Series:
    rows = np.zeros(height, np.bool_)
    rows[found.filter(name).get_column("row").to_numpy()] = True
    return pl.Series(rows)


def _position(values: pl.Series, sought: pl.Series) -> pl.Series:
    hits = _found(values, sought).filter("equal").unique("row", keep="first", maintain_order=True)
    places = np.zeros(len(values), np.int64)
    places[hits.get_column("row").to_numpy()] = hits.get_column("place").to_numpy() + 1
    known = values.is_not_null() & sought.is_not_null()
    return pl.select(pl.when(known).then(pl.Series(places))).to_series()


def _remove(values: pl.Series, sought: pl.Series) -> pl.Series:
    found = _found(values, sought)
    kept = found.filter(~pl.col("equal")).get_column("row").to_numpy()
    own = lists.elements(values).filter(~found.get_column("equal"))
    sizes = np.bincount(kept, minlength=len(values)).astype(np.int64)
    return lists.listed(own, sizes, values.is_null() | sought.is_null())


def _overlap(left: pl.Series, right: pl.Series) -> pl.Series:
    """Whether there is a value in both; NULL where there is none but a NULL in one, and something in the other."""
    sides = [left, right]
    both = lists.lengths(_among(*(side.list.drop_nulls() for side in sides), kept=True)) > 0
    nulls = np.any([side.list.drop_nulls().list.len().fill_null(0) < side.list.len().fill_null(0) for side in sides], 0)
    unknown = nulls & np.all([lists.lengths(side) > 0 for side in sides], 0) & ~both
    known = (left.is_not_null() & right.is_not_null()).to_numpy() & ~unknown
    return pl.Series(both).set(pl.Series(~known), None)


def _distinct(values: pl.Series) -> pl.Series:
    """The first of equal elements, in their order."""
    return _only_first(values, np.ones(lists.lengths(values).sum(), np.bool_))


def _only_first(values: pl.Series, wanted: np.ndarray) -> pl.Series:
    sizes = lists.lengths(values)
    own = lists.elements(values).alias("element")
    frame = own.to_frame().with_columns(row=np.repeat(np.arange(len(values)), sizes)).filter(pl.Series(wanted))
    kept = frame.unique(["row", "element"], keep="first", maintain_order=True)
    counted = np.bincount(kept.get_column("row").to_numpy(), minlength=len(values)).astype(np.int64)
    return lists.listed(kept.get_column("element"), counted, values.is_null())


def _union(left: pl.Series, right: pl.Series) -> pl.Series:
    both = pl.DataFrame({"left": left, "right": right})
    joined = pl.when(pl.all_horizontal(pl.all().is_not_null())).then(pl.concat_list("left", "right"))
    return _distinct(both.select(joined).to_series())


def _among(left: pl.Series, right: pl.Series, *, kept: bool) -> pl.Series:
    """The distinct elements of one list that are in the other one, or are not."""
    frames = [
        lists.elements(side)
        .alias("element")
        .to_frame()
        .with_columns(row=np.repeat(np.arange(len(side)), lists.lengths(side)))
        for side in (left, right)
    ]
    there = frames[0].join(
        frames[1].unique().with_columns(there=True),
        on=["row", "element"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    wanted = there.get_column("there").fill_null(False).to_numpy() == kept
    return _only_first(left, wanted).zip_with(
        right.is_not_null(),
        lists.listed(
            lists.elements(left.clear()), np.zeros(len(left), np.int64), pl.repeat(True, len(left), eager=True)
        ),
    )


# Order


def _sorted(*, nulls_last: bool) -> Callable[..., pl.Expr]:
    def evaluate(node: Call, values: pl.Expr, ascending: pl.Expr | None = None) -> pl.Expr:
        direction = node.arguments[1] if ascending is not None else Literal(BOOLEAN, True)
        if not isinstance(direction, Literal) or not isinstance(direction.value, bool):
            raise errors.TypeError(f"whether to sort in ascending order must be a constant, not {direction}")
        upwards = direction.value
        return values.list.sort(descending=not upwards, nulls_last=nulls_last or not upwards)

    return evaluate


def _extreme(*, greatest: bool) -> Callable[..., pl.Expr]:
    def evaluate(node: Call, values: pl.Expr) -> pl.Expr:
        # Not list.max(): to Spark NaN is the greatest number.
        ordered = values.list.drop_nulls().list.sort(descending=greatest)
        return ordered.list.get(0, null_on_oob=True)

    return evaluate


# Lists that are made


def _limited(
    value: Callable[..., pl.Series], arguments: Sequence[pl.Expr], kind: DataType, sizes: Callable[..., pl.Series]
) -> Outcome:
    """A list, where it is small enough; `sizes` are bytes, NULL where the list is."""
    limits, dtype = step_limits(), to_polars(kind)
    most = limits.value_bytes

    def compute(*columns: pl.Series) -> pl.Series:
        wanted = sizes(*columns)
        fits = wanted <= most
        check_column(int(wanted.filter(fits).sum()), limits)
        if bool(fits.all()):
            return value(*columns)
        return value(
            *(column.zip_with(fits.fill_null(False), pl.Series([None], dtype=column.dtype)) for column in columns)
        )

    failure = fails_where_null(arguments, f"a value of more than {most:,} bytes", "SET max_value_bytes")
    return Outcome(by_column(compute, arguments, dtype), (failure,))


def concatenated(node: Call, *values: pl.Expr) -> Outcome:
    def value(*columns: pl.Series) -> pl.Series:
        return (
            pl.DataFrame({f"c{at}": c for at, c in enumerate(columns)})
            .select(pl.when(pl.all_horizontal(pl.all().is_not_null())).then(pl.concat_list(pl.all())))
            .to_series()
        )

    def sizes(*columns: pl.Series) -> pl.Series:
        return pl.Series(np.sum([list_sizes(column) for column in columns], axis=0))

    return _limited(value, values, node.type, sizes)


def _repeated(node: Call, value: pl.Expr, count: pl.Expr) -> Outcome:
    def repeated(value: pl.Series, count: pl.Series) -> pl.Series:
        sizes = count.fill_null(0).clip(0).to_numpy().astype(np.int64)
        return lists.listed(value[np.repeat(np.arange(len(value)), sizes)], sizes, count.is_null())

    def sizes(value: pl.Series, count: pl.Series) -> pl.Series:
        one = list_sizes(lists.listed(value, np.ones(len(value), np.int64)))
        return pl.Series(one) * count.cast(pl.Int64).clip(0)

    outcome = _limited(repeated, [value, count], node.type, sizes)
    failure = fails_where_null([count], outcome.failures[0].message, outcome.failures[0].hint)
    return Outcome(outcome.value, (failure,))


def _bind_sequence(arguments: Sequence[Expression]) -> Signature | None:
    if len(arguments) not in (2, 3) or not all(a.type.is_integer or a.type == NULL for a in arguments):
        return None
    kind = common_type(argument.type for argument in arguments) or NULL
    kind = INT if kind == NULL else kind
    return Signature((kind,) * len(arguments), array(kind))


def _sequence(node: Call, start: pl.Expr, stop: pl.Expr, step: pl.Expr | None = None) -> Outcome:
    by = pl.when(start <= stop).then(1).otherwise(-1) if step is None else step
    by = pl.when(start.is_not_null() & stop.is_not_null()).then(by.cast(pl.Int64))
    given = [start.cast(pl.Int64), stop.cast(pl.Int64), by]

    def count(start: pl.Series, stop: pl.Series, by: pl.Series) -> pl.Series:
        frame = pl.DataFrame({"start": start, "stop": stop, "by": by}).cast(pl.Int128)
        span = (pl.col("stop") - pl.col("start")) // pl.when(pl.col("by") == 0).then(1).otherwise(pl.col("by")) + 1
        return frame.select(span.clip(0, 2**40).cast(pl.Int64)).to_series()

    def value(start: pl.Series, stop: pl.Series, by: pl.Series) -> pl.Series:
        sizes = count(start, stop, by).fill_null(0).to_numpy()
        rows = np.repeat(np.arange(len(sizes)), sizes)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        firsts, steps = (column.fill_null(0).to_numpy()[rows] for column in (start, by))
        made = pl.Series(firsts + place * steps).cast(to_polars(_element((node.type,))))
        return lists.listed(made, sizes, start.is_null() | stop.is_null() | by.is_null())

    outcome = _limited(value, given, node.type, lambda *columns: count(*columns) * 8)
    wrong = ((by == 0) & (start != stop)) | ((by > 0) & (start > stop)) | ((by < 0) & (start < stop))
    return Outcome(
        outcome.value, (Failure(lambda _: wrong, "the step of a sequence leads away from its end"), *outcome.failures)
    )


def _flatten(values: pl.Series) -> pl.Series:
    """The lists in a list one after the other; NULL where one of them is."""
    inner = lists.elements(values)
    sizes, ends = lists.lengths(values), np.cumsum(lists.lengths(values))
    running = np.concatenate((np.zeros(1, np.int64), np.cumsum(lists.lengths(inner))))
    missing = np.concatenate((np.zeros(1, np.int64), np.cumsum(inner.is_null().to_numpy())))
    none = pl.Series(missing[ends] - missing[ends - sizes] > 0) | values.is_null()
    return lists.listed(lists.elements(inner), running[ends] - running[ends - sizes], none)


def _bind_flatten(arguments: Sequence[Expression]) -> Signature | None:
    kind = arguments[0].type if len(arguments) == 1 else NULL
    if kind.element is None or not kind.element.is_list:
        return None
    return Signature((kind,), kind.element)


def _join(node: Call, values: pl.Expr, separator: pl.Expr, missing: pl.Expr | None = None) -> pl.Expr:
    if missing is None:
        return values.list.drop_nulls().list.join(separator)

    def filled(values: pl.Series, missing: pl.Series) -> pl.Series:
        rows = np.repeat(np.arange(len(values)), lists.lengths(values))
        own = lists.elements(values)
        return lists.listed(own.zip_with(own.is_not_null(), missing[rows]), lists.lengths(values), values.is_null())

    joined = by_column(filled, [values, missing], pl.List(pl.String())).list.join(separator)
    return pl.when(missing.is_not_null()).then(joined)


def _bind_split(arguments: Sequence[Expression]) -> Signature | None:
    signature = row(TEXT, TEXT, WHOLE, optional=1, result=array(STRING)).bind(arguments)
    if signature is None:
        return None
    if not all(isinstance(argument, Literal) for argument in arguments[1:]):
        raise errors.TypeError("the pattern and the limit of split must be constants")
    pattern = arguments[1].value if isinstance(arguments[1], Literal) else None
    if isinstance(pattern, str) and pattern and pl.Series([""]).str.contains(translate(pattern).text).item():
        raise errors.TypeError(f"the pattern {pattern!r} of split matches no characters at all")
    return signature


def _split(node: Call, text: pl.Expr, _: pl.Expr, limit: pl.Expr | None = None) -> pl.Expr:
    """By a regular expression of Java; with a limit above 0, into so many parts at most."""
    given = [argument.value for argument in node.arguments[1:] if isinstance(argument, Literal)]
    pattern, most = given[0], given[1] if len(given) > 1 else -1
    if not isinstance(pattern, str) or not isinstance(most, int):
        return pl.lit(None, dtype=pl.List(pl.String()))
    translated = translate(pattern).text if pattern else "(?s)."

    def parts(texts: pl.Series) -> pl.Series:
        found = texts.alias("text").to_frame()
        matches = pl.col("text").str.extract_all(translated)
        if not pattern:  # every character is a part
            return found.select(_first_parts(matches, matches.list.eval(pl.lit("")), most)).to_series()
        mark = _AHEAD
        while texts.str.contains(mark, literal=True).any():
            mark += _AHEAD
        whole = pl.col("text").str.replace_all(translated, mark).str.split(mark)
        return found.select(_first_parts(whole, matches, most)).to_series()

    return by_column(parts, [text], pl.List(pl.String()))


def _first_parts(parts: pl.Expr, between: pl.Expr, most: int) -> pl.Expr:
    """So many parts at most: the last one is all that is left of the text."""
    if most <= 0:
        return parts
    length = parts.list.head(most - 1).list.eval(pl.element().str.len_chars()).list.sum()
    length += between.list.head(most - 1).list.eval(pl.element().str.len_chars()).list.sum()
    rest = pl.col("text").str.slice(length.fill_null(0))
    cut = pl.concat_list(parts.list.head(most - 1), pl.concat_list(rest))
    return pl.when(parts.list.len() <= most).then(parts).otherwise(cut)


def _of_series(name: str, rule: TypeRule, compute: Callable[..., pl.Series], *aliases: str) -> Function:
    return Function(name, rule, lambda node, *values: by_column(compute, values, to_polars(node.type)), aliases)


def _same(kind: DataType) -> DataType:
    return kind


def _appended(*, behind: bool) -> Callable[..., pl.Expr]:
    def evaluate(node: Call, values: pl.Expr, value: pl.Expr) -> pl.Expr:
        def compute(values: pl.Series, value: pl.Series) -> pl.Series:
            one = lists.listed(value, np.ones(len(value), np.int64))
            frame = pl.DataFrame({"values": values, "one": one})
            order = ("values", "one") if behind else ("one", "values")
            return frame.select(pl.when(pl.col("values").is_not_null()).then(pl.concat_list(order))).to_series()

        return by_column(compute, [values, value], to_polars(node.type))

    return evaluate


def list_of(types: Sequence[DataType]) -> DataType | None:
    """The type of lists in which values meet one of which is a list; None where there is none."""
    common = common_type(types)
    return common if common is not None and common.is_list else None


_LIST_ONLY = row(LIST, result=_first)
_ELEMENT_RULE = row(LIST, WHOLE, result=_element)

FUNCTIONS = (
    Function("array", TypeRule("values of one type", _bind_array), _array),
    Function("size", row(LIST, result=INT), _size, ("cardinality", "array_size"), reads_once=True),
    Function(AT, _ELEMENT_RULE, lambda node, values, place: _at(node, values, place, lenient=False)),
    Function("get", _ELEMENT_RULE, lambda node, values, place: _at(node, values, place, lenient=True)),
    Function("element_at", _ELEMENT_RULE, lambda node, values, place: _element_at(node, values, place, lenient=False)),
    Function(
        "try_element_at", _ELEMENT_RULE, lambda node, values, place: _element_at(node, values, place, lenient=True)
    ),
    Function("slice", row(LIST, WHOLE, WHOLE, result=_first), _slice),
    _of_series("array_contains", _with_value(lambda _: BOOLEAN), _contains),
    _of_series("array_position", _with_value(lambda _: BIGINT), _position),
    _of_series("array_remove", _with_value(_same), _remove),
    _of_series("arrays_overlap", _two(lambda _: BOOLEAN), _overlap),
    _of_series("array_distinct", _LIST_ONLY, _distinct),
    _of_series("array_intersect", _two(_same), lambda left, right: _among(left, right, kept=True)),
    _of_series("array_union", _two(_same), _union),
    _of_series("array_except", _two(_same), lambda left, right: _among(left, right, kept=False)),
    Function("sort_array", row(LIST, CONDITION, optional=1, result=_first), _sorted(nulls_last=False)),
    Function("array_sort", _LIST_ONLY, _sorted(nulls_last=True)),
    Function("array_min", row(LIST, result=_element), _extreme(greatest=False)),
    Function("array_max", row(LIST, result=_element), _extreme(greatest=True)),
    Function("array_append", _with_value(_same), _appended(behind=True)),
    Function("array_prepend", _with_value(_same), _appended(behind=False)),
    Function("array_compact", _LIST_ONLY, lambda node, values: values.list.drop_nulls(), reads_once=True),
    Function("array_repeat", row(ANY, WHOLE, result=lambda types: array(types[0])), _repeated),
    Function("sequence", TypeRule("(integer, integer, [integer])", _bind_sequence), _sequence),
    _of_series("flatten", TypeRule("an array of arrays", _bind_flatten), _flatten),
    Function("array_join", row(_TEXTS, TEXT, TEXT, optional=1, result=STRING), _join),
    Function("split", TypeRule("(string, a regular expression, [integer])", _bind_split), _split),
)
INTERNAL = {AT}
