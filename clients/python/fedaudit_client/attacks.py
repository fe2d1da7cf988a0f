"""Calls about attacks: what they found. All of it is confidential."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from fedaudit_client.http.answers import content, json_as
from fedaudit_client.http.calls import Calls, call, steps, stream
from fedaudit_client.http.polling import last_of, polled
from fedaudit_client.http.request import Request, experiment_path, once, path_part
from fedaudit_client.result_types import LaterAttacks

_ENDED = ("cancelled", "succeeded", "failed")


class AttackCalls(Calls):
    """Attacks on an experiment: those of its spec, and those that are asked for later."""

    @call
    def attacks(self, experiment_id: str) -> Request[dict[str, Any]]:
        """The attacks of the experiment's report as `items`: `position`, `section`, `files`."""
        return Request("GET", f"{experiment_path(experiment_id)}/attacks", json_as(dict[str, Any]))

    @stream
    def attack_file(
        self, experiment_id: str, position: int, name: str
    ) -> AsyncGenerator[bytes, None]:
        """A file of an attack, as its bytes come."""
        path = f"{experiment_path(experiment_id)}/attacks/{position}/{path_part(name)}"
        return self._wire.read(Request("GET", path, content))

    @call
    def attack(
        self,
        experiment_id: str,
        attacks: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
    ) -> Request[LaterAttacks]:
        """Attack an experiment that has succeeded: its report stays, and what is found counts.

        `attacks`: as in a spec. Tried again where no answer comes, as `submit` is.
        """
        body = {"json": {"attacks": [dict(one) for one in attacks]}}
        path = f"{experiment_path(experiment_id)}/attacks"
        answer = json_as(LaterAttacks)
        return Request("POST", path, answer, body=body, **once(idempotency_key))

    @call
    def later_attacks(self, experiment_id: str) -> Request[dict[str, Any]]:
        """Every request for attacks after the report was signed, oldest first, as `items`."""
        path = f"{experiment_path(experiment_id)}/attacks/later"
        return Request("GET", path, json_as(dict[str, Any]))

    @call
    def later_attack(self, experiment_id: str, later_id: str) -> Request[LaterAttacks]:
        """One of them."""
        return _one(experiment_id, later_id)

    @steps
    async def wait_attack(
        self, experiment_id: str, later_id: str, *, patience_seconds: float = 60.0
    ) -> LaterAttacks:
        """The request, once it has ended, however long it takes.

        Raises UnreachableError, or ProblemError, after `patience_seconds` without the service.
        """
        answers = polled(
            self._wire,
            _one(experiment_id, later_id),
            has_ended=_has_ended,
            patience_seconds=patience_seconds,
        )
        return await last_of(answers)

    @call
    def cancel_attack(self, experiment_id: str, later_id: str) -> Request[LaterAttacks]:
        """Ask for an end; what was found by then stays, and counts."""
        path = f"{_path(experiment_id, later_id)}/cancel"
        return Request("POST", path, json_as(LaterAttacks))

    @stream
    def later_attack_file(
        self, experiment_id: str, later_id: str, position: int, name: str
    ) -> AsyncGenerator[bytes, None]:
        """A file of an attack that was asked for later, as its bytes come."""
        path = f"{_path(experiment_id, later_id)}/{position}/{path_part(name)}"
        return self._wire.read(Request("GET", path, content))


def _has_ended(found: LaterAttacks) -> bool:
    return found["status"] in _ENDED


def _one(experiment_id: str, later_id: str) -> Request[LaterAttacks]:
    return Request("GET", _path(experiment_id, later_id), json_as(LaterAttacks))


def _path(experiment_id: str, later_id: str) -> str:
    return f"{experiment_path(experiment_id)}/attacks/later/{path_part(later_id)}"
