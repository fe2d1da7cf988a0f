"""Deliveries: claimed for a time by whoever sends them, and what became of each."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update

from models.clock import seconds_from_now, utc_now
from models.repositories.base import Repository, ScopedRepository
from models.tables.webhooks.webhook_deliveries import WebhookDelivery
from models.tables.webhooks.webhook_endpoints import WebhookEndpoint
from models.values import Cursor, Page

_MAX_ERROR_CHARACTERS = 500


@dataclass(frozen=True)
class ClaimedDelivery:
    """A delivery that this process may send, and whatever it needs for that."""

    id: str
    endpoint_id: str
    project_id: str
    attempt: int
    """The fence: a result is taken from the newest attempt alone."""
    retries: int
    message_id: str
    payload: dict[str, Any]
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
        statement = (
            self._select(WebhookDelivery)
            .where(WebhookDelivery.endpoint_id == endpoint_id)
            .order_by(WebhookDelivery.id.desc())
            .limit(limit + 1)
        )
        if cursor is not None:
            statement = statement.where(WebhookDelivery.id < cursor[0])
        items = self._all(statement)
        return Page(items[:limit], (items[limit - 1].id,) if len(items) > limit else None)

    def get(self, endpoint_id: str, id: str) -> WebhookDelivery | None:  # noqa: A002
        """One delivery, or None where the project's endpoint has no such one."""
        mine = (WebhookDelivery.endpoint_id == endpoint_id, WebhookDelivery.id == id)
        return self._one(self._select(WebhookDelivery).where(*mine))

    def send_again(self, endpoint_id: str, id: str) -> bool:  # noqa: A002
        """Lets it be sent at once, with a whole schedule of retries; False while it is being
        sent."""
        return bool(
            self._execute(
                update(WebhookDelivery)
                .where(
                    WebhookDelivery.project_id == self.project_id,
                    WebhookDelivery.endpoint_id == endpoint_id,
                    WebhookDelivery.id == id,
                    or_(WebhookDelivery.state != "sending", _lease_ran_out()),
                )
                .values(
                    state="waiting",
                    retries=0,
                    available_at=seconds_from_now(),
                    lease_until=None,
                    ended_at=None,
                )
            )
        )


class WebhookQueueRepository(Repository):
    """What waits to be sent, across projects.

    Whoever locks both an endpoint and its deliveries locks the endpoint first.
    """

    def due(
        self, limit: int, *, endpoints: Collection[str] = (), projects: Collection[str] = ()
    ) -> "list[tuple[str, str, str]]":
        """Delivery, endpoint and project: the longest due delivery of each enabled endpoint.

        `endpoints` and `projects` are left out. One at a time for each, so that an endpoint with
        many events delays those of no other.
        """
        place = func.row_number().over(
            partition_by=WebhookDelivery.endpoint_id,
            order_by=(WebhookDelivery.available_at, WebhookDelivery.id),
        )
        firsts = (
            select(
                WebhookDelivery.id,
                WebhookDelivery.endpoint_id,
                WebhookDelivery.project_id,
                WebhookDelivery.available_at,
                place.label("place"),
            )
            .join(WebhookEndpoint, WebhookEndpoint.id == WebhookDelivery.endpoint_id)
            .where(
                _claimable(),
                WebhookEndpoint.disabled_at.is_(None),
                WebhookDelivery.endpoint_id.not_in(endpoints),
                WebhookDelivery.project_id.not_in(projects),
            )
            .subquery()
        )
        found = self.session.execute(
            select(firsts.c.id, firsts.c.endpoint_id, firsts.c.project_id)
            .where(firsts.c.place == 1)
            .order_by(firsts.c.available_at)
            .limit(limit)
        )
        return [(id_, endpoint_id, project_id) for id_, endpoint_id, project_id in found]

    def claim(self, id: str, *, lease_seconds: float) -> ClaimedDelivery | None:  # noqa: A002
        """Takes a delivery for a time; None where another process was faster."""
        taken = self._execute(
            update(WebhookDelivery)
            .where(WebhookDelivery.id == id, _claimable())
            .values(
                state="sending",
                attempts=WebhookDelivery.attempts + 1,
                lease_until=seconds_from_now(lease_seconds),
            )
        )
        if not taken:
            return None
        row = self._one(select(WebhookDelivery).where(WebhookDelivery.id == id))
        assert row is not None
        endpoint = self._one(select(WebhookEndpoint).where(WebhookEndpoint.id == row.endpoint_id))
        assert endpoint is not None
        secrets = [endpoint.secret]
        until = endpoint.previous_until
        if endpoint.previous_secret is not None and until is not None and utc_now() < until:
            secrets.append(endpoint.previous_secret)
        return ClaimedDelivery(
            row.id,
            row.endpoint_id,
            row.project_id,
            row.attempts,
            row.retries,
            row.message_id,
            row.payload,
            endpoint.url,
            tuple(secrets),
        )

    def delivered(self, claimed: ClaimedDelivery, attempted: Attempted) -> bool:
        """Notes that it arrived; False where another process has taken it since."""
        endpoint = self._lock_endpoint(claimed)
        if endpoint is not None:
            endpoint.failing_since = None
            self.session.flush()
        return self._end(claimed, attempted, state="delivered", ended_at=seconds_from_now())

    def failed(
        self,
        claimed: ClaimedDelivery,
        attempted: Attempted,
        *,
        retry_in: float | None,
        disable: str | None = None,
        disable_after: timedelta,
    ) -> bool:
        """Notes a failure, to be tried again in `retry_in` seconds, or (None) not at all.

        Disables the endpoint for the reason `disable`, or where it has failed without a success for
        as long as `disable_after`. False where another process has taken the delivery since.
        """
        endpoint = self._lock_endpoint(claimed)
        if retry_in is None:
            noted = self._end(claimed, attempted, state="failed", ended_at=seconds_from_now())
        else:
            values = {"retries": claimed.retries + 1, "available_at": seconds_from_now(retry_in)}
            noted = self._end(claimed, attempted, state="waiting", **values)
        if not noted or endpoint is None:
            return noted
        now = utc_now()
        endpoint.failing_since = endpoint.failing_since or now
        if disable is None and now - endpoint.failing_since >= disable_after:
            disable = _worn_out(endpoint.failing_since, attempted)
        if disable is not None and endpoint.disabled_at is None:
            endpoint.disabled_at = now
            endpoint.disabled_reason = disable
            endpoint.updated_at = now
            endpoint.updated_by = None
        self.session.flush()
        return noted

    def forget(self, older_than: timedelta, *, limit: int = 1000) -> int:
        """Deletes deliveries that old, whatever became of them; returns how many."""
        old = (
            select(WebhookDelivery.id)
            .where(
                WebhookDelivery.created_at < utc_now() - older_than,
                or_(WebhookDelivery.state != "sending", _lease_ran_out()),
            )
            .order_by(WebhookDelivery.created_at)
            .limit(limit)
        )
        return self._execute(delete(WebhookDelivery).where(WebhookDelivery.id.in_(old)))

    def _lock_endpoint(self, claimed: ClaimedDelivery) -> WebhookEndpoint | None:
        """None where it was deleted meanwhile."""
        mine = select(WebhookEndpoint).where(WebhookEndpoint.id == claimed.endpoint_id)
        return self._one(mine.with_for_update())

    def _end(self, claimed: ClaimedDelivery, attempted: Attempted, **values: Any) -> bool:
        error = attempted.error
        return bool(
            self._execute(
                update(WebhookDelivery)
                .where(
                    WebhookDelivery.id == claimed.id,
                    WebhookDelivery.state == "sending",
                    WebhookDelivery.attempts == claimed.attempt,
                )
                .values(
                    lease_until=None,
                    attempted_at=seconds_from_now(),
                    status_code=attempted.status_code,
                    duration_seconds=attempted.duration_seconds,
                    error=None if error is None else error[:_MAX_ERROR_CHARACTERS],
                    **values,
                )
            )
        )


def _lease_ran_out() -> ColumnElement[bool]:
    sending = WebhookDelivery.state == "sending"
    return and_(sending, WebhookDelivery.lease_until <= seconds_from_now())


def _claimable() -> ColumnElement[bool]:
    waits = WebhookDelivery.state == "waiting"
    return or_(and_(waits, WebhookDelivery.available_at <= seconds_from_now()), _lease_ran_out())


def _worn_out(since: datetime, attempted: Attempted) -> str:
    return (
        f"every attempt since {since:%Y-%m-%d %H:%M} UTC has failed, the last one with: "
        f"{(attempted.error or '')[:200]}"
    )
