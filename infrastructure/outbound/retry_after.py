"""When a receiver asks to be called again: the header `Retry-After`."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after(headers: Iterable[tuple[bytes, bytes]], *, now: datetime) -> float | None:
    """Seconds from `now`, zero or more; None without the header, or where it is neither whole
    seconds nor a date."""
    for name, value in headers:
        if name.lower() == b"retry-after":
            return _seconds(value.decode("latin-1").strip(), now)
    return None


def _seconds(text: str, now: datetime) -> float | None:
    if text.isascii() and text.isdigit():
        # A number of any length is no error: who waits for it sets the bound.
        return float(text) if len(text) < 300 else math.inf
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    # A date of the header is in GMT, whether it says so or not.
    aware = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())
