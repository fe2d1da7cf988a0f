"""The event `budget.low`, enqueued in the transaction that makes a budget run low."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import bindparam, select

from models.prepared import Prepared
from models.repositories.budgets.budgets import Budgets
from models.repositories.webhooks.announcements import AnnouncementRepository
from models.tables.federations import Federation
from models.tables.webhooks.webhook_endpoints import WebhookEndpoint
from models.values import Budget
from models.webhook_events import WebhookEvent

LOW_SHARE = 0.1

_LOW: WebhookEvent = "budget.low"
_ENABLED = Prepared(
    select(Federation.project_id, Federation.id, WebhookEndpoint.events)
    .join(WebhookEndpoint, WebhookEndpoint.project_id == Federation.project_id)
    .where(
        Federation.id.in_(bindparam("federation_ids", expanding=True)),
        WebhookEndpoint.disabled_at.is_(None),
    )
    .order_by(Federation.id)
)


@contextmanager
def announcing_low(
    budgets: Budgets, federation_id: str, *, share: float = LOW_SHARE
) -> Iterator[None]:
    """Announces each budget with no more than `share` of its total left after the block, and more
    before: once for each crossing.

    Every project whose spending counts is notified, under its own federation's id, and without a
    webhook that subscribes to it no budget is read. Else the content is locked, so that of two
    transactions that draw at once only one crosses.
    """
    sharing = budgets.sharing_ids(federation_id)
    enabled = _ENABLED.rows(budgets.session, federation_ids=sharing)
    notified = dict.fromkeys((own, id_) for own, id_, events in enabled if _LOW in events)
    if notified:
        budgets.hold(federation_id)
    before = {one: _low(budgets, *one, share=share) for one in notified}
    yield
    for (project_id, id_), known in before.items():
        announcements = AnnouncementRepository(budgets.session, project_id)
        for key, budget in _low(budgets, project_id, id_, share=share).items():
            if key not in known:
                announcements.budget_low(id_, budget)


def _low(
    budgets: Budgets, project_id: str, federation_id: str, *, share: float
) -> dict[tuple[object, ...], Budget]:
    seen = budgets.of_project(project_id)
    low: dict[tuple[object, ...], Budget] = {}
    for budget in seen.composed_budgets(federation_id, shown=False):
        if budget.total is not None and (budget.remaining or 0.0) <= share * budget.total:
            terms = None if budget.terms is None else budget.terms.key
            whose = (budget.adjacency, budget.observer, budget.for_clients)
            low[budget.book, budget.figure, budget.delta, *whose, terms] = budget
    return low
