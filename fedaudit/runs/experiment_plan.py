"""An experiment before it runs: who is charged, what it can cost, and what is stored of it."""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from fedaudit.federations.federation import Federation
from fedaudit.federations.split import training_clients
from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.cost_projection import Projection
from fedaudit.runs.held_out_cost import planned_releases, with_fairness_epsilon
from fedaudit.runs.plan_limits import PlanLimits, check_limits
from fedaudit.runs.run import cell_ledger_context
from fedaudit.runs.start_artifact import OpenArtifact, no_artifacts, with_start
from fedaudit.spec.canonical import document_hash
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.base.cell import Cell

# Far below the largest number in double precision, so that sums of reservations stay finite.
_MAX_COST = 1e300


@dataclass(frozen=True)
class ExperimentPlan:
    """A spec that can be run, and what it would cost."""

    spec: ExperimentSpec
    federation: Federation
    parameters: int
    """Of the network."""
    training_clients: int
    ledger_context: LedgerContext
    projection: Projection
    profile: dict[str, Any]
    """Of the data, as the service shows it."""

    def stored_fields(self) -> dict[str, Any]:
        """What is stored of the experiment beside its ids, under the names of the columns.

        The subjects are stored by themselves: those of `ledger_context`.
        """
        spec, inputs = self.spec, self.ledger_context.inputs
        document = spec.model_dump(mode="json")
        return {
            "name": spec.name,
            "spec": document,
            "spec_hash": document_hash(document),
            "seed": spec.seed,
            "mechanism": spec.privacy.mechanism,
            "hypotheses": spec.training.hypotheses,
            "noise": spec.privacy.noise,
            "rounds_total": spec.training.rounds_played,
            "parameters": self.parameters,
            "noise_multiplier": inputs.noise_multiplier if inputs.cost_kind == "leakage" else None,
            "mechanism_inputs": None if inputs.follow_from_n else inputs.as_dict(),
            "attributes": {one.name: one.values for one in self.federation.attributes},
            "tags": spec.tags,
        }


def plan_experiment(
    spec: ExperimentSpec,
    federation: Federation,
    *,
    limits: PlanLimits | None = None,
    open_artifact: OpenArtifact = no_artifacts,
) -> ExperimentPlan:
    """Project what a spec costs over its data, which was checked against it.

    Raises InvalidInputError where the cost is beyond what can be counted, no noise is enough, or
    the artifact that it starts from is not there or does not fit; before anything is computed where
    the spec exceeds the limits.
    """
    cell = Cell(spec, federation)
    if limits is not None:
        check_limits(cell, limits)
    cell = with_start(cell, open_artifact)
    n, training = cell.shape.n, training_clients(federation.clients, spec.federation)
    ledger_context = cell_ledger_context(cell)
    projection = mechanism_of(spec).project_cost(
        n=n,
        training_clients=training,
        plan=ledger_context.plan,
        layers=ledger_context.inputs.component_sizes,
    )
    costs = [projection.leakage_worst_case or 0.0, projection.log_ratio_worst_case or 0.0]
    costs += [float(str(entry["value"])) for entry in projection.epsilon]
    if not max(costs) <= _MAX_COST:
        message = "is so small that the cost exceeds what can be counted; use a larger one"
        raise InvalidInputError([FieldError("/privacy/noise_multiplier", message, of_spec=True)])
    projection = with_fairness_epsilon(
        projection, ledger_context.held_out, releases=planned_releases(spec)
    )
    return ExperimentPlan(
        spec, federation, n, training, ledger_context, projection, _profile(federation)
    )


_PROFILES: WeakKeyDictionary[Federation, dict[str, Any]] = WeakKeyDictionary()
"""Of loaded data, which never change: cells and submissions share them."""


def _profile(federation: Federation) -> dict[str, Any]:
    # Only now: it brings pyarrow along, which would double the time that the API needs to start.
    from fedaudit.federations.profiles.profile import profile

    known = _PROFILES.get(federation)
    if known is None:
        known = _PROFILES[federation] = profile(federation)
    return known
