"""Telling of budgets that run low, in the transaction that makes them so."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import bindparam, select

from models.prepared import Prepared
from models.repositories.epsilon_budgets import EpsilonBudgetRepository, Price
from models.repositories.webhooks.announcements import AnnouncementRepository
from models.tables.experiments import Experiment
from models.tables.federations import Federation
from models.tables.webhooks.webhook_endpoints import WebhookEndpoint
from models.values import Budget
from models.webhook_events import WebhookEvent

LOW_SHARE = 0.1

_LOW: WebhookEvent = "budget.low"

_Key = tuple[object, ...]
_ENABLED = Prepared(
    select(Federation.project_id, Federation.id, WebhookEndpoint.events)
    .join(WebhookEndpoint, WebhookEndpoint.project_id == Federation.project_id)
    .where(
        Federation.id.in_(bindparam("federation_ids", expanding=True)),
        WebhookEndpoint.disabled_at.is_(None),
    )
    .order_by(Federation.id)
)


class LowBudgetRepository(EpsilonBudgetRepository):
    """Compares what is left of the budgets on a content before and after it was drawn on."""

    @contextmanager
    def told(self, federation_id: str, *, price: Price, share: float = LOW_SHARE) -> Iterator[None]:
        """Tells `budget.low` of each budget with no more than `share` of its total left after the
        block, and more before: once for each crossing.

        Every project whose spending counts is told, under its own federation's id, and where none
        of them listens nothing is looked at. Else the content is locked, so that of two that draw
        at once only one crosses.
        """
        listening = self._listening(federation_id)
        if listening:
            self._lock(federation_id)
        before = {one: self._low(*one, price=price, share=share) for one in listening}
        yield
        for (project_id, id_), known in before.items():
            told = AnnouncementRepository(self.session, project_id)
            for key, budget in self._low(project_id, id_, price=price, share=share).items():
                if key not in known:
                    told.budget_low(id_, budget)

    def federation_of(self, experiment_id: str) -> str:
        """The federation that an experiment of this project draws on."""
        mine = (Experiment.id == experiment_id, Experiment.project_id == self.project_id)
        return self.session.scalars(select(Experiment.federation_id).where(*mine)).one()

    def _listening(self, federation_id: str) -> list[tuple[str, str]]:
        """Project and federation of those that are told of these budgets."""
        sharing = self._sharing(federation_id)
        ids = () if sharing is None else sharing.ids
        found = _ENABLED.rows(self.session, federation_ids=ids)
        return list(dict.fromkeys((own, id_) for own, id_, events in found if _LOW in events))

    def _low(
        self, project_id: str, federation_id: str, *, price: Price, share: float
    ) -> dict[_Key, Budget]:
        seen = EpsilonBudgetRepository(self.session, project_id, across=self._across)
        low = {}
        for budget in seen.budgets(federation_id, shown=False):
            if budget.total is None:
                continue
            is_epsilon = budget.figure == "epsilon"
            counted = seen.composed(federation_id, budget, price) if is_epsilon else budget
            if (counted.remaining or 0.0) <= share * budget.total:
                low[_key(budget)] = counted
        return low


def _key(budget: Budget) -> _Key:
    terms = None if budget.terms is None else budget.terms.key
    whose = (budget.adjacency, budget.observer, budget.for_clients)
    return (budget.book, budget.figure, budget.delta, *whose, terms)
