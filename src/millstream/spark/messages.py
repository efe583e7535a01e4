"""What Spark's errors say, without the Java stack below them."""

from __future__ import annotations

import re
import socket

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

# Whatever calls of Spark raise. Once the JVM is gone, that is what Python's sockets raise.
SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
_GONE = (Py4JNetworkError, ConnectionError)
_UNANSWERED = re.compile(r"An error occurred while calling \S+")  # and nothing of what Java said

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")
_NOISE = re.compile(r"\s*SQLSTATE: \w+|^(\w+\.)+\w+(Exception|Error): ")
_RAISED = re.compile(r"[A-Za-z_.]*(Error|Exception|Exit|Interrupt)(: |$)")
_OURS = re.compile(r"millstream\.errors\.\w+: (.*)")
_ABORTED = re.compile(r"^.*most recent failure: Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): ")
_FILE = re.compile(r"Encountered error while reading file (.+?)\.\s+(?:SQLSTATE|$)", re.MULTILINE)
_DIED = ("Python worker exited unexpectedly", "ExecutorLostFailure")
_SLOW = ("Python worker failed to connect back", "waiting for the Python worker to connect back")
_SAYS_NOTHING = re.compile(r"^([\w$]+\.)+[\w$]+(Exception|Error)$")  # a class without a message


def condition(error: BaseException) -> str | None:
    """The name that Spark gives to what went wrong."""
    if isinstance(error, PySparkException) and error.getCondition():
        return error.getCondition()
    found = _CONDITION.search(_text(error))
    return found.group(1) if found else None


def is_jvm_gone(error: BaseException) -> bool:
    """Whether nobody answers any more where Spark ran."""
    # Py4J hides what its socket raised, if that was in the middle of a call.
    unanswered = type(error) is Py4JError and _UNANSWERED.fullmatch(str(error)) is not None
    return isinstance(error, _GONE) or (unanswered and not is_jvm_listening())


def is_jvm_listening() -> bool:
    """Whether the Java process of this one takes calls."""
    if SparkContext._gateway is None:
        return False
    parameters = SparkContext._gateway.gateway_parameters
    try:
        socket.create_connection((parameters.address, parameters.port)).close()
    except OSError:
        return False
    return True


def has_worker_died(error: BaseException) -> bool:
    """Whether a process that ran Python code is gone, and did not say why."""
    return any(words in _text(error) for words in _DIED)


def was_worker_slow(error: BaseException) -> bool:
    """Whether a process for Python code took longer to start than Spark waits, which no setting of its changes."""
    return any(words in _text(error) for words in _SLOW)


def cause_of(error: BaseException) -> str:
    """The cause in one line. Python's, where a Python worker raised it."""
    if is_jvm_gone(error):
        return "the Java process that runs Spark is gone"
    text = _text(error)
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    if "Traceback (most recent call last)" in text:
        raised = [line.strip() for line in text.splitlines() if _RAISED.match(line.strip())]
        if raised:
            return raised[-1]
    if any(words in text for words in _SLOW):
        return "a Python worker did not start within the ten seconds that Spark waits: the machine has too much to do"
    if any(words in text for words in _DIED):
        return "a Python worker ended without saying why: its code exited or crashed, or it took too much memory"
    cause = _cause(text) or type(error).__name__
    file = _FILE.search(text)
    return cause if file is None or file.group(1) in cause else f"{file.group(1)}: {cause}"


def _cause(text: str) -> str | None:
    """The innermost cause that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _is_frame(line)]
    first = [_ABORTED.sub("", line.removeprefix(": ")) for line in lines if not line.startswith("An error occurred")]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    telling = [line for line in [*first[:1], *causes] if not _SAYS_NOTHING.match(line)]
    chosen = (telling or causes or first)[-1:]
    return _NOISE.sub("", _NOISE.sub("", chosen[0])).strip() if chosen else None


def _is_frame(line: str) -> bool:
    return line.lstrip().startswith(("at ", "... "))


def _text(error: BaseException) -> str:
    """All that Spark says, with the causes below."""
    try:
        if isinstance(error, Py4JJavaError):
            return str(error)
        # pyspark keeps beside the errors that it has translated what Java said of them.
        return f"{error}\n{getattr(error, '_stackTrace', None) or ''}"
    except _GONE:  # it is the JVM that knows the stack
        return type(error).__name__
