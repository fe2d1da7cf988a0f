"""Endpoints of one project."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Select, delete, func, select

from models.clock import utc_now
from models.identifiers import new_id
from models.person import Actor
from models.repositories.base import Repository, ScopedRepository, table_of
from models.tables.webhooks.webhook_deliveries import WebhookDelivery
from models.tables.webhooks.webhook_endpoints import WebhookEndpoint
from models.values import Cursor, Page


class WebhookEndpointRepository(ScopedRepository):
    """A project's endpoints. Secrets come in encrypted, and are kept as they come."""

    def add(
        self, *, url: str, events: Sequence[str], description: str, secret: str, by: Actor
    ) -> WebhookEndpoint:
        """A new endpoint, enabled."""
        now = utc_now()
        row = WebhookEndpoint(
            id=new_id(),
            project_id=self.project_id,
            url=url,
            description=description,
            events=list(events),
            secret=secret,
            created_at=now,
            created_by=by.as_dict(),
            updated_at=now,
            updated_by=by.as_dict(),
        )
        self.session.add(row)
        self.session.flush()
        return row

    def count(self) -> int:
        """How many the project has."""
        mine = table_of(WebhookEndpoint).c.project_id == self.project_id
        return self.session.scalar(select(func.count()).where(mine)) or 0

    def get(self, id: str) -> WebhookEndpoint | None:  # noqa: A002
        """One endpoint, or None where the project has no such one."""
        return self._one(self._with(id))

    def lock(self, id: str) -> WebhookEndpoint | None:  # noqa: A002
        """Like `get`, and nobody else changes it or its deliveries until the transaction ends."""
        return self._one(self._with(id).with_for_update())

    def list(self, *, cursor: Cursor | None = None, limit: int = 50) -> Page[WebhookEndpoint]:
        """Oldest first; the cursor is (id,)."""
        statement = self._select(WebhookEndpoint).order_by(WebhookEndpoint.id).limit(limit + 1)
        if cursor is not None:
            statement = statement.where(WebhookEndpoint.id > cursor[0])
        items = self._all(statement)
        return Page(items[:limit], (items[limit - 1].id,) if len(items) > limit else None)

    def change(self, row: WebhookEndpoint, *, by: Actor, **values: Any) -> None:
        """Changes columns of a locked endpoint."""
        for name, value in values.items():
            setattr(row, name, value)
        row.updated_at = utc_now()
        row.updated_by = by.as_dict()
        self.session.flush()

    def delete(self, id: str) -> bool:  # noqa: A002
        """With everything on its way to it; False where the project has no such endpoint."""
        if self.lock(id) is None:
            return False
        self._execute(delete(WebhookDelivery).where(WebhookDelivery.endpoint_id == id))
        self._execute(delete(WebhookEndpoint).where(WebhookEndpoint.id == id))
        return True

    def _with(self, id: str) -> Select[WebhookEndpoint]:  # noqa: A002
        return self._select(WebhookEndpoint).where(WebhookEndpoint.id == id)


class StoredSecretRepository(Repository):
    """The encrypted secrets of all projects' endpoints."""

    def replace(self, encrypt_anew: Callable[[str], str]) -> dict[str, int]:
        """Stores each in another form; returns of how many endpoints, by project."""
        rows = self._all(select(WebhookEndpoint).order_by(WebhookEndpoint.id).with_for_update())
        for row in rows:
            row.secret = encrypt_anew(row.secret)
            if row.previous_secret is not None:
                row.previous_secret = encrypt_anew(row.previous_secret)
        self.session.flush()
        return dict(sorted(Counter(row.project_id for row in rows).items()))
