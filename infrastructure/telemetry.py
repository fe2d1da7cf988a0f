"""Logs and traces."""

import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import structlog
from structlog.typing import ExcInfo, Processor

from infrastructure.settings import SettingsError

_HEAD = "Traceback (most recent call last):\n"
_OF_THE_MACHINE = (OSError, ImportError, MemoryError)
# Libraries whose routine messages say nothing to whoever runs the service.
_QUIET = ("celery", "kombu", "amqp", "alembic", "asyncio")


def configure_logs(log_format: Literal["text", "json"] = "text") -> None:
    """Send every log line, ours and the libraries', through structlog to standard error."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.ExceptionRenderer(_where),
            renderer,
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def without_message(error: BaseException) -> str:
    """The kind of an error, and its message where that can only be about the machine."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, _OF_THE_MACHINE) else name


def _where(exc_info: ExcInfo) -> str:
    """A traceback of the error and of what led to it, without what they quote."""
    lines: list[str] = []
    error: BaseException | None = exc_info[1]
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = traceback.format_tb(error.__traceback__)
        lines.insert(0, "".join((_HEAD, *frames, without_message(error))))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n\nand then:\n".join(lines)


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
    """Send this process's spans to the collector that the environment names, if any, under
    OTEL_SERVICE_NAME or `service_name`. Raises SettingsError if packages are missing."""
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
    """Send the remaining spans, for a process that a signal ends; waits for a dead collector at
    most `_LAST_SECONDS`."""
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
    """A span around the block; None while tracing is off. `parent`: another process's traceparent
    (W3C Trace Context), ignored if malformed. `serves`: it answers a request from outside."""
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
