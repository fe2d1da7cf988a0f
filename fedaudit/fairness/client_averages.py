"""Rates averaged over clients: each client's own rate counts the same, however many rows it has.

Rates pooled over records and rates averaged over clients are two figures. Where large clients fare
better than small ones in one group and not in another, their gaps differ, and either may be 0 where
the other is not. A client has a say in a rate only where it has rows in the rate's denominator.

What is hidden in the pooled rates is hidden here, and groups with fewer than two clients besides:
their average would be one client's rate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.combination import Combination
from fedaudit.fairness.counts import RATES, group_rates, scored_rows
from fedaudit.fairness.gaps import (
    METRICS,
    ZERO_OVER_ZERO,
    Figure,
    left_out_note,
    rate_gaps,
    reference_index,
)
from fedaudit.fairness.suppression import complemented, shown_groups

FEWEST_CLIENTS = 2
"""Whose average is shown."""

_CELLS_AT_A_TIME = 1 << 20
_RATES_OF = {
    "demographic_parity": (0,),
    "equalized_odds": (1, 2),
    "equal_opportunity": (1,),
}


@dataclass(frozen=True, eq=False)
class ClientAverages:
    """Averaged rates of all groups, and the gaps between those shown."""

    shown: NDArray[np.bool_]
    """[groups]"""
    clients: NDArray[np.int64]
    """[groups]: clients with scored rows."""
    contributing: NDArray[np.int64]
    """[3, groups]: clients with a denominator for each of the RATES."""
    rates: NDArray[np.float64]
    """[3, groups]: the RATES; NaN where fewer than FEWEST_CLIENTS contribute."""
    figures: tuple[Figure, ...]
    """The METRICS."""


def client_averages(
    client_counts: NDArray[np.int64],
    groups: Sequence[str],
    *,
    minimum_group_size: int,
    reference_group: str | None = None,
    combination: Combination | None = None,
) -> ClientAverages:
    """The averages of counts per client [clients, groups, 4].

    `minimum_group_size`: scored rows below which a group is hidden, as in the pooled rates. Raises
    ValueError where the reference group is none of the groups.
    """
    reference = reference_index(groups, reference_group)
    clients = np.zeros(len(groups), dtype=np.int64)
    contributing = np.zeros((len(RATES), len(groups)), dtype=np.int64)
    sums = np.zeros((len(RATES), len(groups)))
    step = max(1, _CELLS_AT_A_TIME // max(1, len(groups)))
    for start in range(0, len(client_counts), step):
        block = client_counts[start : start + step]
        rates = group_rates(block)
        clients += np.count_nonzero(scored_rows(block), axis=0)
        contributing += np.count_nonzero(~np.isnan(rates), axis=0)
        sums += np.nansum(rates, axis=0)
    enough = contributing >= FEWEST_CLIENTS
    rates = np.divide(sums, contributing, out=np.full_like(sums, np.nan), where=enough)
    rows = scored_rows(client_counts.sum(axis=0))
    pooled = shown_groups(rows, minimum_group_size=minimum_group_size, combination=combination)
    shown = complemented(
        pooled & (clients >= FEWEST_CLIENTS),
        rows,
        minimum_group_size=minimum_group_size,
        combination=combination,
    )
    return ClientAverages(
        shown=shown,
        clients=clients,
        contributing=contributing,
        rates=rates,
        figures=_figures(rates, shown, reference),
    )


def _figures(
    rates: NDArray[np.float64], shown: NDArray[np.bool_], reference: int | None
) -> tuple[Figure, ...]:
    values = rate_gaps(rates, shown, reference=reference).tolist()
    note = left_out_note(len(shown) - int(shown.sum()), len(shown))
    return tuple(
        Figure(metric, None, _why(metric, rates, shown, reference))
        if math.isnan(value)
        else Figure(metric, value, note)
        for metric, value in zip(METRICS, values, strict=True)
    )


def _why(
    metric: str, rates: NDArray[np.float64], shown: NDArray[np.bool_], reference: int | None
) -> str:
    if int(shown.sum()) < 2:
        return "fewer than two groups are left to compare"
    if reference is not None and not shown[reference]:
        return "the reference group is left out"
    compared = rates[list(_RATES_OF[metric.rsplit("_", 1)[0]])][:, shown]
    lacking = int(np.isnan(compared).any(axis=0).sum())
    if lacking:
        return f"in {lacking} of the groups compared, fewer than two clients have such a rate"
    return ZERO_OVER_ZERO
