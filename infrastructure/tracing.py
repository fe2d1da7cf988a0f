"""Traces by OpenTelemetry, from a request to the rounds that it caused.

Off unless OTEL_EXPORTER_OTLP_ENDPOINT is set: we then import nothing of OpenTelemetry, and a span
costs one comparison. The SDK reads its own OTEL_* variables (headers, sampler, resource).

Attributes are ids and numbers. What an error says is left out, as in logs: it may quote data.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from infrastructure.logs import without_message
from infrastructure.settings import SettingsError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_SERVICE_NAME = "OTEL_SERVICE_NAME"
_TRACEPARENT = "traceparent"
_LAST_SECONDS = 2.0
Attributes = Mapping[str, str | int | float | bool]


class _Configured:
    """The tracer of this process; None while tracing is off."""

    tracer: "Tracer | None" = None
    provider: "TracerProvider | None" = None


def is_tracing_asked_for() -> bool:
    """Whether the environment names a collector."""
    return bool(os.environ.get(ENDPOINT))


def configure_tracing(service_name: str) -> None:
    """Send this process's spans to the collector that the environment names, if it names one.

    `service_name` holds unless OTEL_SERVICE_NAME is set. Raises SettingsError where the packages
    are missing.
    """
    if not is_tracing_asked_for() or _Configured.tracer is not None:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise SettingsError(
            f"{ENDPOINT} is set, which needs the package {error.name}; "
            "install fedaudit[telemetry], or unset it"
        ) from None
    name = os.environ.get(_SERVICE_NAME) or service_name
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name}))
    # In a thread of its own: a collector that is away delays nothing, and its spans are dropped.
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _Configured.provider = provider
    _Configured.tracer = provider.get_tracer("fedaudit")


def end_tracing() -> None:
    """Send what spans are left, for a process that a signal ends before Python's own end.

    A collector that does not answer is waited for `_LAST_SECONDS` at most.
    """
    if _Configured.provider is None:
        return
    sending = threading.Thread(target=_Configured.provider.shutdown, daemon=True)
    sending.start()
    sending.join(_LAST_SECONDS)


@contextmanager
def span(
    name: str,
    attributes: Attributes | None = None,
    *,
    parent: str | None = None,
    serves: bool = False,
) -> "Iterator[Span | None]":
    """A span around the block, within the one around it; None while tracing is off.

    `parent`: the traceparent of another process instead (W3C Trace Context); one that is malformed
    is passed over. `serves`: it answers a request from outside.
    """
    if _Configured.tracer is None:
        yield None
        return
    from opentelemetry.propagate import extract
    from opentelemetry.trace import SpanKind, Status, StatusCode

    with _Configured.tracer.start_as_current_span(
        name,
        context=None if parent is None else extract({_TRACEPARENT: parent}),
        kind=SpanKind.SERVER if serves else SpanKind.INTERNAL,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as opened:
        try:
            yield opened
        except Exception as error:
            opened.set_attribute("error.type", type(error).__name__)
            opened.set_status(Status(StatusCode.ERROR, without_message(error)))
            raise


def current_traceparent() -> str | None:
    """The span that this code runs within, to be stored with what it causes; None without one."""
    if _Configured.tracer is None:
        return None
    from opentelemetry.propagate import inject

    carrier: dict[str, str] = {}
    inject(carrier)
    return carrier.get(_TRACEPARENT)


def trace_id_of(traceparent: str | None) -> str | None:
    """The id of its trace, for logs."""
    parts = (traceparent or "").split("-")
    return parts[1] if len(parts) == 4 else None
