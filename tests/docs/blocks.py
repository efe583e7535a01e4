"""The code blocks of a page: what they are written in, what stands below them, and why some are not run.

```sql                      statements, run on the page's database; the rows that they give are their output
```python                   run with `ms` and the page's `db`; what is printed is the output
```console                  lines that begin with `$ ` are commands, what follows is their output
```sql title="app.cql"      a file for the commands below
```output                   what the block before it gives, `...` standing for anything
<!-- new database -->       blocks below begin anew; `new database on spark` where they need Spark
<!-- not run: grammar -->   the block below is not run; REASONS says which reasons there are
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
REASONS = {
    "grammar": "shows how something is written in general",
    "drawing": "is a picture made of letters",
    "listing": "shows files, fields or options, and does nothing",
    "equation": "is mathematics",
    "another system": "is said to Flink, Spark, ksqlDB, Materialize or DuckDB",
    "installs": "installs packages, or works on the checkout itself",
    "cluster": "needs a cluster, a broker or a path of yours",
    "forever": "does not end by itself",
}
RUN = ("sql", "python", "console")
_FENCE = re.compile(r'^(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\s*$')
_COMMENT = re.compile(r"^ *<!-- (?P<said>not run: (?P<reason>.+?)|new database(?P<spark> on spark)?) -->\s*$")


@dataclass(frozen=True)
class Block:
    """Lines `first` to `last` of a page, fences included; `output` are those of the output below it, without fences."""

    first: int
    last: int
    language: str
    title: str | None
    text: str
    reason: str | None
    begins_anew: bool
    on_spark: bool
    indent: str
    output: str | None = None
    output_last: int = 0


def pages() -> list[Path]:
    """All pages that people read, but for the history of changes."""
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "examples" / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]


def blocks(text: str) -> list[Block]:
    """The blocks of a page in order, each with its output."""
    found: list[Block] = []
    lines = text.splitlines()
    reason, anew, spark, at = None, False, False, 0
    while at < len(lines):
        if said := _COMMENT.match(lines[at]):
            reason = said["reason"]
            if reason is None:
                anew, spark = True, said["spark"] is not None
        elif fence := _FENCE.match(lines[at]):
            end = next(n for n in range(at + 1, len(lines)) if lines[n].strip() == "```")
            indent = fence["indent"]
            inside = "".join(f"{line.removeprefix(indent)}\n" for line in lines[at + 1 : end])
            if fence["language"] == "output" and found and found[-1].output is None:
                found[-1] = replace(found[-1], output=inside, output_last=end)
            else:
                language, title = fence["language"], fence["title"]
                found.append(Block(at, end, language, title, inside, reason, anew, spark, indent))
            reason, anew, at = None, False, end
        elif _is_indented(lines, at):
            end = at
            while end + 1 < len(lines) and (lines[end + 1].startswith("    ") or not lines[end + 1].strip()):
                end += 1
            found.append(Block(at, end, "", None, "\n".join(lines[at : end + 1]), reason, anew, spark, ""))
            reason, anew, at = None, False, end
        at += 1
    return found


def _is_indented(lines: list[str], at: int) -> bool:
    """Whether a block begins that is told by its indentation; not so the lines of a list's items."""
    if not lines[at].startswith("    ") or (at and lines[at - 1].strip() and not _COMMENT.match(lines[at - 1])):
        return False
    before = next((line for line in reversed(lines[:at]) if line.strip() and not line.startswith(" ")), "")
    return not re.match(r"([*+-]|\d+\.) ", before)
