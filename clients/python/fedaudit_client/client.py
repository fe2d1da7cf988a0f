"""The service's HTTP interface as Python calls, blocking and awaited."""

from types import TracebackType
from typing import Self

import httpx

from fedaudit_client.audits import AttackCalls, AuditCalls
from fedaudit_client.experiments import ExperimentCalls
from fedaudit_client.federations import FederationCalls
from fedaudit_client.http.calls import Awaiting, Blocking, settled
from fedaudit_client.http.wire import AwaitingWire, BlockingWire, Connection, Retries
from fedaudit_client.ledgers import LedgerCalls
from fedaudit_client.project_calls import (
    AuditLogCalls,
    KeyCalls,
    ModelCalls,
    SignOffCalls,
    WebhookCalls,
)
from fedaudit_client.reports import GateCalls, ReportCalls, TableCalls
from fedaudit_client.sweeps import SweepCalls


class EveryCall(
    ExperimentCalls,
    SweepCalls,
    TableCalls,
    ReportCalls,
    GateCalls,
    FederationCalls,
    KeyCalls,
    LedgerCalls,
    ModelCalls,
    SignOffCalls,
    WebhookCalls,
    AttackCalls,
    AuditCalls,
    AuditLogCalls,
):
    """Whatever can be asked of the service."""


class Client(Blocking, EveryCall):
    """Calls one service with one key; to be closed, or used as a context manager.

    Address and key come from FEDAUDIT_URL and FEDAUDIT_API_KEY where they are not given. Every
    call raises UnreachableError where nobody answers and ProblemError where the service refuses.
    Answers are the service's JSON. May be shared by threads, as `httpx.Client` may.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 30.0,
        retries: Retries | None = None,
        http_transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Raises NotConfiguredError naming what is not given, and UnreachableError for what is no
        address. `timeout`: seconds for each step of a request."""
        connection = Connection.of(url, api_key, timeout=timeout, retries=retries)
        super().__init__(BlockingWire(connection, http_transport))

    @property
    def url(self) -> str:
        """The service's address, under which its pages are too."""
        return self._wire.connection.url

    @classmethod
    def from_environment(cls) -> Self:
        """By FEDAUDIT_URL and FEDAUDIT_API_KEY. Raises NotConfiguredError naming what lacks."""
        return cls()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        settled(self._wire.close())


class AsyncClient(Awaiting, EveryCall):
    """As `Client`, under asyncio: calls are awaited, and lists and events iterated with
    `async for`."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 30.0,
        retries: Retries | None = None,
        http_transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """As `Client`."""
        connection = Connection.of(url, api_key, timeout=timeout, retries=retries)
        super().__init__(AwaitingWire(connection, http_transport))

    @property
    def url(self) -> str:
        """The service's address, under which its pages are too."""
        return self._wire.connection.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()
