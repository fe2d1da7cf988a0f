"""Calls on federations: their data, their profiles, and what may be spent and asked of them."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import IO, Any

import httpx

from fedaudit_client.http.calls import Calls, call, pages, steps, stream
from fedaudit_client.http.request import (
    Json,
    Request,
    items,
    json_as,
    json_object,
    nothing,
    once,
    path_part,
)
from fedaudit_client.result_types import Budget, Erasure, Federation

_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.2, 5.0
_SENDING_SECONDS = 45.0
# The service answers an upload once the file is on its disk.
_STORING_SECONDS = 600.0


class FederationCalls(Calls):
    """What can be done with federations."""

    @call
    def register(
        self, registration: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Request[Federation]:
        """Register a file below the service's sources folder; the answer is the federation."""
        body = {"json": registration}
        answer = json_as(Federation)
        return Request("POST", "federations", answer, body=body, **once(idempotency_key))

    @call
    def upload(
        self, file: IO[bytes], registration: Mapping[str, Any], *, file_name: str
    ) -> Request[Federation]:
        """Upload a file with its registration; the answer is the federation.

        The file is sent as it is read, whatever its size, and only once: an upload that broke is
        not repeated by itself. Repeating it does no harm: the same content is the same federation.
        """
        described = (None, json.dumps(registration), "application/json")
        # In this order: the service refuses what is wrong before the file is sent.
        parts = [
            ("registration", described),
            ("file", (file_name, file, "application/octet-stream")),
        ]
        timeout = httpx.Timeout(_SENDING_SECONDS, read=_STORING_SECONDS)
        answer = json_as(Federation)
        return Request("POST", "federations", answer, body={"files": parts}, timeout=timeout)

    @stream
    def federations(self, /, **filters: Any) -> AsyncGenerator[Federation, None]:
        """Every federation of the key's project that the filters let through, newest first."""
        return pages(self._wire, "federations", filters, Federation)

    @call
    def federation(self, federation_id: str) -> Request[Federation]:
        """One federation."""
        return _one(federation_id)

    @steps
    async def profiled(self, federation_id: str) -> Federation:
        """The federation, once it is no longer being profiled."""
        wait = _FIRST_WAIT_SECONDS
        while True:
            found = await self._wire.send(_one(federation_id))
            if found["status"] != "profiling":
                return found
            await self._wire.pause(wait)
            wait = min(2 * wait, _MAX_WAIT_SECONDS)

    @call
    def profile(self, federation_id: str) -> Request[Json]:
        """What a federation's data looks like."""
        return Request("GET", f"{_path(federation_id)}/profile", json_object)

    @call
    def delete_federation(self, federation_id: str) -> Request[None]:
        """Delete a federation's file and profile; what was spent on the data stays."""
        return Request("DELETE", _path(federation_id), nothing)

    @call
    def erase_federation(
        self, federation_id: str, *, reference: str | None = None
    ) -> Request[Erasure]:
        """Remove what tells of a federation's people, for good; what was spent and signed stays."""
        body = {} if reference is None else {"reference": reference}
        path = f"{_path(federation_id)}/erasure"
        return Request("POST", path, json_as(Erasure), body={"json": body})

    @call
    def erasure(self, federation_id: str) -> Request[Erasure]:
        """How far a federation's erasure is, and its receipt once it is done."""
        return _erasure(federation_id)

    @steps
    async def erased(self, federation_id: str) -> Erasure:
        """The federation's erasure, once names and files are removed too."""
        wait = _FIRST_WAIT_SECONDS
        while True:
            found = await self._wire.send(_erasure(federation_id))
            if found["status"] == "erased":
                return found
            await self._wire.pause(wait)
            wait = min(2 * wait, _MAX_WAIT_SECONDS)

    @call
    def budgets(self, federation_id: str) -> Request[Sequence[Budget]]:
        """The budgets on a federation's data."""
        return Request("GET", f"{_path(federation_id)}/budget", items)

    @call
    def set_budget(
        self, federation_id: str, budget: Mapping[str, Any]
    ) -> Request[Sequence[Budget]]:
        """Set one budget: `book`, `figure` and `total`; the answer is all of them."""
        path = f"{_path(federation_id)}/budget"
        return Request("PUT", path, items, body={"json": budget})

    @call
    def set_simulation(self, federation_id: str, simulation: str) -> Request[Federation]:
        """Whether noise may be simulated: `allowed` or `forbidden`; gives the federation."""
        path = f"{_path(federation_id)}/simulation"
        return Request("PUT", path, json_as(Federation), body={"json": {"simulation": simulation}})

    @call
    def disclosure(self, federation_id: str) -> Request[Json]:
        """What may be asked of a federation's groups: its policy, and the service's floor."""
        return Request("GET", f"{_path(federation_id)}/disclosure", json_object)

    @call
    def set_disclosure(self, federation_id: str, policy: Mapping[str, Any]) -> Request[Json]:
        """Set the whole policy, `{}` for none; the answer is the policy."""
        path = f"{_path(federation_id)}/disclosure"
        return Request("PUT", path, json_object, body={"json": policy})


def _path(federation_id: str) -> str:
    return f"federations/{path_part(federation_id)}"


def _one(federation_id: str) -> Request[Federation]:
    return Request("GET", _path(federation_id), json_as(Federation))


def _erasure(federation_id: str) -> Request[Erasure]:
    return Request("GET", f"{_path(federation_id)}/erasure", json_as(Erasure))
