"""Traces of a service are sent to a collector, by OpenTelemetry's own protocol."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import millstream as ms
from millstream.service.traces import exported_traces


class Collector(ThreadingHTTPServer):
    """Keeps what it is sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[tuple[str, bytes]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.bodies.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nobody reads it."""


def test_epochs_come_to_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector()
    thread = threading.Thread(target=collector.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
        tracing = exported_traces()
        with ms.connect(engine="inprocess") as db:
            db.inspection.trace(tracing.tracer)
            db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts")
            db.insert("s", [(1, 1), (2, 2)])
        tracing.close()
    finally:
        collector.shutdown()
        thread.join()
        collector.server_close()
    spans, services = list[str](), set[str]()
    for path, body in collector.bodies:
        assert path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            services |= {each.value.string_value for each in resource.resource.attributes if each.key == "service.name"}
            spans += [span.name for scope in resource.scope_spans for span in scope.spans]
    assert services == {"millstream"}
    assert {"epoch", "run", "commit"} <= {*spans}


def test_without_opentelemetry_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ms.SetupError, match="traces need OpenTelemetry") as raised:
        exported_traces()
    assert "millstream[otel]" in str(raised.value)
