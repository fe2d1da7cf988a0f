"""Rates averaged over clients: each client's own rate counts the same, however many rows it has.

Rates pooled over records and rates averaged over clients are two figures. Where large clients fare
better than small ones in one group and not in another, their gaps differ, and either may be 0 where
the other is not. A client has a say in a rate only where it has rows in the rate's denominator.

What is hidden in the pooled rates is hidden here, and groups with fewer than two clients besides:
their average would be one client's rate.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.counts import scored_rows
from fedaudit.fairness.disclosure import MIN_CLIENTS, Disclosure
from fedaudit.fairness.gaps import ZERO_OVER_ZERO, Figure, left_out_note
from fedaudit.fairness.metrics import group_rates, lacking, rate_gaps
from fedaudit.spec.metrics import METRICS, RATES

_CELLS_AT_A_TIME = 1 << 20


@dataclass(frozen=True, eq=False)
class ClientAverages:
    """Averaged rates of all groups, and the gaps between those shown."""

    disclosure: Disclosure
    """By rows and by clients."""
    clients: NDArray[np.int64]
    """[groups]: clients with scored rows."""
    contributing: NDArray[np.int64]
    """[rates, groups]: clients with a denominator for each of the RATES."""
    rates: NDArray[np.float64]
    """[rates, groups]: the RATES; NaN where fewer than MIN_CLIENTS contribute."""
    figures: tuple[Figure, ...]
    """The METRICS."""


def client_averages(client_counts: NDArray[np.int64], disclosure: Disclosure) -> ClientAverages:
    """The averages of counts per client [clients, groups, 4].

    `disclosure`: of the rates pooled over the same rows. Raises ValueError where it was not
    decided from them.
    """
    groups = client_counts.shape[1]
    disclosure.check(scored_rows(client_counts.sum(axis=0)))
    clients = np.zeros(groups, dtype=np.int64)
    contributing = np.zeros((len(RATES), groups), dtype=np.int64)
    sums = np.zeros((len(RATES), groups))
    step = max(1, _CELLS_AT_A_TIME // max(1, groups))
    for start in range(0, len(client_counts), step):
        block = client_counts[start : start + step]
        rates = group_rates(block)
        clients += np.count_nonzero(scored_rows(block), axis=0)
        contributing += np.count_nonzero(~np.isnan(rates), axis=0)
        sums += np.nansum(rates, axis=0)
    enough = contributing >= MIN_CLIENTS
    rates = np.divide(sums, contributing, out=np.full_like(sums, np.nan), where=enough)
    found = disclosure.of_clients(clients)
    return ClientAverages(
        disclosure=found,
        clients=clients,
        contributing=contributing,
        rates=rates,
        figures=_figures(rates, found.shown, found.reference),
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
    without = lacking(rates[:, shown], METRICS[metric].family.name)
    if without:
        return f"in {without} of the groups compared, fewer than two clients have such a rate"
    return ZERO_OVER_ZERO
