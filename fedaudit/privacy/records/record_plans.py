"""How often a record may be sampled: the inverse of what it then spends.

The spending of a record grows with its rate, and the function is the same for all records of a
run, made of public numbers. So it is tabulated, as densely as the answer needs, and every record
gets the largest rate of the table whose spending does not pass its budget. The table is the
accountant's own answer at these rates, not a fit: no record overspends.

Rates are multiples of 2^-32 and exact in float32: a 32-bit random word against such a rate is a
coin with exactly that chance.

Simulation-CurveFitting, the authors' way from a budget to a rate (rPDP-FL, CCS 2024).

The spending is simulated on a grid of rates, exp(a q + b) + c is fitted to it by least squares,
and the fit is inverted. The fit is good where epsilon is large and too low or too high, by much,
where it is small, though R^2 exceeds 0.999: records with small budgets overspend. It is kept to
reproduce the paper; `exact_rates` is what keeps budgets.

A plan states how much noise each client adds in training, how often each record is sampled and for
how many rounds. The paper's baselines are plans too: there every record of a client is sampled
alike.

Individual Renyi filter: how long each record stays before it would pass its own budget. Feldman and
Zrnic, "Individual privacy accounting via a Renyi filter" (2021): with an order fixed for each
record in advance, divergences add up even where each step's depends on the ones before, and
stopping in time is as private as never having planned more. Who has left reveals what was spent, so
the set of records that are still in is as secret as the data."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.privacy.accounting.accountant import added_epsilon
from fedaudit.privacy.accounting.two_stage import TWO_STAGE_ORDERS, TwoStageRun
from fedaudit.spec.errors import error_at
from fedaudit.spec.privacy import Baseline

_GRID = 2.0**-32
_RATIO = 1 + 9e-4  # between neighbours of the table: at least 99.9 % of a budget is used
_COARSE_RATES = 129
_MAX_AT_ONCE = 64
_MIN_BUDGET = 1e-5  # budgets below this are kept as well, but not used as fully
# Sums of the same terms in another order may differ by so much.
_ROUNDING = 1 - 1e-11


def exact_rates(budgets: ArrayLike, run: TwoStageRun) -> Floats:
    """The largest rates at which no record passes its budget: [records].

    At least 99.9 % of each budget is used, but for rates so small that the grid has none nearer.
    `budgets`: positive. A budget above what rate 1 spends gives rate 1; one below the floor of
    the orders gives rate 0, the record is left out.
    """
    wanted = np.asarray(budgets, dtype=np.float64)
    if not len(wanted):
        return wanted.copy()
    if not (wanted > 0).all():
        raise ValueError("budgets must be positive")
    kept = wanted * _ROUNDING
    rates, spends = _table(run, kept)
    return rates[np.searchsorted(spends, kept, side="right") - 1]


def sampling_grid(rates: ArrayLike) -> Floats:
    """The largest rates, not above these, that a coin of 32 bits and float32 have exactly."""
    wide = np.asarray(rates, dtype=np.float64)
    narrow = wide.astype(np.float32)
    above = narrow.astype(np.float64) > wide
    narrow[above] = np.nextafter(narrow[above], np.float32(0))
    return np.floor(narrow.astype(np.float64) / _GRID) * _GRID


def _table(run: TwoStageRun, wanted: Floats) -> tuple[Floats, Floats]:
    """Rates, ascending from 0, and what they spend, never descending.

    Neighbours around every wanted budget differ by at most `_RATIO`. The budgets only say which
    cells of a coarse table, the same for everybody, are refined, and a cell is refined by the
    run's public numbers alone: a record more or less changes no other record's rate.
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


def _between(low: Floats, high: Floats, counts: Ints) -> Floats:
    """`counts` rates of the grid inside each interval, in geometric steps; may repeat an end."""
    which = np.repeat(np.arange(len(counts)), counts)
    turn = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    part = turn / (counts[which] + 1)
    return np.unique(sampling_grid(low[which] * (high[which] / low[which]) ** part))


_FIT_RATES: Floats = np.unique(
    np.concatenate([np.arange(1, 100) / 100, np.arange(1, 100) / 1000, [1.0]])
)
"""The authors' grid: 0.01 to 0.99, 0.001 to 0.099, and 1."""


def curve_fit_rates(budgets: ArrayLike, run: TwoStageRun) -> Floats:
    """Rates at which epsilon, taken for exp(a q + b) + c, is the budget: some records spend more.

    Raises InvalidInputError where least squares do not converge.
    """
    from scipy.optimize import curve_fit

    def curve(rates: Floats, a: float, b: float, c: float) -> Floats:
        return np.exp(a * rates + b) + c

    spends = run.epsilons(_FIT_RATES)
    start = (1.0, np.log(max(float(spends[-1]), 1e-12)) - 1.0, 0.0)
    try:
        (a, b, c), _ = curve_fit(curve, _FIT_RATES, spends, p0=start, maxfev=20_000)
    except RuntimeError:
        must = "must be exact: no exponential curve can be fitted to what records spend in this run"
        raise error_at("/privacy/inversion", must, of_spec=True) from None
    above = np.asarray(budgets, dtype=np.float64) - c
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = (np.log(above) - b) / a
    return sampling_grid(np.clip(np.where(above > 0, rates, 0.0), 0.0, 1.0))


@dataclass(frozen=True, kw_only=True)
class RecordPlan:
    """How records are used. Arrays [records], client after client, except for `runs`: one for each
    client."""

    runs: tuple[TwoStageRun, ...] | None
    """The noise of each client and the spending it implies; None where there is no noise."""
    rates: Floats
    """The chance of each record in each step; 0 where it is left out."""
    rounds: Ints
    """Rounds for which the record stays, whether or not its client takes part in them."""
    budgets: Floats
    client_of: Ints
    """The training client that holds each record, from 0."""

    @property
    def left_out(self) -> Bools:
        """Records that are never sampled."""
        never: Bools = (self.rates == 0) | (self.rounds == 0)
        return never


def longest_lasting(budgets: Floats, rates: Floats, run: TwoStageRun) -> Ints:
    """For how many rounds each record stays, 0 .. `run.rounds`: [records].

    `budgets`, `rates`: [records]. A filter charges every round the divergence of the record's rate,
    at the order at which the record stays longest, which follows from public numbers and its own
    budget.
    """
    longest = np.zeros(len(budgets), dtype=np.int64)
    distinct, position = np.unique(rates, return_inverse=True)
    for order in TWO_STAGE_ORDERS:
        cost = run.divergence(distinct, order)[position]
        # The divergence that still gives this epsilon: below 0 where the order cannot show it.
        limit = np.maximum((budgets - added_epsilon(order, run.delta)) * _ROUNDING, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            lasts = np.where(cost > 0, np.floor(limit / cost * _ROUNDING), np.inf)
        longest = np.maximum(longest, np.minimum(lasts, run.rounds).astype(np.int64))
    return longest


_SIZES_ARE_PUBLIC = "how many records each client holds, which sets their rate"
TREATED_AS_PUBLIC: dict[Baseline, tuple[str, ...]] = {
    "privacy-free": (_SIZES_ARE_PUBLIC,),
    "uniform": (_SIZES_ARE_PUBLIC,),
    "strong-for-all": (_SIZES_ARE_PUBLIC, "the smallest budget, which sets the noise"),
    "dropout": (
        _SIZES_ARE_PUBLIC,
        "the mean budget, which sets the noise and who stays",
        "how many records of each client stay, which sets their rate",
    ),
    "filter": (_SIZES_ARE_PUBLIC,),
}
"""By baseline, what its figures take as known to everybody."""
