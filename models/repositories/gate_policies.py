"""Named policies of one project."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, delete

from models.clock import utc_now
from models.person import Actor
from models.repositories.base import ScopedRepository, table_of
from models.tables.gate_policies import GatePolicy
from models.values import Cursor, Page


class GatePolicyRepository(ScopedRepository):
    """A project's gates under names."""

    def put(
        self,
        name: str,
        *,
        description: str,
        gates: Sequence[Mapping[str, Any]],
        by: Actor | None = None,
    ) -> tuple[GatePolicy, bool]:
        """The policy as it now is, and whether it is new. An existing one is replaced."""
        now = utc_now()
        content = [dict(gate) for gate in gates]
        actor = None if by is None else by.as_dict()
        row = {
            "project_id": self.project_id,
            "name": name,
            "description": description,
            "gates": content,
            "created_at": now,
            "updated_at": now,
            "created_by": actor,
            "updated_by": actor,
        }
        stored = None
        while stored is None:  # again where it is deleted between the two statements
            new = self._insert_absent(GatePolicy, row)
            stored = self._one(self._named(name).with_for_update())
        if not new:
            stored.description = description
            stored.gates = content
            stored.updated_at = now
            stored.updated_by = actor
            self.session.flush()
        return stored, new

    def get(self, name: str) -> GatePolicy | None:
        """One policy, or None where the project has no such one."""
        return self._one(self._named(name))

    def lock(self, name: str) -> GatePolicy | None:
        """Like `get`, and nobody else changes it until the transaction ends."""
        return self._one(self._named(name).with_for_update())

    def list(self, *, cursor: Cursor | None = None, limit: int = 50) -> Page[GatePolicy]:
        """By name; the cursor is (name,)."""
        statement = self._select(GatePolicy).order_by(GatePolicy.name).limit(limit + 1)
        if cursor is not None:
            statement = statement.where(GatePolicy.name > cursor[0])
        items = self._all(statement)
        return Page(items[:limit], (items[limit - 1].name,) if len(items) > limit else None)

    def delete(self, name: str) -> bool:
        """False where the project has no such policy."""
        columns = table_of(GatePolicy).c
        return bool(
            self._execute(
                delete(GatePolicy).where(
                    columns.project_id == self.project_id, columns.name == name
                )
            )
        )

    def _named(self, name: str) -> Select[GatePolicy]:
        return self._select(GatePolicy).where(GatePolicy.name == name)
