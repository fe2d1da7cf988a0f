"""Proposals of experiments on a federation, from what its profile shows and its budgets leave."""

from collections.abc import Sequence

from api.http.problems import conflict
from api.schemas.experiments import ProjectionBody
from api.schemas.federations import (
    BudgetBody,
    ReasonBody,
    SpecProposalBody,
    SpecProposalRequest,
    shown_profile,
)
from api.services.budgets import budgets_of
from api.services.disclosure import floor_of, policy_of
from api.services.lookups import find_federation
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.runs.proposed_experiment import (
    DeclaredFacts,
    ProposalAim,
    ProposedExperiment,
    propose_experiment,
)
from models.tables.federations import Federation
from models.values import BudgetFigure


def propose_spec(
    resources: Resources, caller: Caller, federation_id: str, asked: SpecProposalRequest
) -> SpecProposalBody:
    """The experiment that suits the federation; nothing is stored, and no row is read. Raises
    ProblemError where the project has no such federation, or it is not ready."""
    aim = ProposalAim(
        epsilon=asked.epsilon,
        delta=asked.delta,
        leakage=asked.leakage,
        unit=asked.unit,
        private=asked.privacy is None,
    )
    with resources.database.read() as session:
        row = find_federation(session, caller, federation_id)
    found = proposal_for(resources, caller, row, aim)
    return SpecProposalBody(
        spec=found.spec,
        reasons=[ReasonBody.of(one) for one in found.reasons],
        projection=ProjectionBody(**vars(found.projection)),
        expected_useful=found.expected_useful,
        needs=found.needs,
    )


def proposal_for(
    resources: Resources, caller: Caller, row: Federation, aim: ProposalAim
) -> ProposedExperiment:
    """See `propose_spec`."""
    profile = shown_profile(row)
    if row.status != "ready" or row.registration is None or not profile:
        raise conflict("the federation is not ready; register its file, and wait for its profile")
    if why := profile.get("reasons", {}).get("classes"):
        raise conflict(f"nothing can be proposed for the target's classes: {why}")
    budgets = budgets_of(resources, caller, row.id)
    return propose_experiment(
        DeclaredFacts(
            federation_id=row.id,
            name=row.name,
            registration=row.registration,
            clients=profile["clients"],
            rows=profile["rows"],
            median_rows=profile.get("rows_per_client", {}).get("median"),
            most_rows=profile.get("rows_per_client", {}).get("maximum"),
            features=len(profile["features"]),
            classes=len(profile.get("classes") or ()),
            policy=policy_of(row),
            floor=floor_of(resources.settings),
            may_simulate=row.simulation == "allowed",
            epsilon_left=_left(budgets, "epsilon"),
            leakage_left=_left(budgets, "leakage"),
        ),
        aim,
    )


def _left(budgets: Sequence[BudgetBody], figure: BudgetFigure) -> float | None:
    """The smallest remainder of a figure; None where no total is set. Raises ProblemError where
    nothing is left."""
    of_figure = [one.remaining for one in budgets if one.figure == figure]
    left = [one for one in of_figure if one is not None]
    if left and min(left) <= 0:
        raise conflict(f"nothing is left of a total of the federation's {figure}")
    return min(left, default=None)
