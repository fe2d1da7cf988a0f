"""Set a budget on a federation's data."""

from api.schemas.federations import BudgetBody, BudgetSetting
from api.services.base.lookups import find_federation
from api.services.budgets.reservation import composed_budgets
from api.shared.resources import Resources
from api.shared.security import Caller
from models.repositories import FederationRepository


def set_budget(
    resources: Resources, caller: Caller, federation_id: str, setting: BudgetSetting
) -> list[BudgetBody]:
    """Set one budget; returns all of the federation's budgets afterwards.

    A total below what is already spent only prevents further spending. Raises ProblemError where
    the caller's project has no such federation.
    """
    with resources.database.write() as session:
        found = find_federation(session, caller, federation_id)
        federations = FederationRepository(session, caller.project_id)
        federations.set_budget(found.id, **setting.stored_fields())
        budgets = composed_budgets(session, caller.project_id, found.id)
    return [BudgetBody.of(budget) for budget in budgets]


def budgets_of(resources: Resources, caller: Caller, federation_id: str) -> list[BudgetBody]:
    """Every budget that was set or spent from. Raises ProblemError as `set_budget` does."""
    with resources.database.read() as session:
        found = find_federation(session, caller, federation_id)
        budgets = composed_budgets(session, caller.project_id, found.id)
    return [BudgetBody.of(budget) for budget in budgets]
