"""The Python client of a fedaudit service."""

from typing import TYPE_CHECKING, Any

from fedaudit_client.client import Client
from fedaudit_client.errors import (
    ClientError,
    GatesNotPassedError,
    NotConfiguredError,
    ProblemError,
    UnreachableError,
)
from fedaudit_client.version import __version__
from fedaudit_client.wire import Retries

if TYPE_CHECKING:
    from fedaudit_client.step_replay import replay

__all__ = [
    "Client",
    "ClientError",
    "GatesNotPassedError",
    "NotConfiguredError",
    "ProblemError",
    "Retries",
    "UnreachableError",
    "__version__",
    "replay",
]


def __getattr__(name: str) -> Any:
    """`replay` needs numpy, and calls on a service do not."""
    if name == "replay":
        from fedaudit_client.step_replay import replay

        return replay
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
