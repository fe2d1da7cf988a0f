"""Networks that break, and services that answer as a test tells them to."""

from collections.abc import Callable

import httpx

from fedaudit_client import Client, Retries


def answered(
    answer: Callable[[httpx.Request], httpx.Response] | httpx.BaseTransport,
    url: str = "http://service",
    key: str = "k",
    **retries: float,
) -> Client:
    """A client whose requests are answered by a function, or go over a network that a test has."""
    network = answer if isinstance(answer, httpx.BaseTransport) else httpx.MockTransport(answer)
    return Client(url, key, retries=Retries(**retries), http_transport=network)  # type: ignore[arg-type]


def refusal(status: int, retry_after: str | None = None) -> httpx.Response:
    """A problem document."""
    pause = {} if retry_after is None else {"Retry-After": retry_after}
    headers = {"Content-Type": "application/problem+json", **pause}
    return httpx.Response(status, headers=headers, json={"type": "/problems/x", "detail": "d"})


class Lossy(httpx.HTTPTransport):
    """A network to a real service on which the first requests go wrong."""

    def __init__(self, *ahead: str) -> None:
        """`answer lost`: the request reached the service; `unavailable`: it did not."""
        super().__init__()
        self.ahead = list(ahead)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        fault = self.ahead.pop(0) if self.ahead else ""
        if fault == "unavailable":
            return refusal(503, retry_after="0")
        response = super().handle_request(request)
        if fault == "answer lost":
            response.close()
            raise httpx.ReadError("lost", request=request)
        return response
