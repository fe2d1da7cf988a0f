"""What one event costs, composed so often."""

from fedaudit.privacy.accounting.accountant import RDP_ORDERS, epsilon_of_events
from fedaudit.privacy.accounting.epsilon_tables import EpsilonTerms, renyi_epsilons
from fedaudit.privacy.accounting.privacy_events import Adjacency, Event, Observer
from fedaudit.spec.privacy import AccountantName

DELTA = 1e-5
ZERO_OUT: Adjacency = "add-or-remove-one"


def spent(
    event: Event,
    count: int = 1,
    *,
    by: AccountantName = "rdp",
    adjacency: Adjacency = ZERO_OUT,
    delta: float = DELTA,
) -> float:
    """The figure of an accountant that a spec may name."""
    return epsilon_of_events(((event, count),), by, adjacency=adjacency, delta=delta)


def by_orders(
    event: Event,
    count: int = 1,
    *,
    orders: tuple[float, ...] = RDP_ORDERS,
    adjacency: Adjacency = ZERO_OUT,
    observer: Observer = "final_model",
    delta: float = DELTA,
) -> float:
    """By these Renyi orders, or those of two-stage sampling."""
    terms = EpsilonTerms(adjacency=adjacency, observer=observer, delta=delta)
    return float(renyi_epsilons(event, count, terms, orders=orders))
