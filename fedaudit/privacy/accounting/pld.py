"""Privacy loss distributions of (Poisson-sampled) Gaussian sums, by dp-accounting.

Tighter than Renyi orders. Losses are rounded up to a grid (a pessimistic estimate), so the figure
is an upper bound.
"""

from collections.abc import Mapping
from typing import assert_never

from fedaudit.privacy.accounting.accountant import Accountant, Spending, sampled_gaussian_refusal
from fedaudit.privacy.accounting.privacy_events import (
    Adjacency,
    Composed,
    DiscreteLaplace,
    Event,
    FixedSizeSampled,
    Gaussian,
    LaplaceL2,
    NonPrivate,
    PoissonSampled,
    TwoStage,
    known_event,
)

LOSS_STEP = 1e-4
COARSE_LOSS_STEP = 1e-3
"""Coarser, ten times as fast, and still an upper bound."""


class PldAccountant(Accountant):
    """Composes the distributions themselves. A figure takes up to seconds, so request few."""

    name = "pld"

    def __init__(self, *, adjacency: Adjacency, loss_step: float = LOSS_STEP) -> None:
        """`loss_step`: the width of the grid of losses."""
        super().__init__(adjacency=adjacency)
        self._loss_step = loss_step

    def _refusal(self, event: Event) -> str | None:
        return sampled_gaussian_refusal(
            event, accountant=self.name, adjacency=self.adjacency, fixed_size=False
        )

    def _spent(self, counts: Mapping[Event, int], delta: float) -> Spending:
        import dp_accounting
        from dp_accounting.pld import PLDAccountant as Library

        # Under replacement the library itself places neighbouring sums two clips apart.
        relation = {
            "add-or-remove-one": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
            "replace-one": dp_accounting.NeighboringRelation.REPLACE_ONE,
        }[self.adjacency]
        library = Library(relation, self._loss_step)
        for event, count in counts.items():
            library.compose(_library_event(event), count)
        epsilon = float(library.get_epsilon(delta))
        return Spending(max(0.0, epsilon), delta, self.adjacency, self.name)


def _library_event(event: Event) -> object:
    import dp_accounting

    known = known_event(event)
    match known:
        case Gaussian():
            return dp_accounting.GaussianDpEvent(known.noise_multiplier)
        case PoissonSampled():
            return dp_accounting.PoissonSampledDpEvent(known.rate, _library_event(known.event))
        case (
            NonPrivate()
            | FixedSizeSampled()
            | TwoStage()
            | DiscreteLaplace()
            | LaplaceL2()
            | Composed()
        ):
            raise TypeError(f"no (Poisson-sampled) Gaussian sum: {event}")
        case _:
            assert_never(known)
