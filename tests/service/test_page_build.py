"""The page that is served is the one whose sources lie in `page/`, and may be served to anybody."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest
from tests.support.serving import served

import millstream as ms
from millstream.service.static_files import static_files
from millstream.service.tokens import Role, Tokens

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "page"
STATIC = ROOT / "src" / "millstream" / "service" / "static"
BESIDE = {"index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"}


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _below(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_page_was_built_from_its_sources() -> None:
    sources = {
        name: _hash(path)
        for name, path in _below(PAGE).items()
        if name.partition("/")[0] in {"src", "public"} or name in BESIDE
    }
    listed = json.loads((STATIC / "sources.json").read_text())["sources"]
    assert listed == sources, "the page's sources have changed since it was built: run `make page`"


def test_the_built_files_are_as_they_were_built() -> None:
    """Nobody edits them by hand, and none is missing."""
    listed = json.loads((STATIC / "sources.json").read_text())["built"]
    built = {name: _hash(path) for name, path in _below(STATIC).items() if name != "sources.json"}
    assert built == listed


def test_a_build_gives_the_same_files(tmp_path: Path) -> None:
    """Hashes say that nothing was forgotten; this says that they are true. CI fetches the packages where it has npm."""
    if shutil.which("npm") is None or not (PAGE / "node_modules").exists():
        pytest.skip("THE PAGE WAS NOT BUILT AGAIN: it needs npm and page/node_modules (make page)")
    _npm("run", "check")
    _npm("exec", "--", "vite", "build", "--outDir", str(tmp_path / "built"), "--emptyOutDir")
    made = {name: _hash(path) for name, path in _below(tmp_path / "built").items()}
    assert made == {name: _hash(path) for name, path in _below(STATIC).items()}


def _npm(*arguments: str) -> None:
    done = subprocess.run(["npm", *arguments], cwd=PAGE, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_lock_has_all_packages() -> None:
    """Those for other systems too, without which `npm ci` refuses it, and no address that others could not reach."""
    packages = json.loads((PAGE / "package-lock.json").read_text())["packages"]
    for path, package in packages.items():
        for name in [*package.get("dependencies", {}), *package.get("optionalDependencies", {})]:
            above = [
                path.rsplit("/node_modules/", depth)[0] + "/node_modules/"
                for depth in range(path.count("node_modules"))
            ]
            assert any(f"{folder}{name}" in packages for folder in [*above, "node_modules/"]), f"{path} needs {name}"
        assert path == "" or package["integrity"].startswith("sha512-"), path
        assert "registry.npmjs.org" in package.get("resolved", "registry.npmjs.org"), path


def test_nothing_comes_from_elsewhere() -> None:
    """Built files name addresses in comments and name spaces only: none is ever loaded."""
    for path, file in static_files().items():
        text = file.content.decode()
        for way in ("src=", "href=", "url(", "import(", "fetch(", "importScripts("):
            assert f'{way}"http' not in text, path
            assert f"{way}http" not in text, path


def _get(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {name.lower(): value for name, value in error.headers.items()}, error.read()


def test_the_page_is_for_everybody_and_the_data_is_not(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.add("one", Role.READ)
    with ms.connect(engine="inprocess") as db, served(db, tokens) as address:
        status, headers, body = _get(f"{address}/")
        assert status == 200
        assert b"<title>Millstream</title>" in body
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        for path in static_files():
            if path.startswith("/assets/"):
                assert _get(f"{address}{path}")[2] == (STATIC / path[1:]).read_bytes()
        assert _get(f"{address}/assets/nothing.js")[0] == 401
        assert _get(f"{address}/assets/..%2f..%2fapp.py")[0] in (401, 404)
        assert _get(f"{address}/sources.json")[0] in (401, 404)
        assert _get(f"{address}/v1/queries")[0] == 401


def test_what_a_browser_has_is_not_sent_again() -> None:
    with ms.connect(engine="inprocess") as db, served(db) as address:
        _, headers, body = _get(f"{address}/assets/index.js", **{"Accept-Encoding": "gzip"})
        assert headers["content-encoding"] == "gzip"
        assert len(body) < len(static_files()["/assets/index.js"].content)
        status, _, body = _get(f"{address}/assets/index.js", **{"If-None-Match": headers["etag"]})
        assert (status, body) == (304, b"")
