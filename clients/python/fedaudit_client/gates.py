"""Calls on gates and on policies, which are gates under names."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from fedaudit_client.errors import GatesNotPassedError
from fedaudit_client.http.answers import Json, json_as, nothing
from fedaudit_client.http.calls import Calls, call, pages, steps, stream
from fedaudit_client.http.request import Request, path_part
from fedaudit_client.result_types import GateResult, GatesEvaluation, Policy


class GateCalls(Calls):
    """What can be done with gates."""

    @call
    def evaluate_gates(
        self,
        experiment_id: str,
        gates: Sequence[Mapping[str, Any]] | None = None,
        *,
        policy: str | None = None,
    ) -> Request[GatesEvaluation]:
        """Whether the experiment meets these gates, or a stored policy's; else its own."""
        return _evaluation(experiment_id, gates, policy)

    @steps
    async def require_gates(
        self,
        experiment_id: str,
        gates: Sequence[Mapping[str, Any]] | None = None,
        *,
        policy: str | None = None,
    ) -> GatesEvaluation:
        """As `evaluate_gates`, for pipelines: gives the evaluation only where it passed.

        Raises GatesNotPassedError where a gate failed, lacks evidence, or where there is none.
        """
        found = await self._wire.send(_evaluation(experiment_id, gates, policy))
        if found["outcome"] != "pass" or not found["gates"]:
            outcome = found["outcome"] if found["gates"] else None
            raise GatesNotPassedError(
                experiment_id, outcome, [_told(one) for one in found["gates"]]
            )
        return found

    @stream
    def policies(self) -> AsyncGenerator[Policy, None]:
        """Every policy of the key's project, by name."""
        return pages(self._wire, "gates/policies", {}, Policy)

    @call
    def policy(self, name: str) -> Request[Policy]:
        """One policy."""
        return Request("GET", _policy(name), json_as(Policy))

    @call
    def put_policy(self, name: str, policy: Mapping[str, Any]) -> Request[Policy]:
        """Store a policy's `description` and `gates` under a name, or replace it."""
        return Request("PUT", _policy(name), json_as(Policy), body={"json": policy})

    @call
    def delete_policy(self, name: str) -> Request[None]:
        """Delete a policy."""
        return Request("DELETE", _policy(name), nothing)


def _evaluation(
    experiment_id: str, gates: Sequence[Mapping[str, Any]] | None, policy: str | None
) -> Request[GatesEvaluation]:
    body: Json = {"experiment_id": experiment_id}
    if gates is not None:
        body["gates"] = list(gates)
    if policy is not None:
        body["policy"] = policy
    return Request("POST", "gates/evaluations", json_as(GatesEvaluation), body={"json": body})


def _told(gate: GateResult) -> str:
    """A gate in a line of its own."""
    of = f" ({gate['attribute']})" if gate["attribute"] else ""
    value = "no value" if gate["value"] is None else gate["value"]
    reason = f": {gate['reason']}" if gate["reason"] else ""
    return f"\n  {gate['figure']}{of} {gate['outcome']}, {value}{reason}"


def _policy(name: str) -> str:
    return f"gates/policies/{path_part(name)}"
