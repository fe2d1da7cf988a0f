"""Set a budget on a federation's data."""

from sqlalchemy.orm import Session

from api.http.conditional import Preconditions
from api.http.problems import ProblemError
from api.schemas.federations import BudgetBody, BudgetList, BudgetSetting
from api.services.budgets.reservation import composed_budgets
from api.services.lookups import find_federation
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.privacy.accounting.rdp import composed_epsilon
from models.repositories import FederationRepository, LowBudgetRepository, SettingChangeRepository
from models.values import Budget, BudgetsAcross


def set_budget(
    resources: Resources,
    caller: Caller,
    federation_id: str,
    setting: BudgetSetting,
    *,
    stated: Preconditions | None = None,
) -> list[BudgetBody]:
    """Set one budget; returns all of the federation's budgets afterwards.

    A total below what is already spent only prevents further spending. Raises ProblemError where
    the caller's project has no such federation, another project owns the content and has set
    less, or the totals are not as `stated`.
    """
    across = resources.settings.budgets_across
    with resources.database.write() as session:
        found = find_federation(session, caller, federation_id)
        federations = FederationRepository(session, caller.project_id, across=across)
        if stated is not None and stated.given:
            federations.lock(found.id)
            now = BudgetList(items=_bodies(session, caller, found.id, across))
            stated.demand(now, settings=now.settings())
        watched = LowBudgetRepository(session, caller.project_id, across=across)
        share = resources.settings.webhooks_low_budget_share
        with watched.notifying_on_low(found.id, price=composed_epsilon, share=share):
            budget = federations.set_budget(found.id, **setting.stored_fields())
        _check_owner(budget, found.id)
        SettingChangeRepository(session, caller.project_id).add(
            "federation",
            found.id,
            "budget",
            value=setting.model_dump(mode="json", exclude_none=True) | {"total": setting.total},
            changed_by=caller.actor,
        )
        return _bodies(session, caller, found.id, across)


def budgets_of(resources: Resources, caller: Caller, federation_id: str) -> list[BudgetBody]:
    """Every budget that was set or spent from. Raises ProblemError as `set_budget` does."""
    with resources.database.read() as session:
        found = find_federation(session, caller, federation_id)
        return _bodies(session, caller, found.id, resources.settings.budgets_across)


def _bodies(
    session: Session, caller: Caller, federation_id: str, across: BudgetsAcross
) -> list[BudgetBody]:
    budgets = composed_budgets(session, caller.project_id, federation_id, across=across)
    return [BudgetBody.of(budget) for budget in budgets]


def _check_owner(budget: Budget, federation_id: str) -> None:
    """Raises ProblemError, to be followed by a roll-back, where a stranger would raise a total."""
    own, owners = budget.own_total, budget.owner_total
    if budget.is_owner or own is None or owners is None or own <= owners:
        return
    raise ProblemError(
        409,
        "conflict",
        f"another project of this service owns this content and has set a total of {owners:.6g}, "
        "which holds for all projects and only it can raise; set a smaller one, which then holds "
        "for your project alone",
        federation_id=federation_id,
        total=owners,
    )
