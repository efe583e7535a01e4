"""A reader of server-sent events."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from tests.support.serving import LIMIT


class Reader:
    """Reads events as a browser does."""

    def __init__(self, url: str, path: str, last: str | None = None) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=LIMIT)
        self._connection.request("GET", path, headers={"Last-Event-ID": last} if last else {})
        self.response = self._connection.getresponse()
        self.last = last

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self._connection.close()

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        kind, data = "message", []
        deadline = time.monotonic() + LIMIT
        for line in self.response:
            assert time.monotonic() < deadline, "nothing but signs of life"
            name, _, value = line.decode().rstrip("\n").partition(": ")
            match name:
                case "id":
                    self.last = value
                case "event":
                    kind = value
                case "data":
                    data.append(value)
                case "" if not value and data:
                    yield kind, json.loads("\n".join(data))
                    kind, data = "message", []
