"""What receivers of webhooks are told: written in the transaction of what they are told of.

A call for each event, so that nothing but ids and outcomes can leave: receivers read figures over
HTTP, with a key whose scopes allow it. Nothing is written where nobody has subscribed.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from models.clock import seconds_from_now, utc_now
from models.identifiers import new_id
from models.repositories.base import ScopedRepository
from models.repositories.projects import ProjectRepository
from models.tables.webhooks.webhook_deliveries import WebhookDelivery
from models.tables.webhooks.webhook_endpoints import WebhookEndpoint
from models.values import Budget
from models.webhook_events import TEST_EVENT, WebhookEvent

_NOT_PASSED = ("fail", "insufficient_evidence")


class AnnouncementRepository(ScopedRepository):
    """Events of one project, each for every endpoint of it that is enabled and has subscribed."""

    def experiment_ended(
        self,
        experiment_id: str,
        *,
        status: str,
        reason: str | None,
        gate_outcome: str | None,
        alarms: int = 0,
    ) -> None:
        """`experiment.finished`, `gate.failed` where its gates were not all passed, and
        `alarm.raised` where attacks raised alarms."""
        told = {"experiment_id": experiment_id}
        ended = {"status": status, "status_reason": reason, "gate_outcome": gate_outcome}
        self._tell("experiment.finished", {**told, **ended})
        self.gates_judged(experiment_id, gate_outcome=gate_outcome)
        if alarms:
            self.alarm_raised(experiment_id, alarms=alarms)

    def gates_judged(self, experiment_id: str, *, gate_outcome: str | None) -> None:
        """`gate.failed` where the gates were not all passed."""
        if gate_outcome in _NOT_PASSED:
            self._tell("gate.failed", {"experiment_id": experiment_id, "outcome": gate_outcome})

    def alarm_raised(self, experiment_id: str, *, alarms: int) -> None:
        """`alarm.raised`: how many attacks found evidence against what was claimed."""
        self._tell("alarm.raised", {"experiment_id": experiment_id, "alarms": alarms})

    def budget_low(self, federation_id: str, budget: Budget) -> None:
        """`budget.low`: which budget it is, without what it has left."""
        names = ("book", "figure", "delta", "adjacency", "observer")
        told = {name: getattr(budget, name) for name in names}
        if budget.terms is not None:
            told |= {"radius": budget.terms.radius, "clip": budget.terms.clip}
        self._tell("budget.low", {"federation_id": federation_id, "budget": told})

    def ledger_round_refused(self, ledger_id: str, *, round_: int) -> None:
        """`ledger.round_refused`: a round of a training run elsewhere was not admitted in full."""
        self._tell("ledger.round_refused", {"ledger_id": ledger_id, "round": round_})

    def erasure_completed(self, federation_id: str, *, number: int) -> None:
        """`erasure.completed`: names and files are gone, and the receipt is signed."""
        self._tell("erasure.completed", {"federation_id": federation_id, "number": number})

    def tells(self, event: WebhookEvent) -> bool:
        """Whether anybody has subscribed: finding out what to tell may be costly."""
        return any(event in one.events for one in self._enabled(lock=False))

    def test(self, endpoint_id: str) -> WebhookDelivery:
        """`webhook.test` for one endpoint, whatever it has subscribed to."""
        return self._deliver([endpoint_id], TEST_EVENT, {"endpoint_id": endpoint_id})[0]

    def _tell(self, event: WebhookEvent, data: Mapping[str, Any]) -> None:
        wanted = [one.id for one in self._enabled(lock=True) if event in one.events]
        if wanted:
            self._deliver(wanted, event, data)

    def _enabled(self, *, lock: bool) -> list[WebhookEndpoint]:
        statement = self._select(WebhookEndpoint).where(WebhookEndpoint.disabled_at.is_(None))
        if lock:
            # One that is deleted meanwhile would fail the transaction that is told of.
            statement = statement.with_for_update(read=True, key_share=True)
        return self._all(statement.order_by(WebhookEndpoint.id))

    def _deliver(
        self, endpoint_ids: list[str], type_: str, data: Mapping[str, Any]
    ) -> list[WebhookDelivery]:
        now, message_id = utc_now(), f"msg_{new_id()}"
        project = ProjectRepository(self.session).name(self.project_id)
        payload = {
            "type": type_,
            "timestamp": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "data": {"project": project, **data},
        }
        rows = []
        for endpoint_id in endpoint_ids:
            row = {
                "id": new_id(),
                "endpoint_id": endpoint_id,
                "project_id": self.project_id,
                "message_id": message_id,
                "type": type_,
                "payload": payload,
                "state": "waiting",
                "attempts": 0,
                "retries": 0,
                "available_at": seconds_from_now(),
                "created_at": now,
            }
            # Row by row: the database's clock is no value of which a list of rows could be made.
            self.session.add(WebhookDelivery(**row))
            rows.append(row["id"])
        self.session.flush()
        written = select(WebhookDelivery).where(WebhookDelivery.id.in_(rows))
        return self._all(written.order_by(WebhookDelivery.id))
