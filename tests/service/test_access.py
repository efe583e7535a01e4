"""Tokens, roles, limits, and who is admitted at all."""

from __future__ import annotations

import http.client
import json
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.serving import LIMIT, served
from typer.testing import CliRunner

import millstream as ms
from millstream.cli import app
from millstream.client.database import RemoteDatabase
from millstream.service.limits import Rates, ServiceLimits
from millstream.service.server import Address, check_open_to
from millstream.service.tokens import Role, Tokens

STREAM = "CREATE STREAM s (k INT) TIMESTAMP BY ts"


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "db" / "tokens.json")


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        yield db


def ask(url: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=LIMIT)
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, content, {"Content-Type": "application/json", **sent})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    kind = response.getheader("content-type", "")
    return response.status, json.loads(text) if "json" in kind else text.decode(), dict(response.getheaders())


def test_what_each_role_may_do(db: ms.Database, tokens: Tokens) -> None:
    secrets = {role: tokens.add(str(role), role) for role in Role}
    db.execute(STREAM)
    db.register("SELECT k FROM s", name="q")
    attempts: list[tuple[Role, Callable[[RemoteDatabase], object]]] = [
        (Role.READ, lambda db: db.query("q").result()),
        (Role.READ, lambda db: db.execute("SELECT k FROM s; SHOW QUERIES; EXPLAIN SELECT k FROM s")),
        (Role.READ, lambda db: list(db.query("q").follow(timeout=0.01))),
        (Role.READ, lambda db: db.stats()),
        (Role.READ, lambda db: db.explain("SELECT k FROM s")),
        (Role.WRITE, lambda db: db.execute("SHOW QUERIES; INSERT INTO s VALUES (1, 100)")),
        (Role.WRITE, lambda db: db.insert("s", [(1, 100)])),
        (Role.WRITE, lambda db: db.advance(to=100)),
        (Role.WRITE, lambda db: db.register("SELECT k FROM s").drop()),
        (Role.WRITE, lambda db: db.register_many("SELECT k FROM s WHERE k = ?", [])),
        (Role.WRITE, lambda db: db.execute("REGISTER QUERY x AS SELECT k FROM s; DROP QUERY x")),
        (Role.WRITE, lambda db: db.execute("INSERT INTO s SELECT k, 200 FROM s [RANGE 5] WHERE k < 0")),
        (Role.WRITE, lambda db: db.execute("INSERT INTO s VALUES (?, ?)", [1, 300])),
        (Role.ADMIN, lambda db: db.execute("REGISTER QUERY y AS SELECT k FROM s; DROP QUERY y CASCADE")),
        (Role.ADMIN, lambda db: db.execute("CREATE TABLE t (a INT); DROP TABLE t")),
        (Role.ADMIN, lambda db: db.execute("CREATE VIEW v AS SELECT k FROM s; DROP VIEW v")),
        (Role.ADMIN, lambda db: db.execute("SET max_rstream_rows = 10")),
        (Role.ADMIN, lambda db: db.run(0)),
    ]
    with served(db, tokens) as url:
        for role, secret in secrets.items():
            with ms.connect(url, token=secret) as remote:
                for needed, attempt in attempts:
                    if role >= needed:
                        attempt(remote)
                    else:
                        with pytest.raises(ms.AccessError, match=f"needs a token for {needed}"):
                            attempt(remote)
        for wrong in (None, "", "ms_guessed", secrets[Role.READ] + "x"):
            with pytest.raises(ms.AccessError):
                ms.connect(url, token=wrong)
        assert ask(url, "GET", "/v1/queries")[0] == 401
        assert ask(url, "GET", "/v1/queries", Authorization=f"Basic {secrets[Role.READ]}")[0] == 401
        assert ask(url, "GET", "/docs")[0] == ask(url, "GET", "/metrics")[0] == 401
        assert ask(url, "GET", "/healthz")[1] == {"status": "ok"}
        # Taken back while the service runs.
        with ms.connect(url, token=secrets[Role.READ]) as reader:
            tokens.revoke("read")
            with pytest.raises(ms.AccessError):
                reader.queries()


def test_tokens_are_kept_as_hashes(tokens: Tokens) -> None:
    secret = tokens.add("me", Role.WRITE)
    assert secret not in tokens.file.read_text()
    assert stat.S_IMODE(tokens.file.stat().st_mode) == 0o600
    again = Tokens(tokens.file)
    found = again.find(secret)
    assert found is not None
    assert (found.name, found.role) == ("me", "write")
    assert again.find(secret[:-1]) is None
    with pytest.raises(ms.CatalogError):
        tokens.add("me", Role.READ)
    with pytest.raises(ms.NameError, match="no token"):
        tokens.revoke("you")
    tokens.file.write_text("{}")
    with pytest.raises(ms.StateError, match="cannot be read as tokens"):
        Tokens(tokens.file).all()


def test_tokens_by_the_command_line(tmp_path: Path) -> None:
    def token(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["token", *arguments])
        return done.exit_code, done.output

    path = str(tmp_path / "db")
    for command in (["add", path], ["list", path], ["revoke", "me", path], ["rotate", "me", path]):
        code, output = token(*command)
        assert code == 1
        assert "there is no database" in output
        assert not Path(path).exists(), "a wrong name makes nothing"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").touch()
    assert "is not empty, and no database" in token("add", str(tmp_path / "other"))[1]
    Path(path).mkdir()
    code, output = token("add", path, "--name", "me", "--role", "admin")
    assert code == 0
    assert Tokens(tmp_path / "db" / "tokens.json").find(output.split()[-1]) is not None
    assert "me   | admin" in token("list", path)[1]
    assert token("add", path, "--name", "you", "--role", "king") == (1, "a role is read, write, admin, not 'king'\n")
    assert token("revoke", "me", path)[0] == 0
    assert token("revoke", "me", path)[0] == 1
    assert token("list")[0] == 2
    # A database opens beside them.
    ms.connect(path, engine="inprocess").close()
    assert token("list", path)[0] == 0


def test_the_first_token_counts_at_once_and_the_last_one_opens_nothing(db: ms.Database, tokens: Tokens) -> None:
    with served(db, tokens) as url:
        assert ask(url, "GET", "/v1/queries")[0] == 200
        assert ask(url, "GET", "/v1/me")[1]["tokens"] is False
        secret = tokens.add("me", Role.READ)
        assert ask(url, "GET", "/v1/queries")[0] == 401
        assert ask(url, "GET", "/v1/queries", Authorization=f"Bearer {secret}")[0] == 200
        assert ask(url, "GET", "/v1/me", Authorization=f"Bearer {secret}")[1]["tokens"] is True
        tokens.revoke("me")
        assert ask(url, "GET", "/v1/queries")[0] == 401


def test_without_tokens_for_this_machine_only(db: ms.Database, tokens: Tokens) -> None:
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        check_open_to(Address(host), None)
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.org"):
        with pytest.raises(ms.AccessError, match="this machine only"):
            check_open_to(Address(host), tokens)
    tokens.add("me", Role.READ)
    check_open_to(Address("0.0.0.0"), tokens)
    with served(db) as url:
        assert ask(url, "GET", "/v1/queries")[0] == 200
        assert ask(url, "GET", "/v1/queries", Host="evil.example")[0] == 403
        assert ask(url, "GET", "/v1/queries", Host="")[0] == 400
        assert ask(url, "POST", "/v1/execute", {"text": STREAM}, Origin="http://evil.example")[0] == 403
        assert ask(url, "POST", "/v1/execute", {"text": STREAM}, Origin="null")[0] == 403
        assert ask(url, "POST", "/v1/execute", {"text": STREAM}, Origin=url)[0] == 200


def test_requests_that_are_too_large(db: ms.Database) -> None:
    db.execute(STREAM)
    with served(db, limits=ServiceLimits(request_bytes=1000)) as url, ms.connect(url) as remote:
        assert remote.insert("s", [(1, 1)]).accepted == 1
        with pytest.raises(ms.LimitError, match="1000 bytes"):
            remote.insert("s", [(k, k) for k in range(10, 100_000)])
        # One that does not say beforehand how large it is.
        with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=LIMIT)) as connection:
            parts = iter([b'{"text": "'] + [b" " * 100_000] * 20 + [b'"}'])
            connection.request("POST", "/v1/execute", parts, {"Content-Type": "application/json"}, encode_chunked=True)
            assert connection.getresponse().status == 413
        assert ask(url, "POST", "/v1/execute", Content_Length="-1")[0] in (400, 413)
        assert remote.insert("s", [(1, 2)]).accepted == 1
    assert db.stats()["streams"]["s"]["arrived"] == 2


def test_requests_that_are_too_many(db: ms.Database) -> None:
    now = [0.0]
    rates = Rates(10, lambda: now[0])
    assert [rates.wait("a") for _ in range(20)] == [0.0] * 20
    assert rates.wait("a") == pytest.approx(0.1)
    assert rates.wait("b") == 0.0
    now[0] += 0.1
    assert rates.wait("a") == 0.0
    assert rates.wait("a") > 0
    now[0] += 1000
    assert [bool(rates.wait("a")) for _ in range(21)] == [False] * 20 + [True]
    with served(db, limits=ServiceLimits(requests_per_second=0.5)) as url:
        statuses = [ask(url, "GET", "/v1/queries")[0] for _ in range(4)]
        assert statuses[-1] == 429
        status, answer, headers = ask(url, "GET", "/healthz")
        assert (status, answer["error"]["class"], headers["retry-after"]) == (429, "LimitError", "1")


def test_a_client_waits_for_its_turn(db: ms.Database) -> None:
    with served(db, limits=ServiceLimits(requests_per_second=20)) as url, ms.connect(url) as remote:
        for _ in range(45):
            assert remote.queries() == []


def test_answers_that_take_too_long(db: ms.Database) -> None:
    db.execute(STREAM)
    release = threading.Event()

    def slow(column: Any) -> Any:
        release.wait(LIMIT)
        return column

    db.create_function("slow", slow, "INT")
    db.insert("s", [(1, 1), (2, 2)])
    with served(db, limits=ServiceLimits(seconds=0.5)) as url, ms.connect(url) as remote:
        query = remote.register("SELECT k FROM s")
        with pytest.raises(ms.LimitError, match=r"no answer within 0\.5 seconds"):
            remote.execute("SELECT slow(k) FROM s")
        # The others' answers do not wait for it.
        assert query.result().num_rows == 1
        release.set()


def test_followers_that_are_too_many(db: ms.Database) -> None:
    db.execute(STREAM)
    db.insert("s", [(1, 1), (2, 2)])
    with served(db, limits=ServiceLimits(followers=1)) as url, ms.connect(url) as remote:
        query = remote.register("SELECT k FROM s")
        following = query.follow()
        next(following)
        with pytest.raises(ms.LimitError, match="1 followers already"):
            query.follow()
        following.close()
