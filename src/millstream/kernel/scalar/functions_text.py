"""Functions of strings. Positions and lengths count characters (code points), from 1."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from millstream.kernel.lists import each
from millstream.kernel.scalar.expressions import Call, Expression, Literal
from millstream.kernel.scalar.functions_lists import concatenated, list_of
from millstream.kernel.scalar.growth import bytes_of, grown
from millstream.kernel.scalar.outcome import Failure, Outcome, by_column
from millstream.kernel.scalar.signature import (
    ANY,
    TEXT,
    WHOLE,
    Evaluation,
    Function,
    Signature,
    Slot,
    TypeRule,
    many,
    row,
)
from millstream.types import BINARY, BOOLEAN, INT, STRING, DataType

ROW_KEY = "row_key"  # of COUNT(DISTINCT a, b)
_BYTES_OR_TEXT = Slot("string or binary", lambda kind: BINARY if kind == BINARY else TEXT.accept(kind))

_TEXT_OR_LIST = Slot(
    "string or array", lambda kind: kind if kind.is_list else None if kind == BINARY else TEXT.accept(kind)
)


def _characters(text: pl.Expr) -> pl.Expr:
    return text.str.len_chars().cast(pl.Int64)


def _length(node: Call, value: pl.Expr) -> pl.Expr:
    size = value.bin.size() if node.arguments[0].type == BINARY else value.str.len_chars()
    return size.cast(pl.Int32)


def _trim(name: str) -> Function:
    """TRIM(text), or with the characters to remove first: TRIM(characters, text). Without them, blanks only."""

    def evaluate(node: Call, first: pl.Expr, text: pl.Expr | None = None) -> pl.Expr:
        characters = pl.lit(" ") if text is None else first
        text = first if text is None else text
        strip = {
            "trim": text.str.strip_chars,
            "ltrim": text.str.strip_chars_start,
            "rtrim": text.str.strip_chars_end,
        }[name]
        # Polars takes no characters (NULL) for white space.
        return pl.when(characters.is_not_null()).then(strip(characters))

    return Function(name, row(TEXT, TEXT, optional=1, result=STRING), evaluate)


def _btrim(node: Call, text: pl.Expr, characters: pl.Expr | None = None) -> pl.Expr:
    """BTRIM(text, characters): unlike TRIM it has the text first, as in Spark."""
    removed = pl.lit(" ") if characters is None else characters
    return pl.when(removed.is_not_null()).then(text.str.strip_chars(removed))


def _substring(node: Call, text: pl.Expr, position: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    """From a position (from the end where negative; 0 means 1), for a number of characters or to the end."""
    place = position.cast(pl.Int64)
    size = _characters(text)
    start = pl.when(place > 0).then(place - 1).when(place < 0).then(size + place).otherwise(place)
    # The end counts from the wanted start, even where that lies before the text.
    end = size if length is None else start + length.cast(pl.Int64)
    return _slice(text, start, end)


def _slice(text: pl.Expr, start: pl.Expr, end: pl.Expr) -> pl.Expr:
    start = start.clip(0)
    cut = text.str.slice(start.fill_null(0), (end - start).clip(0).fill_null(0))
    return pl.when(start.is_not_null() & end.is_not_null()).then(cut)


def _left(node: Call, text: pl.Expr, count: pl.Expr) -> pl.Expr:
    return _slice(text, pl.lit(0, dtype=pl.Int64), count.cast(pl.Int64))


def _right(node: Call, text: pl.Expr, count: pl.Expr) -> pl.Expr:
    size = _characters(text)
    return _slice(text, size - count.cast(pl.Int64).clip(0), size)


def _bind_concat(arguments: Sequence[Expression]) -> Signature | None:
    types = [argument.type for argument in arguments]
    if types and all(kind == BINARY for kind in types):
        return Signature(tuple(types), BINARY)
    if any(kind.is_list for kind in types):
        common = list_of(types)
        return None if common is None else Signature((common,) * len(types), common)
    if any(TEXT.accept(kind) is None for kind in types):
        return None
    return Signature((STRING,) * len(types), STRING)


def _concat(node: Call, *values: pl.Expr) -> pl.Expr | Outcome:
    if not values:
        return pl.lit("", dtype=pl.String)
    if node.type.is_list:
        return concatenated(node, *values)
    return grown(values, node.type, _joined_bytes if node.type == BINARY else _joined, _all_bytes)


def _joined(*values: pl.Expr) -> pl.Expr:
    return pl.concat_str(values, ignore_nulls=False)


def _joined_bytes(*values: pl.Expr) -> pl.Expr:
    joined = values[0]
    for value in values[1:]:
        joined = joined + value
    return joined


def _all_bytes(*values: pl.Expr) -> pl.Expr:
    return pl.sum_horizontal(map(bytes_of, values))


def _row_key(node: Call, *values: pl.Expr) -> pl.Expr:
    """A text that is the same for equal rows of values, none of which is NULL, and for no others."""
    texts = [_key_part(value, part.type) for value, part in zip(values, node.arguments, strict=True)]
    return pl.concat_str([part for text in texts for part in (text.str.len_bytes(), pl.lit(":"), text)])


def _key_part(value: pl.Expr, kind: DataType) -> pl.Expr:
    if (element := kind.element) is not None:
        return by_column(lambda column: _list_key(column, element), [value], pl.String())
    if kind == BINARY:
        return value.bin.encode("hex")
    if kind.is_fractional:
        value = value + 0.0  # of which there is one zero only
    return (value if kind.is_decimal else value.to_physical()).cast(pl.String)


def _list_key(column: pl.Series, element: DataType) -> pl.Series:
    def part(value: pl.Expr) -> pl.Expr:
        text = _key_part(value, element)
        return pl.concat_str(text.str.len_bytes(), pl.lit(":"), text).fill_null("-")

    return each(column, part, pl.String()).list.join("")


def _concat_ws(node: Call, separator: pl.Expr, *values: pl.Expr) -> pl.Expr | Outcome:
    """The values that are not NULL, with the separator between them."""
    if not values:
        return pl.when(separator.is_not_null()).then(pl.lit(""))
    constant = node.arguments[0]

    def joined(separator: pl.Expr, *values: pl.Expr) -> pl.Expr:
        if isinstance(constant, Literal) and isinstance(constant.value, str):
            return pl.concat_str(values, separator=constant.value, ignore_nulls=True)
        return pl.concat_list(values).list.drop_nulls().list.join(separator)

    def size(separator: pl.Expr, *values: pl.Expr) -> pl.Expr:
        return bytes_of(separator) * (len(values) - 1) + _all_bytes(*values)

    return grown([separator, *values], STRING, joined, size, known=[separator])


def _replace(node: Call, text: pl.Expr, search: pl.Expr, replacement: pl.Expr | None = None) -> pl.Expr | Outcome:
    """All occurrences replaced, or removed without a replacement; an empty search changes nothing."""
    constants = [a.value for a in node.arguments[1:] if isinstance(a, Literal) and isinstance(a.value, str)]
    are_constant = len(constants) == len(node.arguments) - 1 and bool(constants[0])
    if are_constant and len((*constants, "")[1].encode()) <= len(constants[0].encode()):
        return text.str.replace_all(constants[0], (*constants, "")[1], literal=True)

    def replaced(text: pl.Expr, search: pl.Expr, put: pl.Expr) -> pl.Expr:
        if are_constant:
            return text.str.replace_all(constants[0], constants[1], literal=True)
        unchanged = ((search == "") | (text == "")) & search.is_not_null() & put.is_not_null()
        return pl.when(unchanged).then(text).otherwise(text.str.split(search).list.join(put))

    def longer(count: pl.Expr, text: pl.Expr, search: pl.Expr, put: pl.Expr) -> pl.Expr:
        return bytes_of(text) + count * (bytes_of(put) - bytes_of(search)).clip(0)

    def size(text: pl.Expr, search: pl.Expr, put: pl.Expr) -> pl.Expr:
        return longer(bytes_of(text) // bytes_of(search).clip(1), text, search, put)

    def closer(text: pl.Expr, search: pl.Expr, put: pl.Expr) -> pl.Expr:
        occurrences = text.str.split(search).list.len().cast(pl.Int64) - 1
        return longer(pl.when(search == "").then(0).otherwise(occurrences), text, search, put)

    put = pl.lit("") if replacement is None else replacement
    return grown([text, search, put], STRING, replaced, size, closer)


def _position_of(search: pl.Expr, text: pl.Expr) -> pl.Expr:
    """The first position of a text in another, 0 where it is not there; Polars would count bytes."""
    before = text.str.split(search).list.first().str.len_chars().cast(pl.Int32)
    return (
        pl.when(search == "")
        .then(pl.when(text.is_not_null()).then(1))
        .when(text.str.contains(search, literal=True))
        .then(before + 1)
        .when(text.is_not_null() & search.is_not_null())
        .then(0)
    ).cast(pl.Int32)


def _locate(node: Call, search: pl.Expr, text: pl.Expr, start: pl.Expr | None = None) -> pl.Expr:
    """LOCATE(search, text, start): with Spark's (and Hive's) own answers where the start is NULL or below 1."""
    if start is None:
        return _position_of(search, text)
    from_start = start.cast(pl.Int64)
    skipped = (from_start - 1).clip(0).fill_null(0)
    found = _position_of(search, text.str.slice(skipped))
    shifted = pl.when((found > 0) & (search != "")).then(found + skipped.cast(pl.Int32)).otherwise(found)
    known = search.is_not_null() & text.is_not_null()
    below = pl.when(known).then(0).cast(pl.Int32)
    return pl.when(start.is_null()).then(0).when(from_start < 1).then(below).otherwise(shifted).cast(pl.Int32)


def _repeated(text: pl.Expr, count: pl.Expr) -> pl.Expr:
    known = text.is_not_null() & count.is_not_null()
    times = count.clip(0).fill_null(0)
    return pl.when(known).then(text.repeat_by(times).list.join(""))


def _pad(*, left: bool) -> Evaluation:
    """LPAD or RPAD: brought to a length with blanks or a given text, or cut to it."""

    def padded(text: pl.Expr, length: pl.Expr, pad: pl.Expr) -> pl.Expr:
        wanted, pad_size = length.cast(pl.Int64).clip(0), _characters(pad)
        missing = (wanted - _characters(text)).clip(0)
        filling = _repeated(pad, (missing + pad_size - 1) // pad_size).str.slice(0, missing.fill_null(0))
        longer = pl.concat_str(filling, text) if left else pl.concat_str(text, filling)
        cut = text.str.slice(0, wanted.fill_null(0))
        known = length.is_not_null() & pad.is_not_null()
        return pl.when(known).then(pl.when((missing > 0) & (pad != "")).then(longer).otherwise(cut))

    def size(text: pl.Expr, length: pl.Expr, pad: pl.Expr) -> pl.Expr:
        missing, pad_size = (length.cast(pl.Int64) - _characters(text)).clip(0), _characters(pad).clip(1)
        rest = bytes_of(pad.str.slice(0, (missing % pad_size).fill_null(0)))
        return bytes_of(text) + missing // pad_size * bytes_of(pad) + rest

    def evaluate(node: Call, text: pl.Expr, length: pl.Expr, pad: pl.Expr | None = None) -> Outcome:
        return grown([text, length, pl.lit(" ") if pad is None else pad], STRING, padded, size)

    return evaluate


def _repeat(node: Call, text: pl.Expr, count: pl.Expr) -> Outcome:
    def size(text: pl.Expr, count: pl.Expr) -> pl.Expr:
        return bytes_of(text) * count.cast(pl.Int64).clip(0)

    return grown([text, count], STRING, _repeated, size)


def _split_part(node: Call, text: pl.Expr, delimiter: pl.Expr, index: pl.Expr) -> Outcome:
    """A part by its number, counted from the end where negative; parts that are not there are empty."""
    parts = text.str.split(delimiter)
    place = pl.when(index > 0).then(index - 1).otherwise(index)
    part = parts.list.get(place.fill_null(0), null_on_oob=True).fill_null("")
    whole = pl.when(index.abs() == 1).then(text).otherwise(pl.lit(""))
    known = text.is_not_null() & delimiter.is_not_null() & index.is_not_null()
    value = pl.when(known).then(pl.when(delimiter == "").then(whole).otherwise(part))
    failure = Failure(lambda _: known & (index == 0), "parts are counted from 1, or from -1 backwards")
    return Outcome(value, (failure,))


def _split_index(node: Call, text: pl.Expr, delimiter: pl.Expr, index: pl.Expr) -> pl.Expr:
    """Flink's: a part by its number, counted from 0; NULL where it is not there."""
    known = delimiter.is_not_null() & (index >= 0)
    part = text.str.split(delimiter).list.get(index.fill_null(0).clip(0), null_on_oob=True)
    whole = pl.when(index == 0).then(text)
    return pl.when(known).then(pl.when(delimiter == "").then(whole).otherwise(part))


def _initcap(node: Call, text: pl.Expr) -> pl.Expr:
    word = pl.element().str.slice(0, 1).str.to_uppercase() + pl.element().str.slice(1).str.to_lowercase()
    return text.str.split(" ").list.eval(word).list.join(" ")


def _reverse(node: Call, value: pl.Expr) -> pl.Expr:
    return value.list.reverse() if node.type.is_list else value.str.reverse()


def _ascii(node: Call, text: pl.Expr) -> pl.Expr:
    """The code point of the first character, put together from its UTF-8 bytes; 0 for an empty text."""
    code = text.str.slice(0, 1).str.encode("hex")
    size = code.str.len_chars() // 2

    def byte(index: int) -> pl.Expr:
        return code.str.slice(2 * index, 2).str.to_integer(base=16, strict=False).cast(pl.Int32)

    value = (
        pl.when(size == 1)
        .then(byte(0))
        .when(size == 2)
        .then((byte(0) - 0xC0) * 64 + byte(1) - 0x80)
        .when(size == 3)
        .then((byte(0) - 0xE0) * 4096 + (byte(1) - 0x80) * 64 + byte(2) - 0x80)
        .when(size == 4)
        .then((byte(0) - 0xF0) * 262_144 + (byte(1) - 0x80) * 4096 + (byte(2) - 0x80) * 64 + byte(3) - 0x80)
    )
    return pl.when(text == "").then(0).otherwise(value).cast(pl.Int32)


def _text(name: str, method: str, *aliases: str) -> Function:
    """A function of one string that Polars has under another name."""
    return Function(
        name,
        row(TEXT, result=STRING),
        lambda node, text: getattr(text.str, method)(),
        aliases,
        reads_once=True,
    )


_PADDED = row(TEXT, WHOLE, TEXT, optional=1, result=STRING)
_TWO_TEXTS = row(TEXT, TEXT, result=BOOLEAN)


FUNCTIONS = (
    Function(
        "length",
        row(_BYTES_OR_TEXT, result=INT),
        _length,
        ("char_length", "character_length", "len"),
        reads_once=True,
    ),
    _text("upper", "to_uppercase", "ucase"),
    _text("lower", "to_lowercase", "lcase"),
    _trim("trim"),
    _trim("ltrim"),
    Function("btrim", row(TEXT, TEXT, optional=1, result=STRING), _btrim),
    _trim("rtrim"),
    Function("substring", row(TEXT, WHOLE, WHOLE, optional=1, result=STRING), _substring, aliases=("substr",)),
    Function("left", row(TEXT, WHOLE, result=STRING), _left),
    Function("right", row(TEXT, WHOLE, result=STRING), _right),
    Function("concat", TypeRule("(string, ...)", _bind_concat), _concat),
    Function("||", TypeRule("(string, string)", _bind_concat), _concat),
    Function(ROW_KEY, many(ANY, result=STRING), _row_key),
    Function("concat_ws", many(TEXT, first=TEXT, result=STRING), _concat_ws),
    Function("replace", row(TEXT, TEXT, TEXT, optional=1, result=STRING), _replace),
    Function("contains", _TWO_TEXTS, lambda node, a, b: a.str.contains(b, literal=True), reads_once=True),
    Function("startswith", _TWO_TEXTS, lambda node, a, b: a.str.starts_with(b), reads_once=True),
    Function("endswith", _TWO_TEXTS, lambda node, a, b: a.str.ends_with(b), reads_once=True),
    Function("instr", row(TEXT, TEXT, result=INT), lambda node, text, search: _position_of(search, text)),
    Function("locate", row(TEXT, TEXT, WHOLE, optional=1, result=INT), _locate, aliases=("position",)),
    Function("reverse", row(_TEXT_OR_LIST, result=lambda types: types[0]), _reverse, reads_once=True),
    Function("repeat", row(TEXT, WHOLE, result=STRING), _repeat),
    Function("lpad", _PADDED, _pad(left=True)),
    Function("rpad", _PADDED, _pad(left=False)),
    Function("split_index", row(TEXT, TEXT, WHOLE, result=STRING), _split_index),
    Function("split_part", row(TEXT, TEXT, WHOLE, result=STRING), _split_part),
    Function("initcap", row(TEXT, result=STRING), _initcap, reads_once=True),
    Function("ascii", row(TEXT, result=INT), _ascii),
)
