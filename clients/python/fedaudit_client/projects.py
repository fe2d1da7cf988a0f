"""Calls on federations, ledgers, the audit log, sign-offs and models."""

import json
from collections.abc import Mapping, Sequence
from typing import IO, Any

import httpx

from fedaudit_client.wire import (
    Calls,
    Json,
    Request,
    call,
    got,
    items,
    json_object,
    nothing,
    once,
    path_of,
    posted,
)

# The service answers an upload once the file is checked and stored.
_UPLOADED = httpx.Timeout(45.0, read=600.0)
# While the service signs a ledger, rounds may wait for seconds.
_HELD = httpx.Timeout(30.0, read=60.0)
_RESERVATION = "ledgers/{}/rounds/{}/reservation"
_PROFILED = ("ready", "rejected", "deleted", "erased")


class ProjectCalls(Calls):
    """Calls on federations, ledgers of training that runs elsewhere, sign-offs and models."""

    @call
    def upload(
        self, file: IO[bytes], registration: Mapping[str, Any], *, file_name: str
    ) -> Request[Json]:
        """Upload a file with its registration; returns the federation.

        The file is streamed, and an upload that broke is not repeated by itself. Repeating it is
        harmless: the same content is the same federation.
        """
        # In this order: the service refuses a wrong registration before the file is sent.
        parts = [
            ("registration", (None, json.dumps(registration), "application/json")),
            ("file", (file_name, file, "application/octet-stream")),
        ]
        files = {"files": parts}
        return Request("POST", "federations", json_object, body=files, timeout=_UPLOADED)

    @call
    def federation(self, federation_id: str) -> Request[Json]:
        """One federation."""
        return got("federations/{}", federation_id)

    def profiled(self, federation_id: str) -> Json:
        """The federation, once it is no longer being profiled."""
        return self._awaited(got("federations/{}", federation_id), until=_PROFILED)

    @call
    def propose(self, /, federation_id: str, **asked: Any) -> Request[Json]:
        """An experiment for the federation: `spec`, with `reasons`, and whether it is
        `expected_useful`.

        It takes `epsilon` and `delta`, or `leakage`, or `privacy="none"`; and `unit`, `client` or
        `record`.
        """
        return posted("federations/{}/proposals", federation_id, json=asked)

    @call
    def delete_federation(self, federation_id: str) -> Request[None]:
        """Delete a federation's file and profile; what was spent on the data stays."""
        return Request("DELETE", path_of("federations/{}", federation_id), nothing)

    @call
    def erase_federation(
        self, federation_id: str, *, reference: str | None = None
    ) -> Request[Json]:
        """Remove a federation's personal data for good; what was spent and signed stays."""
        body = {} if reference is None else {"reference": reference}
        return posted("federations/{}/erasure", federation_id, json=body)

    def erased(self, federation_id: str) -> Json:
        """The federation's erasure, once names and files are removed too."""
        return self._awaited(got("federations/{}/erasure", federation_id), until=("erased",))

    @call
    def budgets(self, federation_id: str) -> Request[Sequence[Json]]:
        """The budgets on a federation's data."""
        return Request("GET", path_of("federations/{}/budget", federation_id), items)

    @call
    def set_budget(self, federation_id: str, budget: Mapping[str, Any]) -> Request[Sequence[Json]]:
        """Set one budget: `book`, `figure` and `total`; returns all of them."""
        path = path_of("federations/{}/budget", federation_id)
        return Request("PUT", path, items, body={"json": budget})

    @call
    def create_ledger(
        self, terms: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Request[Json]:
        """Open a ledger on these terms, which never change; returns the ledger."""
        return posted("ledgers", json=dict(terms), **once(idempotency_key))

    @call
    def ledger(self, ledger_id: str) -> Request[Json]:
        """One ledger, and the cost of its rounds."""
        return got("ledgers/{}", ledger_id)

    @call
    def reserve_round(
        self, ledger_id: str, round_: int, *, event: Mapping[str, Any], participants: Sequence[str]
    ) -> Request[Json]:
        """Reserve a round before training; the answer says who is `admitted` and `refused`.

        A second reservation of the same round replaces the first.
        """
        body = {"event": dict(event), "participants": list(participants)}
        return posted(_RESERVATION, ledger_id, str(round_), json=body, repeatable=True)

    @call
    def release_round(self, ledger_id: str, round_: int) -> Request[None]:
        """Give back the reservation of a round that will not run."""
        return Request("DELETE", path_of(_RESERVATION, ledger_id, str(round_)), nothing)

    @call
    def declare_rounds(self, ledger_id: str, rounds: Sequence[Mapping[str, Any]]) -> Request[Json]:
        """Declare rounds that ran, in ascending order; repeating it changes nothing.

        The answer has the chain's head after each round: keep it.
        """
        body = {"rounds": [dict(one) for one in rounds]}
        return posted("ledgers/{}/rounds", ledger_id, json=body, timeout=_HELD, repeatable=True)

    @call
    def ledger_report(self, ledger_id: str) -> Request[Json]:
        """The report document."""
        return got("ledgers/{}/report.json", ledger_id)

    def download_ledger_bundle(self, ledger_id: str, file: IO[bytes]) -> None:
        """Write the bundle for offline verification, a zip, into a file."""
        self._save(path_of("ledgers/{}/bundle", ledger_id), file)

    @call
    def sign_off(
        self,
        experiment_id: str,
        decision: str,
        *,
        note: str = "",
        role: str | None = None,
        report_hash: str | None = None,
        idempotency_key: str | None = None,
    ) -> Request[Json]:
        """Approve, reject or send back the report, in the name of the key's person.

        `decision`: `approved`, `rejected` or `needs-changes`. `report_hash`: the hash of the report
        that was read; another one is refused.
        """
        asked = {"decision": decision, "note": note, "role": role, "report_hash": report_hash}
        body = {name: value for name, value in asked.items() if value is not None}
        again = once(idempotency_key)
        return posted("experiments/{}/sign-offs", experiment_id, json=body, **again)

    def download_model(self, experiment_id: str, file: IO[bytes]) -> None:
        """Write the trained hypotheses into a file, as safetensors.

        Raises ConflictError if no guarantee in force covers them.
        """
        self._save(path_of("experiments/{}/model", experiment_id), file)

    @call
    def model_layout(self, experiment_id: str) -> Request[Json]:
        """Inputs and outputs of the trained model: features, scales and classes, in order.

        Confidential. Raises ConflictError if no guarantee in force covers the model.
        """
        return got("experiments/{}/model-layout", experiment_id)
