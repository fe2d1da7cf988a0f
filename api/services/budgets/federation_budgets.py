"""Set a budget on a federation's data, and show what is left of each."""

from api.http.conditional import Preconditions
from api.http.problems import conflict
from api.schemas.federations import BudgetBody, BudgetList, BudgetSetting
from api.services.lookups import find_federation, note_setting
from api.shared.resources import Resources
from api.shared.security import Caller
from models.repositories import Budgets, FederationRepository
from models.repositories.shown_budgets import with_gaps
from models.repositories.webhooks import announcing_low
from models.values import Budget


def set_budget(
    resources: Resources,
    caller: Caller,
    federation_id: str,
    setting: BudgetSetting,
    *,
    stated: Preconditions | None = None,
) -> list[BudgetBody]:
    """Set one budget; returns all of the federation's budgets afterwards. A total below what is
    already spent only prevents further spending. Raises ProblemError where the caller's project has
    no such federation, another project owns the content and has set less, or the totals are not as
    `stated`."""
    with resources.database.write() as session:
        found = find_federation(session, caller, federation_id)
        budgets = resources.budgets(session, caller.project_id)
        if stated is not None and stated.given:
            FederationRepository(session, caller.project_id).lock(found.id)
            now = BudgetList(items=_bodies(budgets, found.id))
            stated.demand(now, settings=now.settings())
        share = resources.settings.webhooks_low_budget_share
        with announcing_low(budgets, found.id, share=share):
            budget = budgets.set_budget(found.id, **setting.stored_fields())
        _check_owner(budget, found.id)
        value = setting.model_dump(mode="json", exclude_none=True) | {"total": setting.total}
        note_setting(session, caller, ("federation", found.id), "budget", value)
        return _bodies(budgets, found.id)


def budgets_of(resources: Resources, caller: Caller, federation_id: str) -> list[BudgetBody]:
    """Every budget that was set or spent from. Raises ProblemError as `set_budget` does."""
    with resources.database.read() as session:
        found = find_federation(session, caller, federation_id)
        return _bodies(resources.budgets(session, caller.project_id), found.id)


def _bodies(budgets: Budgets, federation_id: str) -> list[BudgetBody]:
    """With the runs that each budget does not count."""
    counted, ids = budgets.composed_budgets(federation_id), budgets.sharing_ids(federation_id)
    return [BudgetBody.of(one) for one in with_gaps(budgets.session, counted, federation_ids=ids)]


def _check_owner(budget: Budget, federation_id: str) -> None:
    """Raises ProblemError, to be followed by a roll-back, where a project that does not own the
    content would raise a total."""
    own, owners = budget.own_total, budget.owner_total
    if budget.is_owner or own is None or owners is None or own <= owners:
        return
    raise conflict(
        f"another project of this service owns this content and has set a total of {owners:.6g}, "
        "which holds for all projects and only it can raise; set a smaller one, which then holds "
        "for your project alone",
        federation_id=federation_id,
        total=owners,
    )
