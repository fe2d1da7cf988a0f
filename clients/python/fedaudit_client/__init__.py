"""The Python client of a fedaudit service."""

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

__all__ = [
    "Client",
    "ClientError",
    "GatesNotPassedError",
    "NotConfiguredError",
    "ProblemError",
    "Retries",
    "UnreachableError",
    "__version__",
]
