"""Traces of epochs by OpenTelemetry: a span for each epoch, with one for each of its phases.

Spans are made once an epoch has ended, of what was measured anyway: an epoch takes no longer for it, and whoever makes
no traces needs no OpenTelemetry. An epoch of an insert is a child of the span that the insert was made in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.inspection.epochs import Epochs, EpochSeen

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


def trace_epochs(epochs: Epochs, tracer: Tracer) -> Callable[[], None]:
    """Have the epochs from now on traced; gives what ends that."""
    from opentelemetry.trace import StatusCode, set_span_in_context

    def traced(seen: EpochSeen) -> None:
        end = int(seen.ended * 1e9)
        at = end - _nanoseconds(seen.seconds)
        attributes: dict[str, int | str] = {
            "millstream.epoch": seen.epoch,
            "millstream.rows": seen.rows,
            "millstream.late": seen.late,
            "millstream.operators": seen.operators,
            "millstream.failures": seen.failures,
            "millstream.ran": seen.ran,
        }
        span = tracer.start_span("epoch", start_time=at, attributes=attributes)
        if seen.failures:
            span.set_status(StatusCode.ERROR, f"{seen.failures} failures")
        inside = set_span_in_context(span)
        for phase, seconds in seen.phases.items():
            until = min(at + _nanoseconds(seconds), end)
            tracer.start_span(phase, context=inside, start_time=at).end(until)
            at = until
        span.end(end)

    return epochs.observe(traced)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
