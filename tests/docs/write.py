"""Writes what blocks give below them: `python -m tests.docs.write docs/recipes.md`. Read it before you commit it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.docs.blocks import RUN, Block, blocks
from tests.docs.running import outputs, same


def written(text: str, folder: Path) -> str:
    """A page with the outputs of its blocks; those that are right stay as they are."""
    lines = text.splitlines()
    for block, given in reversed([*outputs([b for b in blocks(text) if b.language in RUN], folder)]):
        if block.language == "console":
            if not same(block.text, given):
                lines[block.first + 1 : block.last] = _indented(given, block)
            continue
        if same(block.output or "", given):
            continue
        shown = ["", *_indented(f"```output\n{given.rstrip()}\n```", block)] if given.strip() else []
        lines[block.last + 1 : max(block.output_last, block.last) + 1] = shown
    return "\n".join(lines) + "\n"


def _indented(text: str, block: Block) -> list[str]:
    return [f"{block.indent}{line}".rstrip() for line in text.rstrip().splitlines()]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(written(page.read_text(), Path(folder)))
