"""Reserve what a report may reveal of the people held out of training, or refuse the experiment."""

from collections.abc import Sequence

from api.services.budgets.budget_refusals import not_composable, without_fairness_noise
from fedaudit.ledger.composition import composed_epsilon
from fedaudit.privacy.count_release import CountRelease
from fedaudit.privacy.unit_key import unit_key
from fedaudit.runs.experiment_plan import ExperimentPlan, planned_releases
from models.epsilon_costs import EpsilonCost
from models.repositories import EpsilonBudgetRepository
from models.values import Budget


def reserve_report(
    epsilons: EpsilonBudgetRepository,
    federation_id: str,
    *,
    experiment_id: str,
    planned: ExperimentPlan,
    totals: Sequence[Budget],
) -> None:
    """Reserve the epsilon of the fairness counts, in the caller's transaction.

    `totals`: the budgets of the experiment's book that have a total against readers of the report.
    Raises ProblemError where one of them has no room, or cannot count the experiment.
    """
    held_out = planned.ledger_context.held_out
    if held_out is None:
        if totals:
            # Exact or rounded figures: nothing bounds what they reveal.
            composed = epsilons.composed(federation_id, totals[0], composed_epsilon)
            raise without_fairness_noise(composed, federation_id)
        return
    release = held_out.release
    refusal = epsilons.reserve(
        federation_id,
        experiment_id=experiment_id,
        book=planned.spec.privacy.noise,
        costs=[_cost(release, planned)],
        price=composed_epsilon,
    )
    if refusal is not None:
        raise not_composable(
            refusal,
            federation_id,
            adjacency=release.adjacency,
            unit=release.unit,
            spec=planned.spec,
        )


def _cost(release: CountRelease, planned: ExperimentPlan) -> EpsilonCost:
    releases = planned_releases(planned.spec)
    return EpsilonCost(
        observer=release.observer,
        adjacency=release.adjacency,
        unit=release.unit,
        unit_key=unit_key(planned.spec, release.unit),
        delta=release.booked_delta,
        epsilon=release.epsilon(releases),
        curve=releases * release.curve,
        step=release.curve,
        compositions=releases,
    )
