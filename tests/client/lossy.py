"""Networks that lose answers of a real service."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx

PROBLEM = {"Content-Type": "application/problem+json"}


@dataclass
class Faults:
    """What goes wrong, request by request: each is taken once, then all goes well."""

    ahead: list[str] = field(default_factory=list)
    """`answer lost`: it reached the service; `unavailable`: it did not; `cut`: the body breaks off
    after its first part."""
    requests: list[httpx.Request] = field(default_factory=list)

    def next(self, request: httpx.Request) -> str:
        """What happens to this request."""
        self.requests.append(request)
        return self.ahead.pop(0) if self.ahead else "nothing"


class LossyTransport(httpx.HTTPTransport):
    """For a client."""

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        fault = self._faults.next(request)
        if fault == "unavailable":
            problem = {"type": "/problems/unavailable", "detail": "the database is away"}
            return httpx.Response(503, headers={**PROBLEM, "Retry-After": "0"}, json=problem)
        response = super().handle_request(request)
        if fault == "answer lost":
            response.close()
            raise httpx.ReadError("lost", request=request)
        if fault == "cut":
            response.stream = _Cut(response.stream)
        return response


def _first_event(chunk: bytes) -> bytes:
    """The first event, and a half of what follows it."""
    end = chunk.index(b"\n\n") + 2
    return chunk[: end + 5]


class _Cut(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            yield _first_event(chunk)
            raise httpx.ReadError("broken")

    def close(self) -> None:
        self._stream.close()
