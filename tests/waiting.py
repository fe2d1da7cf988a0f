"""Waiting for what another thread or process does."""

import socket
from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

Found = TypeVar("Found")


def wait_until(
    condition: Callable[[], Found], what: str = "it", *, seconds: float = 120.0, pause: float = 0.05
) -> Found:
    """What the condition gives, once that is true: two minutes are for machines that are busy.

    Each look costs the processes that it waits for time. Raises AssertionError.
    """
    deadline = monotonic() + seconds
    while not (found := condition()):
        assert monotonic() < deadline, f"gave up waiting for: {what}"
        sleep(pause)
    return found


def listens(port: int) -> bool:
    """Whether somebody takes connections there on this machine."""
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0
