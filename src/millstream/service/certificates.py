"""The certificate that a service speaks TLS by. When its files change, those who connect from then on see the new one;
connections that are there go on. Files that cannot be used change nothing, and the log says so."""

from __future__ import annotations

import logging
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

from millstream.errors import SetupError

_log = logging.getLogger(__name__)
_EVERY = 5.0  # seconds between looks at the files

_Stamp = tuple[tuple[int, int, int] | None, ...]  # of each file, where it is there: its number, time and length


@dataclass(frozen=True)
class Certificate:
    """For TLS: a file with the certificate and those that it builds on, and one with its key, as PEM."""

    file: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """What connections are made by; refuses what cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.file, self.key, password=_no_password)
        except (OSError, ValueError) as error:  # errors of ssl are of these
            raise SetupError(
                f"{self.file} and {self.key} are no certificate and its key",
                detail=str(error),
                hint="give files in PEM, the key without a password",
            ) from None
        return context

    def check(self) -> None:
        """Refuse what cannot be used, before anything is opened."""
        self.context()

    def stamp(self) -> _Stamp:
        """Something else whenever the files are others."""
        return tuple(map(_stamp, (self.file, self.key)))


def _no_password() -> str:
    raise ValueError("the key has a password")


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class LiveCertificate:
    """A certificate as its files have it. They are read when they have not changed between two looks: who replaces
    them writes one after the other."""

    def __init__(self, given: Certificate) -> None:
        self._given = given
        self._tried = self._seen = given.stamp()
        self._newest = given.context()

    def serve_by(self, context: ssl.SSLContext) -> None:
        """Have connections that a context makes use what is newest then."""

        def chosen(connection: ssl.SSLObject | ssl.SSLSocket, name: str, before: ssl.SSLContext) -> None:
            connection.context = self._newest

        context.sni_callback = chosen  # which is called for those too that name no server

    def watch(self, ending: threading.Event) -> None:
        """Look at the files now and then until the end."""
        while not ending.wait(_EVERY):
            self.look()

    def look(self) -> None:
        before, self._seen = self._seen, self._given.stamp()
        if self._seen == self._tried or self._seen != before:
            return
        self._tried = self._seen
        said = {"certificate": str(self._given.file)}
        try:
            self._newest = self._given.context()
        except SetupError as error:
            _log.warning(
                "the certificate before is still used: %s (%s)", error.primary, error.detail, extra={"data": said}
            )
        else:
            _log.info("%s was read again: who connects from now on sees it", self._given.file, extra={"data": said})
