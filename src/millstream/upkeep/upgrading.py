"""`ms.upgrade(directory)`: a database in the present format.

Every version opens the formats of those before it. What it does not rewrite by and by is rewritten here, so that a
directory has nothing of an earlier format any more that says what counts: manifest, catalog, users' code, query tables.
Segments and history are the same in all formats.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from millstream.catalog.user_code import as_written_now
from millstream.errors import StateError
from millstream.kernel.distribution import HASH
from millstream.opening import connect
from millstream.opening.databases import pickler
from millstream.state.files import format_of
from millstream.state.layout import MANIFESTS, has_manifest
from millstream.state.manifest import FORMAT, Layout, Manifests


@dataclass(frozen=True)
class UpgradeReport:
    """The format that a directory had, and the one that it has."""

    directory: Path
    before: int
    after: int

    def __str__(self) -> str:
        if self.before == self.after:
            return f"{self.directory} has format {self.after}, which is the present one: nothing was changed"
        return f"{self.directory} had format {self.before}, and has format {self.after} now"


def upgrade(path: str | Path) -> UpgradeReport:
    """Have a database's directory, which nobody else has open, in the format of this version."""
    directory = Path(path)
    if not has_manifest(directory):
        raise StateError(f"there is no database in {directory}", hint="name a database's directory")
    before = _format(directory)
    if before == FORMAT:
        return UpgradeReport(directory, before, FORMAT)
    with connect(directory, engine="inprocess") as database:
        engine, pack = database.engine, pickler()
        with engine.lock:
            code = ("function", "aggregate", "window")
            entries = tuple(
                as_written_now(entry, pack) if entry["kind"] in code else entry for entry in engine.snapshot.catalog
            )
            engine.commits.declare(entries)
    return UpgradeReport(directory, before, _format(directory))


def _format(directory: Path) -> int:
    """The earliest format that the files have which say what counts."""
    manifests = Manifests(directory / MANIFESTS, Layout(1, HASH))
    manifest = manifests.read()  # one that is damaged, or of a later format, is refused with the reason
    catalog = None if manifest is None else format_of(manifests.directory / manifest.catalog, "catalog")
    if catalog is None or manifests.format is None:
        raise StateError(f"{manifests.directory} has just been changed", hint="close the database elsewhere")
    return min(catalog, manifests.format)
