"""How often a record may be sampled: the inverse of what it then spends.

The spending of a record grows with its rate, and the function is the same for all records of a
run, made of public numbers. So it is tabulated, as densely as the answer needs, and every record
gets the largest rate of the table whose spending does not pass its budget. The table is the
accountant's own answer at these rates, not a fit: nobody overspends.

Rates are multiples of 2^-32 and exact in float32: a 32-bit random word against such a rate is a
coin with exactly that chance.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.privacy.accounting.accountants.two_stage import TwoStageRun

_GRID = 2.0**-32
_RATIO = 1 + 9e-4  # between neighbours of the table: at least 99.9 % of a budget is used
_COARSE_RATES = 129
_MAX_AT_ONCE = 64
_MIN_BUDGET = 1e-5  # budgets below this are kept as well, but not used as fully
# Sums of the same terms in another order may differ by so much.
_ROUNDING = 1 - 1e-11


@dataclass(frozen=True)
class SamplingRates:
    """The rate of every record; arrays [records]."""

    rates: NDArray[np.float64]
    """0 where the record is never sampled."""
    spends: NDArray[np.float64]
    """The epsilon that the record spends over the run."""
    budgets: NDArray[np.float64]

    @property
    def left_out(self) -> NDArray[np.bool_]:
        """Records whose budget no rate can keep, or that a method leaves out."""
        return np.equal(self.rates, 0)

    @property
    def overspent(self) -> NDArray[np.bool_]:
        """Records that spend more than their budget."""
        return np.greater(self.spends, self.budgets)


def exact_rates(budgets: ArrayLike, run: TwoStageRun) -> SamplingRates:
    """The largest rates at which no record passes its budget.

    At least 99.9 % of each budget is used, but for rates so small that the grid has none nearer.
    `budgets`: positive. A budget above what rate 1 spends gives rate 1; one below the floor of
    the orders gives rate 0, the record is left out.
    """
    wanted = np.asarray(budgets, dtype=np.float64)
    if not len(wanted):
        return SamplingRates(wanted.copy(), wanted.copy(), wanted)
    if not (wanted > 0).all():
        raise ValueError("budgets must be positive")
    kept = wanted * _ROUNDING
    rates, spends = _table(run, kept)
    index = np.searchsorted(spends, kept, side="right") - 1
    return SamplingRates(rates[index], spends[index], wanted)


def sampling_grid(rates: ArrayLike) -> NDArray[np.float64]:
    """The largest rates, not above these, that a coin of 32 bits and float32 have exactly."""
    wide = np.asarray(rates, dtype=np.float64)
    narrow = wide.astype(np.float32)
    above = narrow.astype(np.float64) > wide
    narrow[above] = np.nextafter(narrow[above], np.float32(0))
    grid: NDArray[np.float64] = np.floor(narrow.astype(np.float64) / _GRID) * _GRID
    return grid


def _table(
    run: TwoStageRun, wanted: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rates, ascending from 0, and what they spend, never descending.

    Neighbours around every wanted budget differ by at most `_RATIO`. The budgets only say which
    cells of a coarse table, the same for everybody, are refined, and a cell is refined by the
    run's public numbers alone: a record more or less changes nobody else's rate.
    """
    coarse = np.unique(sampling_grid(np.geomspace(_GRID, 1, _COARSE_RATES)))
    rates, spends = coarse, run.epsilons(coarse)
    cells = np.unique(np.searchsorted(spends, wanted, side="right") - 1)
    while True:
        relevant = np.maximum(spends, _MIN_BUDGET)
        steps = np.log(relevant[1:] / relevant[:-1])
        steps[~np.isin(np.searchsorted(coarse, rates[:-1], side="right") - 1, cells)] = 0
        wide = np.flatnonzero(steps > np.log(_RATIO))
        counts = np.minimum(np.ceil(steps[wide] / np.log(_RATIO)), _MAX_AT_ONCE).astype(np.int64)
        more = np.setdiff1d(_between(rates[wide], rates[wide + 1], counts), rates)
        if not len(more):
            break
        order = np.argsort(np.concatenate([rates, more]), kind="stable")
        spends = np.concatenate([spends, run.epsilons(more)])[order]
        rates = np.concatenate([rates, more])[order]
    spends = np.maximum.accumulate(spends)
    return np.concatenate([[0.0], rates]), np.concatenate([[0.0], spends])


def _between(
    low: NDArray[np.float64], high: NDArray[np.float64], counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """`counts` rates of the grid inside each interval, in geometric steps; may repeat an end."""
    which = np.repeat(np.arange(len(counts)), counts)
    turn = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    part = turn / (counts[which] + 1)
    return np.unique(sampling_grid(low[which] * (high[which] / low[which]) ** part))
