"""Two-stage sampling (rPDP-FL, CCS 2024): clients by Poisson coins, records within them.

The figure depends on the observer. `final_model` sees only the model and not which clients took
part: a round is amplified by the client's rate. `server` sees who uploads, so a round in which the
client took part costs its full price and one in which it did not costs nothing: compose all rounds
for the worst case before a run, and the rounds of participation for the realised cost.

Multiplying the two rates and accounting for a single sample understates the figure: all steps of a
round depend on one coin of the client.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.privacy.accounting.accountants.base import Accountant, Spending
from fedaudit.privacy.accounting.accountants.conversion import (
    added_epsilon,
    best_epsilon,
    renyi_spending,
)
from fedaudit.privacy.accounting.accountants.moments import round_divergence
from fedaudit.privacy.accounting.accountants.refusals import METRIC_REFUSAL
from fedaudit.privacy.accounting.privacy_events import (
    Adjacency,
    Composed,
    DiscreteLaplace,
    Event,
    FixedSizeSampled,
    Gaussian,
    LaplaceL2,
    NonPrivate,
    Observer,
    PoissonSampled,
    TwoStage,
    known_event,
)

TWO_STAGE_ORDERS: tuple[int, ...] = tuple(sorted({int(1.07**i + 1) for i in range(103)}))
"""The distinct integers floor(1.07^i + 1) up to about 1000, as in the authors' code."""


class TwoStageAccountant(Accountant):
    """Composes rounds of two-stage sampling for one record, against one observer."""

    name = "two-stage"
    adjacencies = ("add-or-remove-one",)

    def __init__(
        self,
        *,
        observer: Observer,
        adjacency: Adjacency = "add-or-remove-one",
        orders: Sequence[int] = TWO_STAGE_ORDERS,
    ) -> None:
        """`orders`: whole numbers from 2, ascending."""
        super().__init__(adjacency=adjacency)
        self._observer: Observer = observer
        self._orders = checked_orders(orders)

    @property
    def observer(self) -> Observer:
        """Against whom the figures hold."""
        return self._observer

    def _refusal(self, event: Event) -> str | None:
        known = known_event(event)
        match known:
            case TwoStage():
                return None
            case LaplaceL2():
                return METRIC_REFUSAL
            case (
                NonPrivate()
                | Gaussian()
                | PoissonSampled()
                | FixedSizeSampled()
                | DiscreteLaplace()
                | Composed()
            ):
                return (
                    f"{self.name!r} knows the 'two-stage' event only, not {event.kind!r}; use "
                    "'rdp' under 'add-or-remove-one' for Poisson samples and 'replace-one' for "
                    "samples of a fixed size"
                )
            case _:
                assert_never(known)

    def _spent(self, counts: Mapping[Event, int], delta: float) -> Spending:
        divergences = np.zeros(len(self._orders))
        for event, count in counts.items():
            assert isinstance(event, TwoStage)
            divergences += count * round_curve(event, self._orders, observer=self._observer)
        orders = np.array(self._orders, dtype=np.float64)
        epsilon, order = best_epsilon(divergences, orders, delta)
        return renyi_spending(
            epsilon,
            order,
            orders=orders,
            delta=delta,
            adjacency=self.adjacency,
            accountant=self.name,
        )


@dataclass(frozen=True, kw_only=True)
class TwoStageRun:
    """The public numbers of a run: together with a record's rate they determine what it spends."""

    client_rate: float
    noise_multiplier: float
    steps: int
    """Local steps of a client in a round in which it takes part."""
    rounds: int
    delta: float
    observer: Observer
    orders: tuple[int, ...] = TWO_STAGE_ORDERS

    def __post_init__(self) -> None:
        """Raises ValueError for a number out of its range."""
        TwoStage(self.client_rate, 1.0, self.noise_multiplier, self.steps)
        if self.rounds < 1:
            raise ValueError(f"rounds = {self.rounds} must be 1 or more")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta = {self.delta} must lie between 0 and 1")
        checked_orders(self.orders)

    def event(self, record_rate: float) -> TwoStage:
        """One round for a record of this rate."""
        return TwoStage(self.client_rate, record_rate, self.noise_multiplier, self.steps)

    @property
    def floor(self) -> float:
        """The least epsilon that can be shown for a sampled record: there are only finitely many
        orders."""
        return max(0.0, float(added_epsilon(self.orders, self.delta).min()))

    def divergence(self, rates: NDArray[np.float64], order: int) -> NDArray[np.float64]:
        """The Renyi divergence of one round at an order: float64 [rates]."""
        return round_divergence(
            rates,
            order=order,
            noise_multiplier=self.noise_multiplier,
            steps=self.steps,
            client_rate=seen_client_rate(self.client_rate, self.observer),
        )

    def epsilons(self, rates: ArrayLike, *, rounds: ArrayLike | None = None) -> NDArray[np.float64]:
        """What records of these rates spend: float64 [records].

        `rates`: in [0, 1]; a record of rate 0 is never sampled and spends nothing. `rounds`: the
        rounds that count for each record, if not all of them (realised participation against the
        `server`, rounds until a record left); broadcast with `rates`.
        """
        every = np.broadcast_arrays(rates, self.rounds if rounds is None else rounds)
        pairs = np.stack([part.astype(np.float64).ravel() for part in every], axis=-1)
        # Records share rates, so the work is done once per distinct rate.
        distinct, position = np.unique(pairs, axis=0, return_inverse=True)
        spent = self._distinct_epsilons(distinct[:, 0], distinct[:, 1])
        return spent[position.ravel()].reshape(every[0].shape)

    def _distinct_epsilons(
        self, rates: NDArray[np.float64], rounds: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Like `epsilons`, for ascending orders.

        Divergences grow with the order. Once a divergence, plus the least that a later conversion
        adds, exceeds the best epsilon, no later order can improve it and the rate is done.
        """
        if not ((rates >= 0) & (rates <= 1)).all():
            raise ValueError("rates must lie between 0 and 1")
        best = np.full(len(rates), np.inf)
        added = added_epsilon(self.orders, self.delta)
        least = np.minimum.accumulate(added[::-1])[::-1]
        open_ = np.arange(len(rates))
        for index, order in enumerate(self.orders):
            divergence = rounds[open_] * self.divergence(rates[open_], order)
            best[open_] = np.minimum(best[open_], divergence + added[index])
            open_ = open_[divergence + least[index] < best[open_]]
            if not len(open_):
                break
        spent: NDArray[np.float64] = np.where((rates > 0) & (rounds > 0), best, 0.0)
        return np.maximum(spent, 0.0)


def round_curve(
    event: TwoStage, orders: Sequence[int], *, observer: Observer
) -> NDArray[np.float64]:
    """The Renyi divergence of one round at each order: float64 [orders], not to be written."""
    return _round_curve(event, tuple(orders), observer)


# Asked of the same events by every cell of a sweep, and several times by each.
@lru_cache(maxsize=1024)
def _round_curve(
    event: TwoStage, orders: tuple[int, ...], observer: Observer
) -> NDArray[np.float64]:
    curve = np.array(
        [
            round_divergence(
                np.array([event.record_rate]),
                order=order,
                noise_multiplier=event.noise_multiplier,
                steps=event.steps,
                client_rate=seen_client_rate(event.client_rate, observer),
            )[0]
            for order in orders
        ]
    )
    curve.flags.writeable = False
    return curve


def seen_client_rate(client_rate: float, observer: Observer) -> float:
    """The client rate that amplifies a round against the observer; a rate of 1 does not amplify."""
    match observer:
        case "final_model":
            return client_rate
        case "server":
            return 1.0
        case _:
            assert_never(observer)


def checked_orders(orders: Sequence[int]) -> tuple[int, ...]:
    """The orders. Raises ValueError unless they are whole numbers from 2, ascending."""
    checked = tuple(int(order) for order in orders)
    ascending = all(low < high for low, high in pairwise(checked))
    if not checked or checked[0] < 2 or checked != tuple(orders) or not ascending:
        raise ValueError("orders must be whole numbers, ascending from 2 or more")
    return checked
