"""Calls on federations, ledgers, the audit log, sign-offs and models."""

import json
from collections.abc import Mapping, Sequence
from typing import IO, Any

import httpx

from fedaudit_client.wire import Calls, Json, json_with, nothing, once, path_of, stated

# The service answers an upload once the file is checked and stored.
_UPLOADED = httpx.Timeout(45.0, read=600.0)
# While the service signs a ledger, rounds may wait for seconds.
_HELD = httpx.Timeout(30.0, read=60.0)
_RESERVATION = "ledgers/{}/rounds/{}/reservation"
_PROFILED = ("ready", "rejected", "deleted", "erased")


class ProjectCalls(Calls):
    """Calls on federations, ledgers of training that runs elsewhere, sign-offs and models."""

    def upload(self, file: IO[bytes], registration: Mapping[str, Any], *, file_name: str) -> Json:
        """Upload a file with its registration; returns the federation.

        The file is streamed, and an upload that broke is not repeated by itself. Repeating it is
        harmless: the same content is the same federation.
        """
        # In this order: the service refuses a wrong registration before the file is sent.
        parts = [
            ("registration", (None, json.dumps(registration), "application/json")),
            ("file", (file_name, file, "application/octet-stream")),
        ]
        return self._posted("federations", files=parts, timeout=_UPLOADED)

    def federation(self, federation_id: str) -> Json:
        """One federation."""
        return self._got("federations/{}", federation_id)

    def profiled(self, federation_id: str) -> Json:
        """The federation, once it is no longer being profiled."""
        return self._awaited("federations/{}", federation_id, until=_PROFILED)

    def propose(self, /, federation_id: str, **asked: Any) -> Json:
        """An experiment for the federation: `spec`, with `reasons`, and whether it is
        `expected_useful`.

        It takes `epsilon` and `delta`, or `leakage`, or `privacy="none"`; and `unit`, `client` or
        `record`.
        """
        return self._posted("federations/{}/proposals", federation_id, json=asked)

    def delete_federation(self, federation_id: str) -> None:
        """Delete a federation's file and profile; what was spent on the data stays."""
        return self._send("DELETE", path_of("federations/{}", federation_id), nothing)

    def erase_federation(self, federation_id: str, *, reference: str | None = None) -> Json:
        """Remove a federation's personal data for good; what was spent and signed stays."""
        asked = stated(reference=reference)
        return self._posted("federations/{}/erasure", federation_id, json=asked)

    def erased(self, federation_id: str) -> Json:
        """The federation's erasure, once names and files are removed too."""
        return self._awaited("federations/{}/erasure", federation_id, until=("erased",))

    def budgets(self, federation_id: str) -> Sequence[Json]:
        """The budgets on a federation's data."""
        return self._budgets("GET", federation_id)

    def set_budget(self, federation_id: str, budget: Mapping[str, Any]) -> Sequence[Json]:
        """Set one budget: `book`, `figure` and `total`; returns all of them."""
        return self._budgets("PUT", federation_id, json=budget)

    def _budgets(self, method: str, federation_id: str, **options: Any) -> list[Json]:
        path = path_of("federations/{}/budget", federation_id)
        found: list[Json] = self._send(method, path, json_with("items"), **options)["items"]
        return found

    def create_ledger(
        self, terms: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Json:
        """Open a ledger on these terms, which never change; returns the ledger."""
        return self._posted("ledgers", json=dict(terms), **once(idempotency_key))

    def ledger(self, ledger_id: str) -> Json:
        """One ledger, and the cost of its rounds."""
        return self._got("ledgers/{}", ledger_id)

    def reserve_round(
        self, ledger_id: str, round_: int, *, event: Mapping[str, Any], participants: Sequence[str]
    ) -> Json:
        """Reserve a round before training; the answer says who is `admitted` and `refused`.

        A second reservation of the same round replaces the first.
        """
        body = {"event": dict(event), "participants": list(participants)}
        return self._posted(_RESERVATION, ledger_id, str(round_), json=body, repeatable=True)

    def release_round(self, ledger_id: str, round_: int) -> None:
        """Give back the reservation of a round that will not run."""
        return self._send("DELETE", path_of(_RESERVATION, ledger_id, str(round_)), nothing)

    def declare_rounds(self, ledger_id: str, rounds: Sequence[Mapping[str, Any]]) -> Json:
        """Declare rounds that ran, in ascending order; repeating it changes nothing.

        The answer has the chain's head after each round: keep it.
        """
        body = {"rounds": [dict(one) for one in rounds]}
        return self._posted(
            "ledgers/{}/rounds", ledger_id, json=body, timeout=_HELD, repeatable=True
        )

    def ledger_report(self, ledger_id: str) -> Json:
        """The report document."""
        return self._got("ledgers/{}/report.json", ledger_id)

    def download_ledger_bundle(self, ledger_id: str, file: IO[bytes]) -> None:
        """Write the bundle for offline verification, a zip, into a file."""
        self._save(file, "ledgers/{}/bundle", ledger_id)

    def sign_off(
        self,
        experiment_id: str,
        decision: str,
        *,
        note: str = "",
        role: str | None = None,
        report_hash: str | None = None,
        idempotency_key: str | None = None,
    ) -> Json:
        """Approve, reject or send back the report, in the name of the key's person.

        `decision`: `approved`, `rejected` or `needs-changes`. `report_hash`: the hash of the report
        that was read; another one is refused.
        """
        asked = stated(decision=decision, note=note, role=role, report_hash=report_hash)
        again = once(idempotency_key)
        return self._posted("experiments/{}/sign-offs", experiment_id, json=asked, **again)

    def download_model(self, experiment_id: str, file: IO[bytes]) -> None:
        """Write the trained hypotheses into a file, as safetensors.

        Raises ConflictError if no guarantee in force covers them.
        """
        self._save(file, "experiments/{}/model", experiment_id)

    def model_layout(self, experiment_id: str) -> Json:
        """Inputs and outputs of the trained model: features, scales and classes, in order.

        Confidential. Raises ConflictError if no guarantee in force covers the model.
        """
        return self._got("experiments/{}/model-layout", experiment_id)
