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
from typing import Literal, assert_never

import numpy as np
from numpy.typing import ArrayLike

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.privacy.accounting.accountant import added_epsilon
from fedaudit.privacy.accounting.two_stage import (
    TWO_STAGE_ORDERS,
    RecordSettings,
    TwoStageRun,
    calibrated_run,
)
from fedaudit.spec.errors import error_at

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
    found: Floats = rates[np.searchsorted(spends, kept, side="right") - 1]
    return found


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


FIT_RATES: Floats = np.unique(
    np.concatenate([np.arange(1, 100) / 100, np.arange(1, 100) / 1000, [1.0]])
)
"""The authors' grid: 0.01 to 0.99, 0.001 to 0.099, and 1."""


@dataclass(frozen=True)
class FittedCurve:
    """epsilon is about exp(a q + b) + c."""

    a: float
    b: float
    c: float

    def rates(self, budgets: ArrayLike) -> Floats:
        """The rates at which these budgets are spent according to the fit, clamped to [0, 1]."""
        above = np.asarray(budgets, dtype=np.float64) - self.c
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = (np.log(above) - self.b) / self.a
        return np.clip(np.where(above > 0, rates, 0.0), 0.0, 1.0)


def fit_curve(run: TwoStageRun) -> FittedCurve:
    """Least squares on the authors' grid. Raises InvalidInputError where they do not converge."""
    from scipy.optimize import curve_fit

    spends = run.epsilons(FIT_RATES)

    def curve(rates: Floats, a: float, b: float, c: float) -> Floats:
        return np.exp(a * rates + b) + c

    start = (1.0, np.log(max(float(spends[-1]), 1e-12)) - 1.0, 0.0)
    try:
        (a, b, c), _ = curve_fit(curve, FIT_RATES, spends, p0=start, maxfev=20_000)
    except RuntimeError:
        must = "must be exact: no exponential curve can be fitted to what records spend in this run"
        raise error_at("/privacy/inversion", must, of_spec=True) from None
    return FittedCurve(float(a), float(b), float(c))


def curve_fit_rates(budgets: ArrayLike, run: TwoStageRun) -> Floats:
    """Rates by the fit, at which some records spend more than their budgets."""
    return sampling_grid(fit_curve(run).rates(budgets))


Inversion = Literal["exact", "curve-fit"]


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


def personalised_plan(
    budgets: Floats,
    settings: RecordSettings,
    *,
    client_of: Ints,
    clients: int,
    inversion: Inversion = "exact",
) -> RecordPlan:
    """rPDP-FL: every record is sampled as often as its budget allows.

    All clients add the same noise: as much as a record of rate 1 needs to stay within
    `epsilon_max`. Raises InvalidInputError where no noise is enough, or no curve can be fitted.
    """
    run = calibrated_run(settings.epsilon_max, settings)
    invert = {"exact": exact_rates, "curve-fit": curve_fit_rates}[inversion]
    return RecordPlan(
        runs=(run,) * clients,
        rates=invert(budgets, run),
        rounds=np.full(len(budgets), run.rounds, dtype=np.int64),
        budgets=budgets,
        client_of=client_of,
    )


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


Baseline = Literal["privacy-free", "uniform", "strong-for-all", "dropout", "filter"]

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


def baseline_plan(
    budgets: Floats,
    settings: RecordSettings,
    *,
    baseline: Baseline,
    client_of: Ints,
    clients: int,
    batch_size: int,
    uniform_epsilon: float | None = None,
) -> RecordPlan:
    """The plan of a baseline in which a client samples `batch_size` records a step on average.

    `client_of` [records]: the client that holds each record, from 0 and below `clients`; a client
    without a record has the noise of a rate of 1. But for `filter`, every client has noise of its
    own, as its rate needs it:

    - `privacy-free`: none.
    - `uniform`: all records spend at most `uniform_epsilon`, whatever their budgets.
    - `strong-for-all`: all spend at most the smallest budget.
    - `dropout`: records below the mean budget leave, and the others spend at most the mean.
    - `filter`: the noise of rPDP-FL; a record leaves before the round that would pass its own
      budget (`fedaudit.privacy.records.record_plans`). The paper gives no figures for it, and
      which noise it had is not known.

    Raises InvalidInputError where no noise is enough.
    """
    if not len(budgets) or len(client_of) != len(budgets):
        raise ValueError("a plan needs records, and the client of each")
    staying = np.full(len(budgets), True)
    if baseline == "dropout":
        staying = budgets >= budgets.mean()
    client_rates = _client_rates(client_of, staying, batch_size, clients=clients)
    rates = np.where(staying, client_rates[client_of], 0.0)
    rounds = np.where(staying, settings.rounds, 0)
    runs: tuple[TwoStageRun, ...] | None = None
    match baseline:
        case "privacy-free":
            pass  # nothing is added
        case "filter":
            runs = (calibrated_run(settings.epsilon_max, settings),) * len(client_rates)
            rounds = longest_lasting(budgets, rates, runs[0])
        case "uniform" | "strong-for-all" | "dropout":
            target, pointer = _target(baseline, budgets, uniform_epsilon)
            runs = tuple(
                calibrated_run(target, settings, record_rate=rate, pointer=pointer)
                for rate in client_rates.tolist()
            )
        case _:
            assert_never(baseline)
    return RecordPlan(runs=runs, rates=rates, rounds=rounds, budgets=budgets, client_of=client_of)


def _client_rates(client_of: Ints, staying: Bools, batch_size: int, *, clients: int) -> Floats:
    """The rate at which each client samples those of its records that stay: [clients]."""
    if batch_size < 1:
        raise ValueError(f"batch_size = {batch_size} must be 1 or more")
    sizes = np.bincount(client_of[staying], minlength=clients)
    return sampling_grid(np.minimum(batch_size / np.maximum(sizes, 1), 1.0))


def _target(
    baseline: Literal["uniform", "strong-for-all", "dropout"],
    budgets: Floats,
    uniform_epsilon: float | None,
) -> tuple[float, str]:
    """The largest epsilon that a record may spend, and the field that sets it."""
    match baseline:
        case "strong-for-all":
            return float(budgets.min()), "/privacy/epsilon_min"
        case "dropout":
            return float(budgets.mean()), "/privacy/epsilon_max"
        case "uniform":
            if uniform_epsilon is None:
                raise ValueError("the baseline 'uniform' needs uniform_epsilon")
            return uniform_epsilon, "/privacy/uniform_epsilon"
        case _:
            assert_never(baseline)
