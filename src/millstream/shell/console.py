"""The shell on a terminal, with history, completion and colours, and without one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from millstream.shell.completing import NameCompleter, names_of
from millstream.shell.session import HEARD, WORDS, ShellSession
from millstream.shell.splitting import is_blank, statements, with_command


def converse(session: ShellSession, **surroundings: Any) -> None:
    """Read and answer until the user leaves; `surroundings` are the input and output where they are no terminal."""
    names = NameCompleter(lambda: names_of(session.db))
    prompt: PromptSession[str] = PromptSession(
        "millstream> ",
        history=_history(),
        completer=names,
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        multiline=Condition(lambda: not is_finished(prompt.default_buffer.text)),
        prompt_continuation="        ...> ",
        key_bindings=_bindings(),
        **surroundings,
    )
    while not session.is_over:
        try:
            text = prompt.prompt()
        except KeyboardInterrupt:
            continue  # what was being typed is left
        except EOFError:
            return
        session.finish(session.take(text))
        names.forget()


def is_finished(text: str) -> bool:
    """Whether Enter sends it: a command, or statements of which the last ends with a semicolon."""
    if text.lstrip().startswith("\\") or text.strip().lower() in WORDS or is_blank(text):
        return True
    rest = statements(text)[1]
    return is_blank(rest) or bool(with_command(rest, HEARD)[1])


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("escape", "enter")
    def send(event: KeyPressEvent) -> None:
        """Alt-Enter sends what is there, finished or not."""
        event.current_buffer.validate_and_handle()

    return bindings


def _history() -> History:
    """Of all sessions, where there is a place for it."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "millstream"
    try:
        home.mkdir(parents=True, exist_ok=True)
        (home / "history").touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(home / "history"))


def read_all(session: ShellSession, lines: TextIO) -> bool:
    """Read to the end, doing each statement when it is finished; whether something failed."""
    text = ""
    for line in lines:
        if is_blank(text) and line.lstrip().startswith("\\"):
            session.take(line)
            text = ""
        else:
            text = session.take(text + line)
        if session.is_over:
            return session.failures > 0
    session.finish(text)
    return session.failures > 0
