"""Webhooks: events, enqueued in the transaction of the change they report; endpoints; deliveries.
One method per event, so that only ids and outcomes leave: receivers read figures over HTTP, with a
key."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, func, or_, select, update

from models.clock import seconds_from_now
from models.person import Actor
from models.repositories.accounts import ProjectRepository
from models.repositories.base import Repository, RowRepository, ScopedRepository, rows_of
from models.repositories.budgets.budgets import Budgets
from models.tables.accounts import WebhookDelivery, WebhookEndpoint
from models.tables.federations import Federation
from models.values import TEST_EVENT, Budget, Cursor, Page, WebhookEvent, new_id, utc_now

_NOT_PASSED = ("fail", "insufficient_evidence")


class AnnouncementRepository(ScopedRepository):
    """Events of one project, each for every endpoint of it that is enabled and has subscribed."""

    def experiments_ended(
        self, *experiment_ids: str, status: str, reason: str | None, gate_outcome: str | None
    ) -> None:
        """`experiment.finished` of each of them."""
        ended = {"status": status, "status_reason": reason, "gate_outcome": gate_outcome}
        events = ({"experiment_id": one, **ended} for one in experiment_ids)
        self._enqueue("experiment.finished", *events)

    def gates_judged(self, experiment_id: str, *, gate_outcome: str | None) -> None:
        """`gate.failed` where the gates were not all passed."""
        if gate_outcome in _NOT_PASSED:
            self._enqueue("gate.failed", {"experiment_id": experiment_id, "outcome": gate_outcome})

    def alarm_raised(self, experiment_id: str, *, alarms: int) -> None:
        """`alarm.raised`: how many attacks found evidence against what was claimed."""
        self._enqueue("alarm.raised", {"experiment_id": experiment_id, "alarms": alarms})

    def ledger_contradicted(self, ledger_id: str, *, round_: int) -> None:
        """`alarm.raised` of a training run elsewhere: by canaries in this round."""
        self._enqueue("alarm.raised", {"ledger_id": ledger_id, "round": round_, "alarms": 1})

    def budget_low(self, federation_id: str, budget: Budget) -> None:
        """`budget.low`: which budget it is, without what it has left."""
        names = ("book", "figure", "delta", "adjacency", "observer")
        payload = {name: getattr(budget, name) for name in names}
        if budget.terms is not None:
            payload |= {"radius": budget.terms.radius, "clip": budget.terms.clip}
        self._enqueue("budget.low", {"federation_id": federation_id, "budget": payload})

    def ledger_round_refused(self, ledger_id: str, *, round_: int) -> None:
        """`ledger.round_refused`: a round of a training run elsewhere was not admitted in full."""
        self._enqueue("ledger.round_refused", {"ledger_id": ledger_id, "round": round_})

    def erasure_completed(self, federation_id: str, *, number: int) -> None:
        """`erasure.completed`: names and files are gone, and the receipt is signed."""
        self._enqueue("erasure.completed", {"federation_id": federation_id, "number": number})

    def test(self, endpoint_id: str) -> WebhookDelivery:
        """`webhook.test` for one endpoint, whatever it has subscribed to."""
        return self._deliver([endpoint_id], TEST_EVENT, {"endpoint_id": endpoint_id})[0]

    def _enqueue(self, event: WebhookEvent, *payloads: Mapping[str, Any]) -> None:
        # One that is deleted meanwhile would fail the transaction that the event reports.
        enabled = (
            self._select(WebhookEndpoint)
            .where(WebhookEndpoint.disabled_at.is_(None))
            .with_for_update(read=True, key_share=True)
            .order_by(WebhookEndpoint.id)
        )
        wanted = [one.id for one in self._all(enabled) if event in one.events]
        for data in payloads if wanted else ():
            self._deliver(wanted, event, data)

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
        event = {"message_id": message_id, "type": type_, "payload": payload, "created_at": now}
        state: dict[str, Any] = {"state": "waiting", "attempts": 0, "retries": 0}
        ids = [new_id() for _ in endpoint_ids]
        # Row by row, because the database's clock is no value for a list of rows.
        for id_, endpoint_id in zip(ids, endpoint_ids, strict=True):
            owner = {"id": id_, "endpoint_id": endpoint_id, "project_id": self.project_id}
            due = {"available_at": seconds_from_now()}
            self.session.add(WebhookDelivery(**owner, **event, **state, **due))
        self.session.flush()
        written = select(WebhookDelivery).where(WebhookDelivery.id.in_(ids))
        return self._all(written.order_by(WebhookDelivery.id))


class WebhookEndpointRepository(RowRepository[WebhookEndpoint]):
    """A project's endpoints. Secrets arrive encrypted, and are stored as they are."""

    _table = WebhookEndpoint

    def add(self, *, by: Actor, **columns: Any) -> WebhookEndpoint:
        """A new endpoint with these columns, enabled."""
        owner = {"id": new_id(), "project_id": self.project_id}
        row = WebhookEndpoint(**owner, **columns, created_at=utc_now(), created_by=vars(by))
        row.updated_at, row.updated_by = row.created_at, row.created_by
        return self.store(row)

    def count(self) -> int:
        """How many the project has."""
        return self.session.scalar(select(func.count()).where(self._own(WebhookEndpoint))) or 0

    def lock(self, id: str) -> WebhookEndpoint | None:
        """Like `get`, locked with its deliveries until the transaction ends."""
        return self._one(self._mine(id).with_for_update())

    def list(self, *, cursor: Cursor | None = None, limit: int = 50) -> Page[WebhookEndpoint]:
        """Oldest first; the cursor is (id,)."""
        statement = self._select(WebhookEndpoint)
        return self._page(statement, WebhookEndpoint.id, cursor, limit, ascending=True)

    def change(self, row: WebhookEndpoint, *, by: Actor, **values: Any) -> None:
        """Changes columns of a locked endpoint."""
        for name, value in values.items():
            setattr(row, name, value)
        row.updated_at = utc_now()
        row.updated_by = vars(by)
        self.session.flush()

    def delete(self, id: str) -> bool:
        """Delete it with all its deliveries; False where the project has no such endpoint."""
        if self.lock(id) is None:
            return False
        self._delete(WebhookDelivery, WebhookDelivery.endpoint_id == id)
        return bool(self._delete(WebhookEndpoint, WebhookEndpoint.id == id))


@dataclass(frozen=True)
class ClaimedDelivery:
    """A delivery that this process may send: a result is taken from its newest attempt alone."""

    row: WebhookDelivery
    url: str
    secrets: tuple[str, ...]
    """Encrypted; the current one first, then one that is still valid beside it."""


@dataclass(frozen=True)
class Attempted:
    """How an attempt ended."""

    status_code: int | None
    duration_seconds: float
    error: str | None
    """None where it was delivered."""


class WebhookDeliveryRepository(ScopedRepository):
    """The deliveries of one project's endpoints, as people look at them."""

    def list(
        self, endpoint_id: str, *, cursor: Cursor | None = None, limit: int = 50
    ) -> Page[WebhookDelivery]:
        """Newest first; the cursor is (id,)."""
        statement = self._select(WebhookDelivery).where(WebhookDelivery.endpoint_id == endpoint_id)
        return self._page(statement, WebhookDelivery.id, cursor, limit)

    def get(self, endpoint_id: str, id: str) -> WebhookDelivery | None:
        """One delivery, or None where the project's endpoint has no such one."""
        mine = (WebhookDelivery.endpoint_id == endpoint_id, WebhookDelivery.id == id)
        return self._one(self._select(WebhookDelivery).where(*mine))

    def send_again(self, endpoint_id: str, id: str) -> bool:
        """Sends it again at once, with a full schedule of retries; False while it is in
        progress."""
        mine = (WebhookDelivery.endpoint_id == endpoint_id, WebhookDelivery.id == id, _is_idle())
        new = {"state": "waiting", "retries": 0, "available_at": seconds_from_now()}
        ended = dict.fromkeys(("lease_until", "ended_at"))
        return self._set(WebhookDelivery, self._own(WebhookDelivery), *mine, **new, **ended)


class WebhookQueueRepository(Repository):
    """Deliveries of all projects. To lock an endpoint and its deliveries, lock the endpoint
    first."""

    def due(self, places: int, *, of_project: int) -> "list[str]":
        """Up to so many that can be sent now: the longest due of each enabled endpoint to which
        nothing is being sent, so that one with many events delays no other; and of a project no
        more than would make `of_project` at once."""
        endpoint, project = WebhookDelivery.endpoint_id, WebhookDelivery.project_id
        sending = self.session.execute(select(endpoint, project).where(~_is_idle())).all()
        held = Counter(project_id for _, project_id in sending)
        order = (WebhookDelivery.available_at, WebhookDelivery.id)
        place = func.row_number().over(partition_by=endpoint, order_by=order)
        firsts = (
            select(WebhookDelivery.id, project, order[0], place.label("place"))
            .join(WebhookEndpoint, WebhookEndpoint.id == endpoint)
            .where(_claimable(), WebhookEndpoint.disabled_at.is_(None))
            .where(endpoint.not_in([endpoint_id for endpoint_id, _ in sending]))
            .subquery()
        )
        columns = firsts.c
        first = select(columns.id, columns.project_id).where(columns.place == 1)
        chosen = list[str]()
        for id_, project_id in self.session.execute(first.order_by(columns.available_at)):
            if len(chosen) < places and held[project_id] < of_project:
                held[project_id] += 1
                chosen.append(id_)
        return chosen

    def claim(self, id: str, *, lease_seconds: float) -> ClaimedDelivery | None:
        """Takes a delivery for a time; None where another process was faster."""
        leased = update(WebhookDelivery).values(
            state="sending",
            attempts=WebhookDelivery.attempts + 1,
            lease_until=seconds_from_now(lease_seconds),
        )
        mine = leased.where(WebhookDelivery.id == id, _claimable())
        row = self._returned(mine, WebhookDelivery).scalar_one_or_none()
        if row is None:
            return None
        endpoint = self._one(select(WebhookEndpoint).where(WebhookEndpoint.id == row.endpoint_id))
        assert endpoint is not None
        secrets = [endpoint.secret]
        until = endpoint.previous_until
        if endpoint.previous_secret is not None and until is not None and utc_now() < until:
            secrets.append(endpoint.previous_secret)
        return ClaimedDelivery(row, endpoint.url, tuple(secrets))

    def note(
        self,
        claimed: ClaimedDelivery,
        attempted: Attempted,
        *,
        retry_in: float | None,
        disable: str | None,
        disable_after: timedelta,
    ) -> None:
        """Records how an attempt ended, unless another process has taken the delivery. A failure is
        to be retried in `retry_in` seconds or (None) never. It disables the endpoint for the reason
        `disable`, or after `disable_after` without a success."""
        mine = select(WebhookEndpoint).where(WebhookEndpoint.id == claimed.row.endpoint_id)
        endpoint, error = self._one(mine.with_for_update()), attempted.error
        if endpoint is None:
            return  # it was deleted meanwhile, and its deliveries with it
        ended: dict[str, Any] = {"state": "failed", "ended_at": seconds_from_now()}
        if error is None:
            endpoint.failing_since, ended["state"] = None, "delivered"
        elif retry_in is not None:
            again = {"retries": claimed.row.retries + 1, "available_at": seconds_from_now(retry_in)}
            ended = {"state": "waiting", **again}
        ended |= {**vars(attempted), "attempted_at": seconds_from_now(), "lease_until": None}
        newest = WebhookDelivery.attempts == claimed.row.attempts
        sending = (WebhookDelivery.id == claimed.row.id, WebhookDelivery.state == "sending", newest)
        noted = self._set(WebhookDelivery, *sending, **ended)
        if not noted or error is None:
            return
        now = utc_now()
        endpoint.failing_since = endpoint.failing_since or now
        if disable is None and now - endpoint.failing_since >= disable_after:
            disable = (
                f"every attempt since {endpoint.failing_since:%Y-%m-%d %H:%M} UTC has failed, the "
                f"last one with: {error[:200]}"
            )
        if disable is not None and endpoint.disabled_at is None:
            endpoint.disabled_at, endpoint.disabled_reason = now, disable
            endpoint.updated_at, endpoint.updated_by = now, None

    def forget(self, older_than: timedelta, *, limit: int = 1000) -> int:
        """Deletes deliveries that old, whatever became of them; returns how many."""
        old = (
            select(WebhookDelivery.id)
            .where(WebhookDelivery.created_at < utc_now() - older_than, _is_idle())
            .order_by(WebhookDelivery.created_at)
            .limit(limit)
        )
        return self._delete(WebhookDelivery, WebhookDelivery.id.in_(old))


def _lease_ran_out() -> ColumnElement[bool]:
    sending = WebhookDelivery.state == "sending"
    return and_(sending, WebhookDelivery.lease_until <= seconds_from_now())


def _is_idle() -> ColumnElement[bool]:
    """No process is sending it."""
    return or_(WebhookDelivery.state != "sending", _lease_ran_out())


def _claimable() -> ColumnElement[bool]:
    waits = WebhookDelivery.state == "waiting"
    return or_(and_(waits, WebhookDelivery.available_at <= seconds_from_now()), _lease_ran_out())


_LOW_SHARE = 0.1
_ENABLED = (
    select(Federation.project_id, Federation.id, WebhookEndpoint.events)
    .join(WebhookEndpoint, WebhookEndpoint.project_id == Federation.project_id)
    .where(
        Federation.id.in_(bindparam("federation_ids", expanding=True)),
        WebhookEndpoint.disabled_at.is_(None),
    )
    .order_by(Federation.id)
)


@contextmanager
def announcing_low(budgets: Budgets, federation_id: str) -> Iterator[None]:
    """Announces each budget with no more than a tenth of its total left after the block, and more
    before: once for each crossing. Every project whose spending counts is notified, under its own
    federation's id, and without a webhook that subscribes to it no budget is read. Else the content
    is locked, so that of two transactions that draw at once only one crosses."""
    sharing = budgets.sharing(federation_id)
    enabled = rows_of(budgets.session, _ENABLED, federation_ids=sharing.ids)
    notified = dict.fromkeys((own, id_) for own, id_, events in enabled if "budget.low" in events)
    if notified:
        budgets.hold(id=federation_id)
    before = {one: _low(budgets, *one) for one in notified}
    yield
    for (project_id, id_), known in before.items():
        announcements = AnnouncementRepository(budgets.session, project_id)
        for key, budget in _low(budgets, project_id, id_).items():
            if key not in known:
                announcements.budget_low(id_, budget)


def _low(budgets: Budgets, project_id: str, federation_id: str) -> dict[tuple[object, ...], Budget]:
    seen = budgets.of_project(project_id)
    low: dict[tuple[object, ...], Budget] = {}
    # Composed only where there is a total: an epsilon without one would be composed for nothing.
    bounded = (one for one in seen.budgets(federation_id, shown=False) if one.total is not None)
    for budget in (seen.composed(federation_id, one) for one in bounded):
        if budget.total is not None and (budget.remaining or 0.0) <= _LOW_SHARE * budget.total:
            terms = None if budget.terms is None else budget.terms.key
            whose = (budget.adjacency, budget.observer, budget.for_clients)
            low[budget.book, budget.figure, budget.delta, *whose, terms] = budget
    return low
