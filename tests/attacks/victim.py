"""A served database that is attacked, the producer beside it that must not notice, and what must hold in the end."""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.serving import LIMIT
from tests.support.supervised import Supervised, supervised

import millstream as ms

SETUP = """
CREATE STREAM s (k INT, v STRING, d DECIMAL(5,2), t TIMESTAMP) TIMESTAMP BY ts;
CREATE TABLE names (id INT, name STRING) KEY (id);
CREATE TABLE changed (k INT) CHANGES BY op TIMESTAMP BY ts;
REGISTER QUERY q AS SELECT v FROM s WHERE k > 1;
INSERT INTO s VALUES (1, 'a', 1.5, NULL, 1), (2, NULL, NULL, TIMESTAMP '2026-01-01 00:00:00', 2);
INSERT INTO names VALUES (1, 'one');
ADVANCE s TO 3;
CREATE STREAM counted (n BIGINT) TIMESTAMP BY ts;
REGISTER QUERY counts AS SELECT count(*) AS n, sum(n) AS total FROM counted [RANGE UNBOUNDED]
"""
# Python's own exceptions, as repr() or a traceback shows them; ours are called by some of the same names.
_RAW = re.compile(
    r"Traceback \(most recent|PanicException|\b[A-Za-z.]*(?:Error|Exception)\(|failed on its data|0x[0-9a-f]{9,}"
)
_FINE = {200, 201, 202, 400, 401, 403, 404, 405, 406, 408, 409, 410, 411, 413, 414, 415, 422, 429, 431, 503}


def scaled(count: int) -> int:
    """So many in a full run; MILLSTREAM_ATTACKS=0.01 makes a hundredth of that."""
    return max(1, int(count * float(os.environ.get("MILLSTREAM_ATTACKS", "1"))))


def check_said(status: int, said: str, asked: object = "") -> None:
    """An answer of ours, whatever was asked."""
    assert status in _FINE, (status, said[:2000], asked)
    found = _RAW.search(said)
    assert found is None or status < 400, (found, said[:2000], asked)


class Victim:
    """The service, and a producer that goes on."""

    def __init__(self, service: Supervised) -> None:
        self.service = service
        self._connections = threading.local()
        self._opened: list[http.client.HTTPConnection] = []
        self._is_over = threading.Event()
        self.sent = self.kills = 0
        self.accepted = self.total = 0
        self.waits: list[float] = []
        self._failure: BaseException | None = None
        self._producer = threading.Thread(target=self._produce)

    @property
    def address(self) -> str:
        return self.service.address

    def ask(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", **headers: str
    ) -> tuple[int, str]:
        """What is answered, which is looked at."""
        connection = getattr(self._connections, "kept", None)
        if connection is None:
            connection = self._connections.kept = http.client.HTTPConnection(
                "127.0.0.1", self.service.port, timeout=LIMIT
            )
            self._opened.append(connection)
        try:
            connection.request(method, path, body, {"content-type": kind, **headers})
            answer = connection.getresponse()
            status, said = answer.status, answer.read().decode("utf-8", "replace")
        except (http.client.HTTPException, OSError):
            connection.close()  # one that was kept may have been closed
            connection.request(method, path, body, {"content-type": kind, **headers})
            answer = connection.getresponse()
            status, said = answer.status, answer.read().decode("utf-8", "replace")
        check_said(status, said, (method, path, body if body is None else body[:2000]))
        return status, said

    def execute(self, text: str) -> tuple[int, str]:
        return self.ask("POST", "/v1/execute", json.dumps({"text": text}).encode())

    def _produce(self) -> None:
        try:
            with ms.connect(self.address) as db:
                while not self._is_over.is_set():
                    begun = time.monotonic()
                    told = db.insert("counted", [(self.sent, self.sent)])
                    assert told.accepted + told.late == 1  # late where a request at random has raised all heartbeats
                    self.accepted += told.accepted
                    self.total += self.sent * told.accepted
                    self.waits.append(time.monotonic() - begun)
                    self.sent += 1
                    self._is_over.wait(0.02)
        except BaseException as error:  # of a thread: shown in the end
            self._failure = error

    def kill(self) -> None:
        """End it as a machine does, once."""
        self.kills += 1
        self.service.kill()

    def begin(self) -> None:
        self._producer.start()

    def end(self) -> None:
        """Nothing has happened to it."""
        self._is_over.set()
        self._producer.join(LIMIT)
        assert self._failure is None, (self._failure, self.service.said()[-3000:])
        assert self.service.starts == 1 + self.kills, self.service.said()[-3000:]
        assert "Traceback" not in self.service.said(), self.service.said()[-5000:]
        self.check_rows()
        waits = sorted(self.waits)
        place = int(0.999 * (len(waits) - 1))
        sys.stdout.write(
            f"{len(waits)} inserts beside: median {waits[len(waits) // 2]:.3f} s, p99.9 {waits[place]:.3f} s\n"
        )

    def check_rows(self) -> None:
        with ms.connect(self.address) as db:
            db.advance("counted", to=self.sent + 1)
            [found] = db.query("counts").result(at=self.sent).to_pylist()
        assert found == {"n": self.accepted, "total": self.total if self.accepted else None}


@contextmanager
def attacked(directory: Path, *options: str) -> Iterator[Victim]:
    with supervised(directory, "--rate", "0", *options) as service:
        victim = Victim(service)
        with ms.connect(service.address) as db:
            db.execute(SETUP)
        victim.begin()
        try:
            yield victim
        finally:
            victim._is_over.set()
            victim._producer.join(LIMIT)
            for connection in victim._opened:
                connection.close()
        victim.end()
