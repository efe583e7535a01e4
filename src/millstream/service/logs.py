"""What `millstream serve` logs: lines of text, or of JSON for programs, to standard error.

{"time": "2026-01-31T10:00:00.123456Z", "level": "warning", "logger": "millstream.inspection.epochs",
 "message": "slow epoch 41: ...", "request_id": "6f1c...", "epoch": 41, "total_ms": 12003.1, ...}
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

from millstream.errors import InputError
from millstream.service.request_ids import request_id
from millstream.wire.values import json_value

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said = {"time": _instant(record), "level": record.levelname.lower(), "logger": record.name}
        said["message"] = record.getMessage()
        if name := request_id():
            said["request_id"] = name
        data = getattr(record, "data", None)
        if isinstance(data, dict):
            said |= {str(key): json_value(value) for key, value in data.items() if key not in said}
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False)


class _Lines(logging.Formatter):
    """A line each: what would begin another one, or move a terminal's cursor, is escaped. Exceptions have their own."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if not text.isprintable():
            text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
        name = request_id()
        line = f"{_instant(record)} {record.levelname} {record.name}: {text}{f' [{name}]' if name else ''}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Output(logging.Handler):
    """Writes to a stream, or to what standard error is just then."""

    def __init__(self, out: TextIO | None) -> None:
        super().__init__()
        self._out = out

    def emit(self, record: logging.LogRecord) -> None:
        try:
            out = self._out or sys.stderr
            out.write(f"{self.format(record)}\n")
            out.flush()
        except Exception:  # of a full disk, say: what is logged must not end what it is about
            self.handleError(record)


def _instant(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def log_to(form: str, level: str, out: TextIO | None = None) -> logging.Handler:
    """Have all that this process logs written; of other libraries, what is a warning or worse."""
    for what, given, known in (("format", form, FORMATS), ("level", level, LEVELS)):
        if given not in known:
            raise InputError(f"a log has no {what} {given!r}", hint=f"it is one of {', '.join(known)}")
    handler, root = _Output(out), logging.getLogger()
    handler.setFormatter(_JsonLines() if form == "json" else _Lines())
    for before in [each for each in root.handlers if isinstance(each, _Output)]:
        root.removeHandler(before)  # a process has one log, whatever commands it runs
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("millstream").setLevel(level.upper())
    return handler
