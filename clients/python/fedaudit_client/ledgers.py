"""Calls on ledgers of trainings that run elsewhere."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import IO, Any

import httpx

from fedaudit_client.http.calls import Calls, call, pages, steps, stream
from fedaudit_client.http.request import (
    Json,
    Request,
    content,
    json_object,
    nothing,
    once,
    path_part,
    text,
)

# A service that signs a ledger may keep its rounds waiting for seconds.
_HELD = httpx.Timeout(30.0, read=60.0)


class LedgerCalls(Calls):
    """What a trainer declares, and what comes of it."""

    @call
    def create_ledger(
        self, terms: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Request[Json]:
        """Open a ledger on these terms, which never change; the answer is the ledger."""
        body = {"json": dict(terms)}
        return Request("POST", "ledgers", json_object, body=body, **once(idempotency_key))

    @stream
    def ledgers(self) -> AsyncGenerator[Json, None]:
        """Every ledger of the key's project, newest first."""
        return pages(self._wire, "ledgers", {}, Json)

    @call
    def ledger(self, ledger_id: str) -> Request[Json]:
        """One ledger, and what its rounds come to."""
        return Request("GET", _path(ledger_id), json_object)

    @call
    def reserve_round(
        self, ledger_id: str, round_: int, *, event: Mapping[str, Any], participants: Sequence[str]
    ) -> Request[Json]:
        """Ask before anybody trains; the answer says who is `admitted` and who is `refused`.

        Asked again for the same round, the answer takes the place of the first.
        """
        body = {"json": {"event": dict(event), "participants": list(participants)}}
        path = _reservation(ledger_id, round_)
        return Request("POST", path, json_object, body=body, repeatable=True)

    @call
    def release_round(self, ledger_id: str, round_: int) -> Request[None]:
        """Give back what is held for a round that will not run."""
        return Request("DELETE", _reservation(ledger_id, round_), nothing)

    @call
    def declare_rounds(self, ledger_id: str, rounds: Sequence[Mapping[str, Any]]) -> Request[Json]:
        """Declare rounds that ran, in ascending order; the same again changes nothing.

        The answer has the chain's head behind each round: keep it.
        """
        return Request(
            "POST",
            f"{_path(ledger_id)}/rounds",
            json_object,
            body={"json": {"rounds": [dict(one) for one in rounds]}},
            timeout=_HELD,
            repeatable=True,
        )

    @call
    def ledger_report(self, ledger_id: str) -> Request[Json]:
        """The report document."""
        return Request("GET", f"{_path(ledger_id)}/report.json", json_object)

    @call
    def ledger_report_page(self, ledger_id: str) -> Request[str]:
        """The report as one HTML page."""
        return Request("GET", f"{_path(ledger_id)}/report.html", text)

    @call
    def ledger_verification(self, ledger_id: str) -> Request[Json]:
        """What the service found when it checked the report against the stored entries."""
        return Request("GET", f"{_path(ledger_id)}/report/verification", json_object)

    @steps
    async def download_ledger_bundle(self, ledger_id: str, file: IO[bytes]) -> None:
        """Write everything that offline verification needs into a file, as a zip."""
        async for chunk in self._wire.read(Request("GET", f"{_path(ledger_id)}/bundle", content)):
            file.write(chunk)

    @call
    def evaluate_ledger_gates(
        self,
        ledger_id: str,
        gates: Sequence[Mapping[str, Any]] | None = None,
        *,
        policy: str | None = None,
    ) -> Request[Json]:
        """Whether the ledger meets these gates, or a stored policy's; they must allow what is
        declared."""
        asked = {"ledger_id": ledger_id, "gates": gates, "policy": policy}
        body = {name: value for name, value in asked.items() if value is not None}
        return Request(
            "POST", "gates/evaluations", json_object, body={"json": body}, repeatable=True
        )


def _path(ledger_id: str) -> str:
    return f"ledgers/{path_part(ledger_id)}"


def _reservation(ledger_id: str, round_: int) -> str:
    return f"{_path(ledger_id)}/rounds/{round_}/reservation"
