"""TLS: the client and the service speak it, half-open handshakes are bounded, wrong files are told, and files that
change are read again."""

from __future__ import annotations

import http.client
import logging
import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import tls
from tests.support.serving import served, until

import millstream as ms
from millstream.service import certificates
from millstream.service.certificates import Certificate
from millstream.service.limits import ConnectionLimits, ServiceLimits

CERTIFICATE, KEY, OTHER, OTHER_KEY = (
    Path(tls.__file__).with_name(f"{name}.pem") for name in ("certificate", "key", "other-certificate", "other-key")
)


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


def _shown_at(port: int) -> str:
    """The certificate that who connects now is shown; without a server's name too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    found = set()
    for name in (None, "localhost"):
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname=name) as secure,
        ):
            shown = secure.getpeercert(binary_form=True)
            assert shown is not None
            found.add(ssl.DER_cert_to_PEM_cert(shown))
    (only,) = found
    return only


def _asked(connection: http.client.HTTPSConnection) -> int:
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_a_certificate_that_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who connects sees the new one, connections that are there go on, and files that are wrong change nothing."""
    monkeypatch.setattr(certificates, "_EVERY", 0.05)
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    first, second = CERTIFICATE.read_text(), OTHER.read_text()
    shutil.copy(CERTIFICATE, certificate)
    shutil.copy(KEY, key)

    def warned() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == certificates.__name__]

    with (
        caplog.at_level(logging.WARNING),
        ms.connect(engine="inprocess") as db,
        served(db, certificate=Certificate(certificate, key)) as url,
    ):
        port = int(url.rpartition(":")[2])
        assert _shown_at(port) == first
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=ssl.create_default_context())
        assert _asked(connection) == 200
        kept = connection.sock
        shutil.copy(OTHER, certificate)  # without its key it is none
        until(warned)
        assert "are no certificate and its key" in warned()[0]
        assert _shown_at(port) == first
        shutil.copy(OTHER_KEY, key)
        until(lambda: _shown_at(port) == second)
        assert (_asked(connection), connection.sock is kept) == (200, True)
        certificate.write_text("junk")
        until(lambda: len(warned()) == 2)
        assert _shown_at(port) == second
        certificate.unlink()
        until(lambda: len(warned()) == 3)
        assert _shown_at(port) == second
        shutil.copy(CERTIFICATE, certificate)
        shutil.copy(KEY, key)
        until(lambda: _shown_at(port) == first)
        assert (_asked(connection), connection.sock is kept) == (200, True)
        connection.close()
