"""Uploading by the client: the file passes through, it is never held."""

import io
from typing import Any

import httpx

from fedaudit_client.client import Client

SIZE = 50_000_000


class _Watched(io.RawIOBase):
    """A large file that notes how much of it is asked for at once."""

    def __init__(self) -> None:
        self.largest_read = 0
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = (0, self._position, SIZE)[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        wanted = SIZE if size < 0 else size
        self.largest_read = max(self.largest_read, wanted)
        data = bytes(min(wanted, SIZE - self._position))
        self._position += len(data)
        return data


def test_a_large_file_is_sent_as_it_is_read() -> None:
    sent: dict[str, Any] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        sent["length"] = int(request.headers["Content-Length"])
        sent["head"] = request.content[:400]
        return httpx.Response(202, json={"id": "f", "status": "profiling"})

    file = _Watched()
    transport = httpx.MockTransport(answer)
    with Client("http://service", "fa_key", http_transport=transport) as client:
        made = client.upload(file, {"name": "n"}, file_name="größe.csv")  # type: ignore[arg-type]
    assert made["status"] == "profiling"
    assert SIZE < sent["length"] < SIZE + 1000
    # The registration comes first.
    assert sent["head"].index(b'{"name": "n"}') < sent["head"].index("größe.csv".encode())
    assert file.largest_read <= 1_000_000
