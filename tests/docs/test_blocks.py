"""Every code block of README and docs runs, and gives what stands below it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.blocks import REASONS, ROOT, RUN, blocks, pages
from tests.docs.running import Session, outputs, same
from tests.docs.write import written

PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_give_what_stands_below_them(page: Path, tmp_path: Path) -> None:
    wrong = [
        f"{page.name}, line {block.first + 1}, gives\n{given}"
        for block, given in outputs([b for b in blocks(page.read_text()) if b.language in RUN], tmp_path)
        if not same(block.text if block.language == "console" else block.output or "", given)
    ]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_that_are_not_run_have_a_reason(page: Path) -> None:
    found = blocks(page.read_text())
    assert not [block.first + 1 for block in found if block.reason is None and block.language not in RUN]
    assert {block.reason for block in found} <= {None, *REASONS}


def test_the_program_of_the_readme_runs_twice(tmp_path: Path) -> None:
    (program,) = (block for block in blocks((ROOT / "README.md").read_text()) if 'ms.connect("market")' in block.text)
    for _ in range(2):
        session = Session(tmp_path)
        try:
            given = session.give(program)
        finally:
            session.close()
        assert same(program.output or "", given)


WRONG = """
```sql
SELECT 1 + 1 AS two
```

```output
3
```

```python
print("hello")
```
"""


def test_what_is_wrong_is_found_and_can_be_written(tmp_path: Path) -> None:
    given = [text.strip() for _, text in outputs(blocks(WRONG), tmp_path / "read")]
    assert given == ["two\n---\n  2\n(1 row)", "hello"]
    mended = written(WRONG, tmp_path / "written")
    assert [(block.output or "").strip() for block in blocks(mended)] == given
    assert written(mended, tmp_path / "again") == mended


def test_dots_stand_for_anything() -> None:
    assert same("a ... b\nc", "a 12.5 b  \nc\n")
    assert not same("a ... b", "a 12.5 c")
