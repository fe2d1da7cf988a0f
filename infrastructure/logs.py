"""Logs."""

import logging
import sys
import traceback
from typing import Literal

import structlog
from structlog.typing import ExcInfo, Processor

_HEAD = "Traceback (most recent call last):\n"
_OF_THE_MACHINE = (OSError, ImportError, MemoryError)
"""Errors whose messages can only be about the machine."""
# Libraries whose routine messages say nothing to an operator, or hold webhooks' addresses (httpx).
_QUIET = ("celery", "kombu", "amqp", "alembic", "asyncio", "httpx")


def configure_logs(log_format: Literal["text", "json"]) -> None:
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


def _where(exc_info: ExcInfo) -> str:
    """A traceback of the error and of what led to it, without what they quote."""
    lines: list[str] = []
    error: BaseException | None = exc_info[1]
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = traceback.format_tb(error.__traceback__)
        name = type(error).__name__
        said = f"{name}: {error}" if isinstance(error, _OF_THE_MACHINE) else name
        lines.insert(0, "".join((_HEAD, *frames, said)))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n\nand then:\n".join(lines)
