"""Runs the blocks of a page as a reader would, one after the other: in this process, in a folder of its own."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.docs.blocks import ROOT, Block

import millstream as ms
from millstream.shell.splitting import is_blank, statements

_PORT = "8787"  # which the docs name; another one is taken
_ENDS = re.compile(r"[ \t]+$", re.MULTILINE)
_STARTS_SPARK = re.compile(r"^millstream (run|shell|serve|demo)\b(?! http)")


def same(expected: str, given: str) -> bool:
    """Whether an output is as it should be: `...` stands for anything, and blanks at the ends of lines for nothing."""
    wanted, got = (_ENDS.sub("", text).strip() + "\n" for text in (expected, given))
    return doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS)


@contextlib.contextmanager
def in_process() -> Iterator[None]:
    """Databases that are opened without a word about engines run in this process: the answers are the same."""
    real = ms.connect

    def connect(path: Any = None, **options: Any) -> Any:
        if not str(path).startswith("http") and not options.keys() & {"engine", "spark", "master"}:
            options["engine"] = "inprocess"
        return real(path, **options)

    setattr(ms, "connect", connect)  # noqa: B010 - what it is declared as is more than what docs call
    try:
        yield
    finally:
        setattr(ms, "connect", real)  # noqa: B010


class Session:
    """What the blocks of a page share: a folder, a database, the names that Python blocks have set, services."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._db: ms.Database | None = None
        self._names: dict[str, Any] = {}
        self._services: list[subprocess.Popen[str]] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = str(free.getsockname()[1])

    @property
    def db(self) -> ms.Database:
        if self._db is None:
            self._db = ms.connect()
        return self._db

    def give(self, block: Block) -> str:
        """What a block gives."""
        if block.title is not None:
            (self._folder / block.title).write_text(block.text)
            return ""
        with contextlib.chdir(self._folder), contextlib.nullcontext() if block.on_spark else in_process():
            match block.language:
                case "sql":
                    return self._statements(block.text)
                case "python":
                    return self._python(block.text)
                case _:
                    return self._commands(block.text)

    def _statements(self, text: str) -> str:
        done, rest = statements(text)
        given = []
        for statement in [*done, *([] if is_blank(rest) else [rest])]:
            try:
                result = self.db.execute(statement)
            except ms.Error as error:
                given.append(str(error))
            else:
                given += [str(result)] if result.table is not None else []
        return "\n".join(given)

    def _python(self, text: str) -> str:
        known = self._names.get("db")
        is_closed = known is None or (hasattr(known, "life") and known.life.is_closing)
        if is_closed and "ms.connect(" not in text:
            self._names["db"] = self.db
        self._names["ms"] = ms
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text.replace(_PORT, self._port), "<block>", "exec"), self._names)
        return printed.getvalue()

    # Commands

    def _commands(self, text: str) -> str:
        """The block as it stands, with what the commands give in place of what follows them."""
        given = []
        for command in re.findall(r"^\$ (.*(?:\n> .*)*)$", text, re.MULTILINE):
            shown = command.partition("  # ")[0].rstrip()
            given += [f"$ {command}", self._command(shown).rstrip()]
        return "\n".join(part for part in given if part)

    def _command(self, command: str) -> str:
        command = command.replace("\n> ", "\n")
        command = _STARTS_SPARK.sub(r"\g<0> --in-process", command.replace(_PORT, self._port))
        here = Path(sys.executable).parent
        environment = {
            **os.environ,
            "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "COLUMNS": "120",
            "NO_COLOR": "1",
        }
        if command.startswith("millstream serve"):
            return self._serve(command, environment)
        done = subprocess.run(
            ["bash", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # in the order in which a reader sees them
            text=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return done.stdout.replace(self._port, _PORT)

    def _serve(self, command: str, environment: dict[str, str]) -> str:
        """A service goes on while the commands below it ask it."""
        options = f" --port {self._port}" if "--port" not in command else ""
        exactly = ["bash", "-c", f"exec {command.removesuffix('&').rstrip()}{options}"]
        with (self._folder / "service.log").open("w") as log:
            self._services.append(
                subprocess.Popen(exactly, stdout=log, stderr=subprocess.STDOUT, text=True, env=environment)
            )
        address = f"http://127.0.0.1:{self._port}/healthz"
        deadline = time.monotonic() + 120
        while self._services[-1].poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), urllib.request.urlopen(address) as answer:
                if answer.status == 200:
                    return ""
            time.sleep(0.05)
        raise AssertionError(f"no service: {(self._folder / 'service.log').read_text()}")

    def close(self) -> None:
        for service in self._services:
            service.send_signal(signal.SIGTERM)
            service.wait(60)
        opened = self._names.get("db")
        if opened is not None and opened is not self._db:
            opened.close()
        if self._db is not None:
            self._db.close()


def outputs(found: list[Block], folder: Path) -> Iterator[tuple[Block, str]]:
    """Each block that is run with what it gives; a session lasts until a block begins anew."""
    number, session = 0, Session(_made(folder / "0"))
    try:
        for block in found:
            if block.begins_anew:
                session.close()
                number += 1
                session = Session(_made(folder / str(number)))
            if block.reason is None:
                yield block, session.give(block)
    finally:
        session.close()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
