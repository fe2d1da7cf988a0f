"""Whether a federation admits runs whose noise is not secret, and what such runs do to budgets."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.schemas.federations import SimulationSetting
from api.services.base.lookups import find_federation
from api.services.federations.near_copy_warnings import near_copy_warnings
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.privacy.accounting.mechanism_parameters import CostKind
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.spec.attacks.attack_spec import AttackSpec
from fedaudit.spec.privacy import Noise
from models.repositories import Budgets, FederationRepository, SettingChangeRepository
from models.tables.federations import Federation
from models.values import Budget, BudgetsAcross

_PAST_RELEASE_BUDGETS = (
    "this federation has a budget for release noise, and the experiment's noise is simulated from "
    "its seed: the run is in none of the totals of the release book, and its report and model are "
    "protected by nothing; the budget lists it in `uncounted`, and privacy.noise `release` would "
    "count it"
)
_NO_NOISE = (
    "this federation has a budget for release noise, and the experiment adds no noise in training: "
    "nothing bounds what its report and model reveal, and none of the totals counts it; the budget "
    "lists it in `uncounted`"
)


def set_simulation(
    resources: Resources, caller: Caller, federation_id: str, setting: SimulationSetting
) -> Federation:
    """Allow or forbid noise that anyone can draw again; for what is submitted from then on.

    Raises ProblemError where the caller's project has no such federation.
    """
    with resources.database.write() as session:
        found = find_federation(session, caller, federation_id)
        federations = FederationRepository(session, caller.project_id)
        changed = federations.set_simulation(found.id, setting.simulation)
        SettingChangeRepository(session, caller.project_id).add(
            "federation",
            found.id,
            "simulation",
            value={"simulation": setting.simulation},
            changed_by=caller.actor,
        )
        return changed


def refuse_what_is_not_secret(
    session: Session,
    project_id: str,
    federation_id: str,
    planned: ExperimentPlan,
    *,
    across: BudgetsAcross,
) -> None:
    """Raises ProblemError where the federation, or with budgets across the service the owner of
    its content, forbids simulation and the plan's noise is not secret, there is none, or an attack
    publishes what no noise protects; in the caller's write transaction."""
    budgets = Budgets(session, project_id, across=across)
    budgets.hold(federation_id)
    if not budgets.forbids_simulation(federation_id):
        return
    noise: Noise = planned.spec.privacy.noise
    if planned.ledger_context.inputs.cost_kind == "unbounded":
        raise _forbidden(
            federation_id,
            "it admits runs with secret noise only, and the experiment draws none; give "
            "privacy.mechanism a mechanism with noise, and privacy.noise `release`",
        )
    if noise == "simulation":
        raise _forbidden(
            federation_id,
            "the experiment's noise is drawn from its seed and can be drawn again by anyone; set "
            "privacy.noise to `release`",
        )
    _refuse_telling(federation_id, planned.spec.attacks)


def refuse_attacks_that_tell(
    session: Session,
    project_id: str,
    federation_id: str,
    attacks: Sequence[AttackSpec],
    *,
    across: BudgetsAcross,
) -> None:
    """The same of attacks that are asked for after a run; in the caller's write transaction."""
    FederationRepository(session, project_id).lock(federation_id)
    if Budgets(session, project_id, across=across).forbids_simulation(federation_id):
        _refuse_telling(federation_id, attacks)


def _refuse_telling(federation_id: str, attacks: Sequence[AttackSpec]) -> None:
    telling = [attack for attack in attacks if attack.tells_of_people]
    if telling:
        raise _forbidden(
            federation_id,
            f"what the attack `{telling[0].kind}` finds follows from people's data, and no secret "
            "noise protects it; leave it out of `attacks`",
        )


def warnings_of(
    session: Session,
    project_id: str,
    federation_id: str,
    *,
    noise: str,
    cost_kind: CostKind,
    across: BudgetsAcross,
) -> list[str]:
    """What a caller must know of a run on this federation that is admitted all the same.

    A run without noise is, where the totals are for readers of the report and its counts have
    noise, and where the totals came later.
    """
    budgets = Budgets(session, project_id, across=across).budgets(federation_id, shown=False)
    alike = near_copy_warnings(session, project_id, [federation_id]).get(federation_id, [])
    if not any(_bounds_release(one) for one in budgets):
        return alike
    if cost_kind == "unbounded":
        return [_NO_NOISE, *alike]
    return [_PAST_RELEASE_BUDGETS, *alike] if noise == "simulation" else alike


def _bounds_release(budget: Budget) -> bool:
    return budget.book == "release" and budget.total is not None


def _forbidden(federation_id: str, detail: str) -> ProblemError:
    return ProblemError(
        409,
        "simulation-forbidden",
        f"this federation forbids simulation: {detail}",
        federation_id=federation_id,
    )
