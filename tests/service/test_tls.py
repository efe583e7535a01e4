"""TLS: the client and the service speak it, half-open handshakes are bounded, and wrong files are told."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import tls
from tests.support.serving import served, until

import millstream as ms
from millstream.service.limits import ConnectionLimits, ServiceLimits
from millstream.service.server import Certificate

CERTIFICATE, KEY = (Path(tls.__file__).with_name(name) for name in ("certificate.pem", "key.pem"))


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))


def test_a_service_with_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ServiceLimits(connections=ConnectionLimits(connections=10))
    with (
        ms.connect(engine="inprocess") as db,
        served(db, limits=limits, certificate=Certificate(CERTIFICATE, KEY)) as url,
    ):
        assert url.startswith("https://127.0.0.1:")
        with ms.connect(url) as remote:
            remote.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts")
            query = remote.register("SELECT k FROM s [RANGE 10]", "q")
            assert remote.insert("s", [(1, 1), (2, 2)]).accepted == 2
            assert next(iter(query.follow())).num_rows == 1
            assert remote.insert("s", [(3, 2)]).accepted == 1  # by a connection that is kept
            # Those who never finish a handshake do not touch a producer that is connected.
            host, port = "127.0.0.1", int(url.rpartition(":")[2])
            opened = [socket.create_connection((host, port)) for _ in range(200)]
            assert remote.insert("s", [(3, 3)]).accepted == 1
            for connection in opened:
                connection.close()
        until(lambda: _answers(url))
        with pytest.raises(ms.ServiceError, match="cannot be reached"):
            ms.connect(url.replace("https", "http"))
        monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.raises(ms.ServiceError, match="cannot be reached"):
            ms.connect(url)


def _answers(url: str) -> bool:
    try:
        with ms.connect(url) as db:
            return len(db.queries()) == 1
    except ms.ServiceError:
        return False


def test_files_that_are_no_certificate(tmp_path: Path) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    for certificate, key in ((junk, KEY), (CERTIFICATE, junk), (tmp_path / "none", KEY), (KEY, CERTIFICATE)):
        with pytest.raises(ms.SetupError, match="are no certificate and its key"):
            Certificate(certificate, key).check()
    command = [sys.executable, "-m", "millstream", "serve", "--in-process", "--tls-cert", str(CERTIFICATE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "go together" in done.stderr) == (2, True)
