"""Calls on sign-offs of reports."""

from collections.abc import Sequence

from fedaudit_client.http.answers import items, json_as
from fedaudit_client.http.calls import Calls, call
from fedaudit_client.http.request import Request, experiment_path, once
from fedaudit_client.result_types import SignOff


class SignOffCalls(Calls):
    """What people state of reports."""

    @call
    def sign_offs(self, experiment_id: str) -> Request[Sequence[SignOff]]:
        """The sign-offs of an experiment's report, oldest first."""
        return Request("GET", _path(experiment_id), items)

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
        path = _path(experiment_id)
        return Request("POST", path, json_as(SignOff), body={"json": body}, **once(idempotency_key))


def _path(experiment_id: str) -> str:
    return f"{experiment_path(experiment_id)}/sign-offs"
