"""The page of the command line, from what each command says with --help."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from millstream.cli import app

_HEAD = """# Command line

`millstream COMMAND --help` says the same. [Exit codes](service.md#exit-codes) and [the shell](service.md#the-shell) are
explained on the service's page.
"""


def commands() -> list[tuple[str, ...]]:
    """All commands, by the words that call them."""
    found: list[tuple[str, ...]] = []
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inside = getattr(command, "commands", None)
        found += [(name,)] if inside is None else [(name, other) for other in inside]
    return found


def command_page() -> str:
    return "\n".join([_HEAD, *(_described(command) for command in commands())])


def _described(command: tuple[str, ...]) -> str:
    given = CliRunner().invoke(app, [*command, "--help"], terminal_width=100, prog_name="millstream")
    return f"## millstream {' '.join(command)}\n\n```output\n{given.output.rstrip()}\n```\n"
