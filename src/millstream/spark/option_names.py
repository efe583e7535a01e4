"""Options of file formats that Spark does not know, and would pass over in silence."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from millstream.errors import BindError, did_you_mean

# Where Spark lists the options of a format; of the others (avro) it knows no list.
_LISTS = {
    "csv": "catalyst.csv.CSVOptions",
    "json": "catalyst.json.JSONOptions",
    "orc": "execution.datasources.orc.OrcOptions",
    "parquet": "execution.datasources.parquet.ParquetOptions",
    "text": "execution.datasources.text.TextOptions",
    "xml": "catalyst.xml.XmlOptions",
}
_OF_FILES = "execution.datasources.FileIndexOptions"
_OF_STREAMS = (
    *("maxFilesPerTrigger", "maxBytesPerTrigger", "maxFileAge", "latestFirst", "fileNameOnly", "cleanSource"),
    *("sourceArchiveDir", "maxCachedFiles", "discardCachedInputRatio", "ignoreCorruptFiles", "ignoreMissingFiles"),
)
_OF_WRITERS = ("maxRecordsPerFile",)


def check_source_names(session: SparkSession, owner: str, name: str, given: Iterable[str], ours: str) -> None:
    """Refuse what is no option of a source of files, where `ours` is the one that Spark need not know."""
    listed = _listed(session, name, _OF_FILES)
    _check(owner, name, given, listed and [*listed, *_OF_STREAMS, ours])


def check_sink_names(session: SparkSession, name: str, given: Iterable[str]) -> None:
    listed = _listed(session, name)
    _check("the sink", name, given, listed and [*listed, *_OF_WRITERS])


def _check(owner: str, name: str, given: Iterable[str], known: list[str]) -> None:
    names = {each.lower() for each in known}
    for option in given:
        # Those with a dot are Hadoop's, of which nobody has a list.
        if known and option.lower() not in {*names, "path"} and "." not in option:
            hint = did_you_mean(option, [*known, "path"])
            raise BindError(
                f'{owner}: {name} has no option "{option}"',
                hint=hint if hint is not None and hint.startswith("did") else f"it has {', '.join(sorted(known))}",
            )


def _listed(session: SparkSession, name: str, *more: str) -> list[str]:
    """What Spark lists for a format; nothing where this version of it has no such list."""
    jvm: Any = session.sparkContext._jvm
    if name not in _LISTS or jvm is None:
        return []
    found: list[str] = []
    for place in (_LISTS[name], *more):
        try:
            listing = reduce(getattr, place.split("."), jvm.org.apache.spark.sql)
            found += listing.getAllOptions().mkString(" ").split()
        except (Py4JError, TypeError):
            return []
    return found
