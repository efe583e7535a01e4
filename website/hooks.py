"""What MkDocs asks for while it builds the site: the pages that are made of the code, style and scripts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent.parent))

from website.generated import ASSETS, PAGES


def on_files(files: Files, *, config: Any) -> Files:
    """Add what is not in docs/."""
    for name, made in {**PAGES, **ASSETS}.items():
        files.append(File.generated(config, name, content=made()))
    return files
