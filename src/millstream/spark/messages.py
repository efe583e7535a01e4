"""What Spark's errors say, without the Java stack below them."""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")
_NOISE = re.compile(r"\s*SQLSTATE: \w+|^(\w+\.)+\w+(Exception|Error): ")
_RAISED = re.compile(r"[A-Za-z_.]*(Error|Exception): ")
_OURS = re.compile(r"millstream\.errors\.\w+: (.*)")


def condition(error: BaseException) -> str | None:
    """The name that Spark gives to what went wrong."""
    if isinstance(error, PySparkException) and error.getCondition():
        return error.getCondition()
    found = _CONDITION.search(_text(error))
    return found.group(1) if found else None


def said(error: BaseException) -> str:
    """The cause in one line. Python's, where a Python worker raised it."""
    text = _text(error)
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    caused = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    raised = [line for line in lines if "Traceback" in text and _RAISED.match(line)]
    chosen = (raised or caused or lines[:1] or [type(error).__name__])[-1]
    return _NOISE.sub("", _NOISE.sub("", chosen)).strip()


def _text(error: BaseException) -> str:
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString())
    return str(error)
