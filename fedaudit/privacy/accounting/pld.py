"""Privacy loss distributions of (sampled) Gaussian sums, composed by dp-accounting.

Tighter than Renyi orders. Losses are rounded up to a grid (a pessimistic estimate), so the figure
is an upper bound.
"""

from collections.abc import Mapping

from fedaudit.privacy.accounting.accountant import Accountant, Spending, sampled_gaussian_refusal
from fedaudit.privacy.accounting.privacy_events import Adjacency, Event, Gaussian, RandomAllocated
from fedaudit.privacy.accounting.random_allocation import COARSE, FINE, allocation_loss
from fedaudit.privacy.accounting.rdp import library_event, library_relation

LOSS_STEP = 1e-4
COARSE_LOSS_STEP = 1e-3
"""Coarser, ten times as fast, and still an upper bound."""


class PldAccountant(Accountant):
    """Composes the distributions themselves. A figure takes up to seconds, so request few.

    Blocks of random allocation are composed with equal blocks only: TypeError beside others.
    """

    name = "pld"

    def __init__(self, *, adjacency: Adjacency, loss_step: float = LOSS_STEP) -> None:
        """`loss_step`: the width of the grid of losses; of random allocation, which has a grid of
        its own, whether that is fine."""
        super().__init__(adjacency=adjacency)
        self._loss_step = loss_step

    def _refusal(self, event: Event) -> str | None:
        return sampled_gaussian_refusal(
            event, accountant=self.name, adjacency=self.adjacency, fixed_size=False
        )

    def _spent(self, counts: Mapping[Event, int], delta: float) -> Spending:
        from dp_accounting.pld import PLDAccountant as Library

        [event, *others] = counts
        if isinstance(event, RandomAllocated) and isinstance(event.event, Gaussian) and not others:
            points = FINE if self._loss_step <= LOSS_STEP else COARSE
            noise_multiplier = event.event.noise_multiplier
            loss = allocation_loss(event.rounds, noise_multiplier, points=points)
            epsilon = float(loss.self_compose(counts[event]).get_epsilon_for_delta(delta))
            return Spending(max(0.0, epsilon), delta, self.adjacency, self.name)
        library = Library(library_relation(self.adjacency), self._loss_step)
        for event, count in counts.items():
            # Under replacement the library itself places neighbouring sums two clips apart.
            library.compose(library_event(event, clips=1), count)
        epsilon = float(library.get_epsilon(delta))
        return Spending(max(0.0, epsilon), delta, self.adjacency, self.name)
