"""Calls on federations, ledgers, the audit log, sign-offs and models."""

import json
from collections.abc import Mapping, Sequence
from typing import IO, Any

import httpx

from fedaudit_client.wire import (
    Calls,
    Json,
    Request,
    asks,
    call,
    downloads,
    items,
    json_object,
    last_of,
    lists,
    nothing,
    once,
    path_of,
    polled,
)

# The service answers an upload once the file is checked and stored.
_UPLOADED = httpx.Timeout(45.0, read=600.0)
# While the service signs a ledger, rounds may wait for seconds.
_HELD = httpx.Timeout(30.0, read=60.0)
_PROFILED = ("ready", "rejected", "deleted", "erased")


class FederationCalls(Calls):
    """Calls on federations: data, profiles, budgets and policies."""

    @call
    def register(
        self, registration: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Request[Json]:
        """Register a file below the service's sources folder; returns the federation."""
        asked = {"body": {"json": registration}, **once(idempotency_key)}
        return Request("POST", "federations", json_object, **asked)

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
        answer = json_object
        return Request("POST", "federations", answer, body={"files": parts}, timeout=_UPLOADED)

    federations = lists(
        "federations",
        "Every federation of the key's project that the filters select, newest first.",
        is_filtered=True,
    )
    federation = asks("GET federations/{federation_id}", json_object, "One federation.")

    def profiled(self, federation_id: str) -> Json:
        """The federation, once it is no longer being profiled."""
        request = Request("GET", path_of("federations/{}", federation_id), json_object)
        return last_of(polled(self._wire, request, until=_PROFILED))

    profile = asks(
        "GET federations/{federation_id}/profile", json_object, "A profile of a federation's data."
    )

    @call
    def propose(self, /, federation_id: str, **asked: Any) -> Request[Json]:
        """An experiment for the federation: `spec`, with `reasons`, and whether it is
        `expected_useful`.

        It takes `epsilon` and `delta`, or `leakage`, or `privacy="none"`; and `unit`, `client` or
        `record`.
        """
        path = path_of("federations/{}/proposals", federation_id)
        return Request("POST", path, json_object, body={"json": asked})

    delete_federation = asks(
        "DELETE federations/{federation_id}",
        nothing,
        "Delete a federation's file and profile; what was spent on the data stays.",
    )

    @call
    def erase_federation(
        self, federation_id: str, *, reference: str | None = None
    ) -> Request[Json]:
        """Remove a federation's personal data for good; what was spent and signed stays."""
        body = {} if reference is None else {"reference": reference}
        path = path_of("federations/{}/erasure", federation_id)
        return Request("POST", path, json_object, body={"json": body})

    def erased(self, federation_id: str) -> Json:
        """The federation's erasure, once names and files are removed too."""
        path = path_of("federations/{}/erasure", federation_id)
        request = Request("GET", path, json_object)
        return last_of(polled(self._wire, request, until=("erased",)))

    budgets = asks(
        "GET federations/{federation_id}/budget", items, "The budgets on a federation's data."
    )

    @call
    def set_budget(self, federation_id: str, budget: Mapping[str, Any]) -> Request[Sequence[Json]]:
        """Set one budget: `book`, `figure` and `total`; returns all of them."""
        path = path_of("federations/{}/budget", federation_id)
        return Request("PUT", path, items, body={"json": budget})

    @call
    def set_disclosure(self, federation_id: str, policy: Mapping[str, Any]) -> Request[Json]:
        """Replace the policy, with `{}` for none; returns it."""
        path = path_of("federations/{}/disclosure", federation_id)
        return Request("PUT", path, json_object, body={"json": policy})


class LedgerCalls(Calls):
    """Calls on the ledgers of training that runs elsewhere."""

    @call
    def create_ledger(
        self, terms: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Request[Json]:
        """Open a ledger on these terms, which never change; returns the ledger."""
        asked = {"body": {"json": dict(terms)}, **once(idempotency_key)}
        return Request("POST", "ledgers", json_object, **asked)

    ledger = asks("GET ledgers/{ledger_id}", json_object, "One ledger, and the cost of its rounds.")

    @call
    def reserve_round(
        self, ledger_id: str, round_: int, *, event: Mapping[str, Any], participants: Sequence[str]
    ) -> Request[Json]:
        """Reserve a round before training; the answer says who is `admitted` and `refused`.

        A second reservation of the same round replaces the first.
        """
        body = {"json": {"event": dict(event), "participants": list(participants)}}
        path = path_of("ledgers/{}/rounds/{}/reservation", ledger_id, str(round_))
        return Request("POST", path, json_object, body=body, repeatable=True)

    @call
    def release_round(self, ledger_id: str, round_: int) -> Request[None]:
        """Give back the reservation of a round that will not run."""
        path = path_of("ledgers/{}/rounds/{}/reservation", ledger_id, str(round_))
        return Request("DELETE", path, nothing)

    @call
    def declare_rounds(self, ledger_id: str, rounds: Sequence[Mapping[str, Any]]) -> Request[Json]:
        """Declare rounds that ran, in ascending order; repeating it changes nothing.

        The answer has the chain's head after each round: keep it.
        """
        return Request(
            "POST",
            path_of("ledgers/{}/rounds", ledger_id),
            json_object,
            body={"json": {"rounds": [dict(one) for one in rounds]}},
            timeout=_HELD,
            repeatable=True,
        )

    ledger_report = asks("GET ledgers/{ledger_id}/report.json", json_object, "The report document.")
    ledger_verification = asks(
        "GET ledgers/{ledger_id}/report/verification",
        json_object,
        "The result of the service's check of the report against the stored entries.",
    )
    download_ledger_bundle = downloads(
        "ledgers/{ledger_id}/bundle",
        "Write the bundle for offline verification, a zip, into a file.",
    )


class AuditLogCalls(Calls):
    """Calls on the audit log. The key needs the scope `admin`."""

    audit_log = lists(
        "audit-log",
        "The entries, newest first; filters `actor`, `action`, `subject`, `created_after`.",
        is_filtered=True,
    )

    @call
    def verify_audit_log(self) -> Request[Json]:
        """Whether the log is unchanged, and the newest signed head."""
        return Request("GET", "audit-log/verification", json_object)


class SignOffCalls(Calls):
    """Calls on sign-offs: what people decide about reports."""

    sign_offs = asks(
        "GET experiments/{experiment_id}/sign-offs",
        items,
        "The sign-offs of an experiment's report, oldest first.",
    )

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
        path = path_of("experiments/{}/sign-offs", experiment_id)
        return Request("POST", path, json_object, body={"json": body}, **once(idempotency_key))


class ModelCalls(Calls):
    """Calls on models."""

    download_model = downloads(
        "experiments/{experiment_id}/model",
        """Write the trained hypotheses into a file, as safetensors.

        Raises ConflictError if no guarantee in force covers them.
        """,
    )
    model_layout = asks(
        "GET experiments/{experiment_id}/model-layout",
        json_object,
        """Inputs and outputs of the trained model: features, scales and classes, in order.

        Confidential. Raises ConflictError if no guarantee in force covers the model.
        """,
    )
