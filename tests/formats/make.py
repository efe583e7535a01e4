"""Makes the directory that is kept for the format of the code as it is: `python -m tests.formats.make 3`.

To be run once for a version of the format, before the code that writes the next one is changed.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.formats import contents

import millstream as ms

HERE = Path(__file__).parent
FIRST, REST = range(1, 21), range(21, 41)


def make(version: str) -> Path:
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) / "db"
        with ms.connect(directory, engine="inprocess") as db:
            contents.define(db)
            db.create_sink("out", "sums", lambda number, changes: None)
            contents.feed(db, FIRST)
            expected = contents.answers(db)
        (HERE / f"format_{version}.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
        archive = HERE / f"format_{version}.tar.gz"
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(directory, arcname="db")
        return archive


if __name__ == "__main__":
    make(*sys.argv[1:])
