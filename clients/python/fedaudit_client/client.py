"""The service's HTTP interface as Python calls."""

from collections.abc import Generator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fedaudit_client.experiments import ExperimentCalls
from fedaudit_client.projects import ProjectCalls
from fedaudit_client.reports import ReportCalls
from fedaudit_client.wire import json_value, path_of


class Client(ExperimentCalls, ReportCalls, ProjectCalls):
    """Calls one service with one key; close it, or use it as a context manager.

    FEDAUDIT_URL, FEDAUDIT_API_KEY and FEDAUDIT_PROJECT are the defaults. Every call raises
    UnreachableError if there is no answer, and ProblemError if the service refuses. Answers are
    the service's JSON. Threads may share a client.
    """

    def call(
        self, method: str, path: str, *, json: Any = None, content: bytes | None = None
    ) -> Generator[bytes, None, None]:
        """Any call of the interface: the bytes of its answer, as they arrive.

        `path` is below `/v1`, with its query. Only a GET is repeated after a lost answer. Raises
        ValueError for another host's, which must not see the key.
        """
        parts = urlsplit(path := path.lstrip("/"))
        if parts.scheme or parts.netloc or parts.fragment or ".." in parts.path.split("/"):
            raise ValueError(f"{path!r} is no path below /v1: leave host, `..` and `#` out")
        where, _, query = path.partition("?")
        asked: dict[str, Any] = {"params": parse_qs(query)}
        if method == "GET":
            yield from self._read(where, **asked)
            return
        if content is None:
            asked["json"] = json
        else:
            asked |= {"content": content, "headers": {"Content-Type": "application/octet-stream"}}
        with self._opened(method, where, **asked) as chunks:
            yield from chunks

    def ask(self, method: str, path: str, *, json: Any = None) -> Any:
        """The same, for an answer in JSON; None where it is empty."""
        answer = b"".join(self.call(method, path, json=json)) or b"null"
        return json_value(answer, f"{self.url}/v1/{path.lstrip('/')}")

    def page(self, path: str, *ids: str) -> str:
        """The address of a page for people: `page("experiments/{}/report", id)`."""
        return f"{self.url}/{path_of(path, *ids)}"
