"""Calls on a project: its keys, audit log, webhooks, sign-offs and files of parameters."""

from collections.abc import AsyncGenerator, Sequence
from typing import IO, Any

import httpx

from fedaudit_client.http.calls import Calls, call, pages, steps, stream
from fedaudit_client.http.request import (
    Json,
    Request,
    content,
    experiment_path,
    items,
    json_as,
    json_object,
    nothing,
    once,
    path_part,
)
from fedaudit_client.result_types import Artifact, Key, ListedArtifact, NewKey, SignOff


class KeyCalls(Calls):
    """What can be done with keys."""

    @call
    def keys(self) -> Request[Sequence[Key]]:
        """The project's API keys, without their secrets."""
        return Request("GET", "api-keys", items)

    @call
    def create_key(self, *, name: str, scopes: Sequence[str]) -> Request[NewKey]:
        """A new key; `key` in the answer is shown this once."""
        body = {"name": name, "scopes": list(scopes)}
        return Request("POST", "api-keys", json_as(NewKey), body={"json": body})

    @call
    def rotate_key(self, key_id: str, *, overlap_seconds: int = 86400) -> Request[NewKey]:
        """A new secret for a key, in `key`, shown this once; the old one opens it for so long."""
        path = f"api-keys/{path_part(key_id)}/rotation"
        return Request("POST", path, json_as(NewKey), params={"overlap_seconds": overlap_seconds})

    @call
    def revoke_key(self, key_id: str) -> Request[None]:
        """End a key."""
        return Request("DELETE", f"api-keys/{path_part(key_id)}", nothing)


class AuditLogCalls(Calls):
    """What can be asked of the log. The key needs the scope `admin`."""

    @stream
    def audit_log(self, /, **filters: str) -> AsyncGenerator[Json, None]:
        """The entries, newest first; `filters` as `actor`, `action`, `subject`, `created_after`."""
        return pages(self._wire, "audit-log", filters, Json)

    @call
    def verify_audit_log(self) -> Request[Json]:
        """Whether the log is what was written, and the newest signed head."""
        return Request("GET", "audit-log/verification", json_object)


class WebhookCalls(Calls):
    """What can be done with webhooks. The key needs the scope `admin`."""

    @stream
    def webhooks(self) -> AsyncGenerator[Json, None]:
        """Every webhook of the key's project, oldest first."""
        return pages(self._wire, "webhooks", {}, Json)

    @call
    def webhook(self, webhook_id: str) -> Request[Json]:
        """One webhook, without its secret."""
        return Request("GET", _path(webhook_id), json_object)

    @call
    def create_webhook(
        self, url: str, events: Sequence[str], *, description: str = ""
    ) -> Request[Json]:
        """A new webhook; `secret` in the answer is shown this once."""
        body = {"url": url, "events": list(events), "description": description}
        return Request("POST", "webhooks", json_object, body={"json": body})

    @call
    def change_webhook(self, /, webhook_id: str, **changes: Any) -> Request[Json]:
        """Change `url`, `events`, `description` or `enabled`; what is not named stays."""
        return Request("PATCH", _path(webhook_id), json_object, body={"json": changes})

    @call
    def delete_webhook(self, webhook_id: str) -> Request[None]:
        """Delete a webhook, with whatever waits for it."""
        return Request("DELETE", _path(webhook_id), nothing)

    @call
    def test_webhook(self, webhook_id: str) -> Request[Json]:
        """Have the event `webhook.test` sent; gives its delivery."""
        return Request("POST", f"{_path(webhook_id)}/test", json_object)

    @call
    def rotate_webhook_secret(
        self, webhook_id: str, *, overlap_seconds: int = 86400
    ) -> Request[Json]:
        """Replace the secret; the old one signs too for so long. `secret` is shown this once."""
        parameters = {"overlap_seconds": overlap_seconds}
        path = f"{_path(webhook_id)}/rotate-secret"
        return Request("POST", path, json_object, params=parameters)

    @stream
    def webhook_deliveries(self, webhook_id: str) -> AsyncGenerator[Json, None]:
        """What was sent in the last 30 days and what waits, newest first."""
        return pages(self._wire, f"{_path(webhook_id)}/deliveries", {}, Json)

    @call
    def redeliver_webhook(self, webhook_id: str, delivery_id: str) -> Request[Json]:
        """Have a delivery sent again, under the same `webhook-id`."""
        path = f"{_path(webhook_id)}/deliveries/{path_part(delivery_id)}/redeliver"
        return Request("POST", path, json_object)


def _path(webhook_id: str) -> str:
    return f"webhooks/{path_part(webhook_id)}"


class SignOffCalls(Calls):
    """What people state of reports."""

    @call
    def sign_offs(self, experiment_id: str) -> Request[Sequence[SignOff]]:
        """The sign-offs of an experiment's report, oldest first."""
        return Request("GET", _sign_offs_path(experiment_id), items)

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
    ) -> Request[SignOff]:
        """Approve, reject or send back the report, in the name of the key's person.

        `decision`: `approved`, `rejected` or `needs-changes`. `report_hash`: of the report that was
        read, refused where it is another one.
        """
        asked = {"decision": decision, "note": note, "role": role, "report_hash": report_hash}
        body = {name: value for name, value in asked.items() if value is not None}
        path = _sign_offs_path(experiment_id)
        return Request("POST", path, json_as(SignOff), body={"json": body}, **once(idempotency_key))


def _sign_offs_path(experiment_id: str) -> str:
    return f"{experiment_path(experiment_id)}/sign-offs"


_SENDING_SECONDS = 45.0
# The service answers an upload once the file is checked and stored.
_STORING_SECONDS = 600.0


class ModelCalls(Calls):
    """What can be done with models: fetch them, and bring parameters to start from."""

    @steps
    async def download_model(self, experiment_id: str, file: IO[bytes]) -> None:
        """Write the trained hypotheses into a file, as safetensors.

        Raises ConflictError where no guarantee in force covers them.
        """
        request = Request("GET", f"{experiment_path(experiment_id)}/model", content)
        await self._wire.download(request, file)

    @call
    def model_layout(self, experiment_id: str) -> Request[Json]:
        """What goes into the trained model and comes out: features, scales and classes, in order.

        Confidential. Raises ConflictError where no guarantee in force covers the model.
        """
        return Request("GET", f"{experiment_path(experiment_id)}/model-layout", json_object)

    @call
    def upload_artifact(self, file: IO[bytes], *, name: str | None = None) -> Request[Artifact]:
        """Upload parameters to start from, as safetensors; the answer is the artifact.

        `name` is what the list calls it.
        Repeating it does no harm: the same content is the same artifact.
        """
        return Request(
            "POST",
            "artifacts",
            json_as(Artifact),
            params={} if name is None else {"name": name},
            headers={"Content-Type": "application/octet-stream"},
            body={"content": file.read()},
            timeout=httpx.Timeout(_SENDING_SECONDS, read=_STORING_SECONDS),
            repeatable=True,
        )

    @stream
    def artifacts(self) -> AsyncGenerator[ListedArtifact, None]:
        """The project's files of parameters, newest first: name, hash, size, when and by whom they
        were sent, and which experiments start from them."""
        return pages(self._wire, "artifacts", {}, ListedArtifact)

    @call
    def artifact(self, artifact_id: str) -> Request[Artifact]:
        """What is in a file of parameters."""
        return Request("GET", _artifact(artifact_id), json_as(Artifact))

    @call
    def delete_artifact(self, artifact_id: str) -> Request[None]:
        """Delete a file of parameters."""
        return Request("DELETE", _artifact(artifact_id), nothing)


def _artifact(artifact_id: str) -> str:
    return f"artifacts/{path_part(artifact_id)}"
