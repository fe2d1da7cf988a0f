"""Federations of one project."""

from collections.abc import Mapping
from typing import Any

from models.clock import utc_now
from models.identifiers import new_id
from models.records import Cursor, Page
from models.repositories.budgets import BudgetRepository
from models.tables.federations import Federation


class FederationRepository(BudgetRepository):
    """A project's federations, and the budgets on their data."""

    def get_or_create(
        self, *, fingerprint: str, name: str, source: str, profile: Mapping[str, Any]
    ) -> Federation:
        """The federation with this data; its name and profile stay what they first were."""
        self._insert_absent(
            Federation,
            {
                "id": new_id(),
                "project_id": self.project_id,
                "fingerprint": fingerprint,
                "name": name,
                "source": source,
                "profile": dict(profile),
                "status": "ready",
                "created_at": utc_now(),
            },
        )
        return self.session.scalars(
            self._select(Federation).where(Federation.fingerprint == fingerprint)
        ).one()

    def get(self, id: str) -> Federation | None:  # noqa: A002
        """One federation, or None where the project has no such one."""
        return self._one(self._select(Federation).where(Federation.id == id))

    def list(self, *, cursor: Cursor | None = None, limit: int = 50) -> Page[Federation]:
        """Newest first; the cursor is (id,)."""
        statement = self._select(Federation).order_by(Federation.id.desc()).limit(limit + 1)
        if cursor is not None:
            statement = statement.where(Federation.id < cursor[0])
        items = self._all(statement)
        return Page(items[:limit], (items[limit - 1].id,) if len(items) > limit else None)
