"""What loss distributions are said to need, beside what the library makes."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from fedaudit.privacy.accounting.pld import LOSS_STEP
from fedaudit.privacy.accounting.privacy_events import Adjacency, Event, Gaussian, PoissonSampled
from fedaudit.privacy.declared.histories import MAX_CELLS, Charge, loss_cells

_RELATIONS = {
    "add-or-remove-one": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace-one": dp_accounting.NeighboringRelation.REPLACE_ONE,
}


def _library(event: Event) -> dp_accounting.DpEvent:
    if isinstance(event, PoissonSampled):
        return dp_accounting.PoissonSampledDpEvent(event.rate, _library(event.event))
    assert isinstance(event, Gaussian)
    return dp_accounting.GaussianDpEvent(event.noise_multiplier)


def _made(pairs: list[tuple[Event, int]], adjacency: Adjacency) -> int:
    """Cells of the largest array of the composition."""
    accountant, largest = PLDAccountant(_RELATIONS[adjacency], LOSS_STEP), 0
    for event, count in pairs:
        accountant.compose(_library(event), count)
        found = accountant._pld
        largest = max(largest, found._pmf_remove.size, found._pmf_add.size)
    return largest


@pytest.mark.parametrize(
    ("adjacency", "pairs"),
    [
        ("add-or-remove-one", [(Gaussian(noise), count)])
        for noise in (0.3, 0.5, 1.0, 3.0, 20.0, 300.0)
        for count in (1, 7, 200)
        if count / noise**2 < 100
    ]
    + [
        ("add-or-remove-one", [(PoissonSampled(rate, Gaussian(noise)), count)])
        for rate in (1e-4, 0.01, 0.3, 0.99)
        for noise, count in ((0.6, 1), (1.1, 10), (4.0, 300))
    ]
    + [
        ("replace-one", [(Gaussian(noise), count)])
        for noise, count in ((1.0, 1), (2.0, 5), (40.0, 500))
    ]
    + [
        (
            "add-or-remove-one",
            [(Gaussian(2.0), 3), (PoissonSampled(0.1, Gaussian(1.0)), 20), (Gaussian(0.8), 1)],
        )
    ],
)
def test_no_array_is_larger_than_was_said(
    adjacency: Adjacency, pairs: list[tuple[Event, int]]
) -> None:
    charges = [Charge(event, everyone=False) for event, _ in pairs]
    history = np.array([count for _, count in pairs])
    said = loss_cells(history, charges, adjacency=adjacency)
    made = _made(pairs, adjacency)
    assert made <= said
    # And of large ones not so much larger that what could be composed is refused.
    assert said <= max(MAX_CELLS / 40, 60 * len(pairs) * made)


def test_more_compositions_are_never_said_to_need_less() -> None:
    charge = Charge(PoissonSampled(0.2, Gaussian(1.3)), everyone=False)
    said = [
        loss_cells(np.array([count]), [charge], adjacency="add-or-remove-one")
        for count in (1, 2, 5, 20, 100, 1000, 10_000)
    ]
    assert said == sorted(said)
