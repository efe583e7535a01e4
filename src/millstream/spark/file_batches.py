"""The files of a batch: each is looked at first, then those that are alike are read together.

A file that cannot be read is named with the cause. It stops its source, or is passed over and kept in the table of
such files (`on_bad_file`); nothing of it is taken then. Arrival order is that of the paths, however files are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

import polars as pl
from pyspark.sql import SparkSession

from millstream.errors import InputError
from millstream.ingest.landed import FILE_COLUMNS, Landed, LandedBatch
from millstream.plan.definitions import StreamDefinition
from millstream.spark.formats import ON_BAD_FILE, SparkFormat
from millstream.spark.landing import Landing, Piece, land
from millstream.spark.malformed import Grammar
from millstream.spark.messages import SPARK_ERRORS, cause_of, is_jvm_gone
from millstream.spark.parquet_files import footer_of, landed_file
from millstream.spark.shapes import BadFile, FileShape, directories_of, local_name
from millstream.types import to_polars

_SINGLY = 8  # files that are not worth threads
_FILE = re.compile(
    r"(?:while reading file|Path does not exist:|File does not exist:|footer for file:) ?(\S.*?)\.?(?:\s|$)"
)


@dataclass
class _Found:
    """A file that can be read: with what it has of the columns, and how it lies there, where that is all there is to
    know of it."""

    path: str
    shape: FileShape
    landed: Landed | None = None


@dataclass
class _Read:
    """What became of the files so far."""

    pieces: list[Piece] = field(default_factory=list)
    bad: list[BadFile] = field(default_factory=list)


class FileBatches:
    """Reads batches of one source's files."""

    def __init__(self, form: SparkFormat, owner: str, landing: Landing) -> None:
        self._format, self._owner, self._landing = form, owner, landing
        self._skips = form.given.get(ON_BAD_FILE) == "skip"

    def landed(
        self, session: SparkSession, paths: Sequence[str], footers: StreamDefinition | None = None
    ) -> LandedBatch:
        """The rows of files. Parquet files of a stream are left where they are if their footers say enough."""
        read = _Read()
        found = self._inspected(sorted(paths, key=_key), footers, read)
        for shape in dict.fromkeys(file.shape for file in found if file.landed is None):
            alike = [file.path for file in found if file.landed is None and file.shape == shape]
            self._read(session, alike, shape, read)
        bad = {error.path for error in read.bad}
        taken = [file for file in found if _key(file.path) not in bad]
        parts = [((_key(f.path), 0, 0), f.landed) for f in taken if f.landed is not None and f.landed.rows]
        parts += [(_order(p), _landed(p)) for p in read.pieces if not p.malformed]
        return LandedBatch(
            tuple(part for _, part in sorted(parts, key=lambda part: part[0])),
            tuple(_landed(piece) for piece in sorted(read.pieces, key=_order) if piece.malformed),
            self._reported(read.bad),
            self._drift(taken, read.pieces),
        )

    def _inspected(self, paths: Sequence[str], footers: StreamDefinition | None, read: _Read) -> list[_Found]:
        look: Callable[[str], _Found | BadFile] = lambda path: self._look(path, footers)  # noqa: E731
        if len(paths) < _SINGLY:
            looked: Iterable[_Found | BadFile] = map(look, paths)
        else:
            with ThreadPoolExecutor(_SINGLY) as pool:
                looked = list(pool.map(look, paths))
        found = []
        for file in looked:
            if isinstance(file, BadFile):
                self._refuse(file, read)
            else:
                found.append(file)
        return found

    def _look(self, path: str, footers: StreamDefinition | None) -> _Found | BadFile:
        name = local_name(path)
        try:
            if footers is None or self._format.name != "parquet" or name is None:
                return _Found(path, self._format.shape_of(path))
            footer = footer_of(name)
            schema = footer.schema.to_arrow_schema()
            shape = self._format.inspection.of_schema(name, schema, directories_of(path))
            return _Found(path, shape, landed_file(name, footer, footers))
        except BadFile as error:
            return error

    def _read(self, session: SparkSession, paths: list[str], shape: FileShape, read: _Read) -> None:
        """Land files that are alike. Where that fails on one of them, it is found by halves."""
        try:
            frame, landing = self._format.rows_of(session, paths, shape), self._landing_of(shape)
            pieces = land(frame, landing)
            read.pieces += self._without_halves(session, pieces, paths, shape, landing)
        except SPARK_ERRORS as error:
            guilty = None if is_jvm_gone(error) else self._guilty(error, paths)
            if guilty is None:
                raise
            if len(paths) == 1 or not self._skips:
                self._refuse(BadFile(guilty, _cause(error, guilty)), read)
            else:
                self._read(session, paths[: len(paths) // 2], shape, read)
                self._read(session, paths[len(paths) // 2 :], shape, read)

    def _without_halves(
        self, session: SparkSession, pieces: list[Piece], paths: Sequence[str], shape: FileShape, landing: Landing
    ) -> list[Piece]:
        """The pieces, where files that write halves of characters are read more closely."""
        again = dict.fromkeys(piece.path for piece in pieces if piece.halves)
        if not again or landing.grammar is None:
            return pieces
        kept = [piece for piece in pieces if piece.path not in again]
        landing.store.sweep([piece.name for piece in pieces], [piece.name for piece in kept])
        closer = replace(landing, grammar=replace(landing.grammar, marked=True))
        names = landing.grammar.names(landing.columns)
        for shown in again:
            path = next(path for path in paths if _key(path) == _key(unquote(shown)))
            kept += land(self._format.marked_rows(session, path, shape, shown, names), closer)
        return kept

    def _guilty(self, error: BaseException, paths: Sequence[str]) -> str | None:
        """The file that an error of Spark's is about, None where it is about something else."""
        about = _FILE.search(str(error))
        if about is None:
            return None
        said_file = about.group(1)
        named = [_key(path) for path in paths if _key(path) in (_key(said_file), _key(unquote(said_file)))]
        return named[0] if named else _key(said_file)

    def _refuse(self, bad: BadFile, read: _Read) -> None:
        if self._skips:
            read.bad.append(bad)
            return
        kind = self._owner.partition(" ")[0]
        raise InputError(
            f"{self._owner}: {bad.path} cannot be read",
            detail=bad.reason,
            hint="put the file, or its header alone, there again, and go on; to pass over such files, create the "
            f"{kind} with OPTIONS ({ON_BAD_FILE} 'skip')",
        )

    def _landing_of(self, shape: FileShape) -> Landing:
        form = self._format
        if not form.is_parsed:
            return self._landing
        width = len(form.columns) - len(shape.partition_columns) if shape.width is None else shape.width
        places = shape.found if shape.width is not None or form.name == "json" else None
        grammar = Grammar(form.name, form.given, width, places)
        return replace(self._landing, grammar=grammar, decoded=form.is_decoded(shape))

    def _reported(self, bad: Sequence[BadFile]) -> tuple[Landed, ...]:
        """The rows of the table of files that were passed over."""
        if not bad:
            return ()
        values = [[error.path for error in bad], [error.reason for error in bad]]
        columns = zip(FILE_COLUMNS, values, strict=True)
        rows = pl.DataFrame([pl.Series(f.name, texts, to_polars(f.type)) for f, texts in columns])
        with self._landing.store.file("landing") as writer:
            return (Landed("segment", writer.write(rows), rows.height),)

    def _drift(self, taken: Sequence[_Found], pieces: Sequence[Piece]) -> dict[str, int]:
        """Of how many files which column was missing or extra. JSON has no list of columns: there one is missing that
        is NULL in all rows of a file."""
        counts: dict[str, int] = {}
        columns = self._format.columns
        unseen: dict[str, set[int]] = {}
        for piece in pieces if self._format.name == "json" else ():
            if not piece.malformed:
                nulls = {index for index, null in enumerate(piece.nulls) if null}
                unseen[piece.path] = unseen.get(piece.path, nulls) & nulls
        missing = [columns[index].name for file in taken for index in file.shape.missing]
        missing += [columns[index].name for nulls in unseen.values() for index in sorted(nulls)]
        for name in missing:
            counts[f"missing {name}"] = counts.get(f"missing {name}", 0) + 1
        for name in [name for file in taken for name in file.shape.extra]:
            counts[f"extra {name}"] = counts.get(f"extra {name}", 0) + 1
        return counts


def landed_rows(pieces: Sequence[Piece]) -> LandedBatch:
    """A batch of rows that came from no files."""
    good = tuple(_landed(piece) for piece in pieces if not piece.malformed)
    return LandedBatch(good, tuple(_landed(piece) for piece in pieces if piece.malformed))


def _key(path: str) -> str:
    return local_name(path) or path


def _order(piece: Piece) -> tuple[str, int, int]:
    return _key(unquote(piece.path)), piece.block, piece.number


def _landed(piece: Piece) -> Landed:
    return Landed("segment", piece.name, piece.rows, piece.greatest)


def _cause(error: BaseException, file: str) -> str:
    """What Spark says of a file, without its name."""
    text = cause_of(error)
    before, colon, after = text.partition(": ")
    return after if colon and file in unquote(before) else text
