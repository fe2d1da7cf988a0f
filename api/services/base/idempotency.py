"""Idempotent requests: the header Idempotency-Key."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.shared.security import Caller
from models.repositories import IdempotencyRepository
from models.tables.accounts import IdempotencyKey


@dataclass(frozen=True)
class IdempotentRequest:
    """A caller's key for one request: a repeated request gets the result of the first one."""

    key: str
    route: str
    body_hash: str

    @classmethod
    def of(cls, key: str | None, route: str, value: Any) -> "IdempotentRequest | None":
        """The key for a body's JSON value; bodies that differ only in layout are the same."""
        if key is None:
            return None
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        return cls(key, route, hashlib.sha256(text.encode()).hexdigest())

    def lookup(self, session: Session, caller: Caller) -> IdempotencyKey | None:
        """The result of the same request made earlier; None where it is the first with its key.

        Raises ProblemError where the key was sent with another body.
        """
        found = IdempotencyRepository(session).find(caller.key_id, self.route, self.key)
        if found is not None and found.body_hash != self.body_hash:
            raise ProblemError(
                409,
                "idempotency-mismatch",
                "this Idempotency-Key was sent before with another body; use a new key for a new "
                "request",
            )
        return found

    def claim(
        self, session: Session, caller: Caller, resource_id: str, *, status_code: int = 202
    ) -> bool:
        """Claim the key in the caller's transaction; False where it is already claimed.

        A second, simultaneous request waits here for the first one.
        """
        return IdempotencyRepository(session).add(
            project_id=caller.project_id,
            api_key_id=caller.key_id,
            route=self.route,
            key=self.key,
            body_hash=self.body_hash,
            resource_id=resource_id,
            status_code=status_code,
        )
