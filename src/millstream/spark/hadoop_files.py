"""The beginnings of files that only Spark can open: those of other file systems than this machine's, and packed ones.

Who asks wants to know which columns a file has, before any of its rows are read.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import IO, Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from millstream.errors import InputError
from millstream.spark.messages import cause_of
from millstream.spark.shapes import BadFile, of_zstd

_PIECE = 1 << 16  # bytes that are asked for at a time
_PARQUET = b"PAR1"
_ENDING = 8  # bytes behind a footer: its length and the mark
_GONE = "java.io.FileNotFoundException"


class HadoopFiles:
    """Opens files as Spark would with the same options."""

    def __init__(self, session: SparkSession, options: Mapping[str, str]) -> None:
        self._session, self._options = session, dict(options)
        self._configuration: Any = None

    def opened(self, path: str, name: str) -> IO[bytes]:
        """The bytes of a file, unpacked; `name` is what errors call it."""
        java, stream = self._jvm(), self._stream(path, name)
        if path.lower().endswith(".zst"):
            return of_zstd(io.BufferedReader(_Bytes(stream), _PIECE))
        codec = java.org.apache.hadoop.io.compress.CompressionCodecFactory(self._conf()).getCodec(self._path(path))
        if codec is None:
            return io.BufferedReader(_Bytes(stream), _PIECE)
        try:
            return io.BufferedReader(_Bytes(codec.createInputStream(stream)), _PIECE)
        except Py4JJavaError as error:
            raise BadFile(name, cause_of(error)) from None

    def matching(self, pattern: str) -> list[str]:
        """What has such a path."""
        return [str(found.getPath()) for found in self._system(pattern).globStatus(self._path(pattern)) or ()]

    def footer(self, path: str, name: str) -> IO[bytes]:
        """A Parquet file without its rows."""
        stream = self._stream(path, name)
        size = self._system(path).getFileStatus(self._path(path)).getLen()
        try:
            ending = _part(stream, max(size - _ENDING, 0), _ENDING)
            length = int.from_bytes(ending[:4], "little")
            if ending[4:] != _PARQUET or length + _ENDING > size:
                raise BadFile(name, "it is not a Parquet file")
            return io.BytesIO(_PARQUET + _part(stream, size - _ENDING - length, length) + ending)
        finally:
            stream.close()

    def _stream(self, path: str, name: str) -> Any:
        try:
            return self._system(path).open(self._path(path))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == _GONE:
                raise BadFile(name, "there is no such file any more") from None
            # Nothing is wrong with the file, as far as one knows: so it is not passed over.
            raise InputError(f"{name} cannot be opened", detail=cause_of(error)) from None

    def _system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._conf())

    def _path(self, path: str) -> Any:
        return self._jvm().org.apache.hadoop.fs.Path(path)

    def _conf(self) -> Any:
        if self._configuration is None:
            given = self._jvm().PythonUtils.toScalaMap(self._options)
            state = self._session._jsparkSession.sessionState()
            self._configuration = state.newHadoopConfWithOptions(given)
        return self._configuration

    def _jvm(self) -> Any:
        return self._session._jvm


def _part(stream: Any, start: int, length: int) -> bytes:
    stream.seek(start)
    return bytes(stream.readNBytes(length))


class _Bytes(io.RawIOBase):
    """A stream of Java's as Python reads one."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            found = bytes(self._stream.readNBytes(len(buffer)))
        except Py4JJavaError as error:
            raise OSError(cause_of(error)) from None
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
