"""Options of file formats whose values Spark would refuse only when it reads: tried out over no files at all."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from millstream.errors import BindError
from millstream.spark.messages import SPARK_ERRORS, cause_of

_PLACES = ("path", "basepath")  # where there are files, and not how they are read
# Spark's own check of what a stream of files may be told; where it is moved to another package, `run` checks.
_STREAM_OPTIONS = "org.apache.spark.sql.execution.streaming.runtime.FileStreamOptions"

Trial = Callable[[Mapping[str, str]], str | None]  # what is wrong with some options


def check_values(
    session: SparkSession, owner: str, name: str, options: Mapping[str, str], schema: StructType | None, streaming: bool
) -> None:
    """Refuse values that the format `name` cannot take, and name the option."""
    chosen = {key: value for key, value in options.items() if key.lower() not in _PLACES}
    if not chosen:
        return
    with tempfile.TemporaryDirectory(prefix="millstream-") as nowhere:
        trials: list[Trial] = [_Reading(session, name, schema, Path(nowhere))]
        if streaming:
            trials.append(_Streaming(session))
        for trial in trials:
            wrong = trial(chosen)
            if wrong is not None:
                raise _refused(owner, name, trial, chosen, wrong)


def _refused(owner: str, name: str, trial: Trial, chosen: Mapping[str, str], wrong: str) -> BindError:
    """The option without which all is well, or else the first that is wrong by itself."""
    single: dict[str, Mapping[str, str]] = {key: {key: value} for key, value in chosen.items()}
    others = {key: {k: v for k, v in chosen.items() if k != key} for key in chosen}
    guilty = [key for key in chosen if trial(others[key]) is None] or [key for key in chosen if trial(single[key])]
    if not guilty:
        return BindError(f"{owner}: {name} cannot be read with these options", detail=wrong)
    (key, *_) = guilty
    return BindError(
        f"{owner}: the option {key} of {name} cannot be {chosen[key]!r}", detail=trial(single[key]) or wrong
    )


class _Reading:
    """Plans a read of an empty directory: no task runs."""

    def __init__(self, session: SparkSession, name: str, schema: StructType | None, nowhere: Path) -> None:
        self._session, self._name, self._schema, self._nowhere = session, name, schema, nowhere

    def __call__(self, options: Mapping[str, str]) -> str | None:
        reader = self._session.read.format(self._name).options(**options)
        if self._schema is not None:
            reader = reader.schema(self._schema)
        try:
            reader.load(self._nowhere.as_uri()).collect()
        except SPARK_ERRORS as error:
            return cause_of(error)
        return None


class _Streaming:
    """Says the options to what Spark's file source reads them with."""

    def __init__(self, session: SparkSession) -> None:
        jvm = session.sparkContext._jvm
        self._parse = None if jvm is None else getattr(jvm, _STREAM_OPTIONS)
        self._jvm = jvm

    def __call__(self, options: Mapping[str, str]) -> str | None:
        if self._jvm is None or not isinstance(self._parse, JavaClass):
            return None
        try:
            self._parse(self._jvm.PythonUtils.toScalaMap(dict(options)))
        except SPARK_ERRORS as error:
            return cause_of(error)
        return None
