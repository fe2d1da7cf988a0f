"""How a spec uses the records of a federation: their budgets and their coins. No torch.

Budgets are given in a column of the data, or drawn from a distribution of rPDP-FL (CCS 2024) and
clipped to a range. Each record has its own random numbers, by its key, so adding or removing a
record changes no other budget.

Every record tosses its own coin in every step, so a batch may be empty; it still gets noise and
still counts (Mironov, Talwar and Zhang, "Renyi differential privacy of the sampled Gaussian
mechanism", 2019). A coin depends on the seed, the silo, the step and the record's index in its
silo: not on other records, on padding, or on who else takes part.
"""

from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.privacy.accounting.epsilon_tables import (
    EpsilonCurve,
    EpsilonTerms,
    RepeatedEvent,
    worst_epsilons,
)
from fedaudit.privacy.accounting.privacy_events import Adjacency, Observer
from fedaudit.privacy.accounting.two_stage import MAX_NOISE, TwoStageRun, calibrated_run
from fedaudit.privacy.records.record_plans import (
    RecordPlan,
    curve_fit_rates,
    exact_rates,
    longest_lasting,
    sampling_grid,
)
from fedaudit.randomness import Purpose, Source, keyed_words, wide_uniforms
from fedaudit.spec.errors import FieldError, error_at, raise_errors
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import RecordPersonalised
from fedaudit.spec.training import Cohort, PoissonCohort

_SHARES = (0.7, 0.2, 0.1)
_LEVELS = (0.1, 1.0, 5.0)
_SPREADS = (0.05, 0.1, 0.5)
_PARETO_SHAPE = 4.0
_PARETO_SHIFT = 0.1
_NAMED_ROWS = 5


def drawn_budgets(spec: ExperimentSpec, *, keys: NDArray[np.uint64]) -> Floats:
    """The budgets of a spec with a `distribution`, from its smallest to its largest: float64
    [records].

    `keys` [records]: a number for each that depends on no other record
    (`fedaudit.federations.record_keys`). `three-levels`: 0.1, 1 or 5 with chances 0.7, 0.2, 0.1;
    `bounded-pareto`: 0.1 plus a Lomax (numpy's `pareto`) number of shape 4; `bounded-mix-gauss`:
    normal around the three levels with deviations 0.05, 0.1, 0.5, in the same shares. Raises
    ValueError for a spec without a distribution.
    """
    privacy = spec.privacy
    if not isinstance(privacy, RecordPersonalised) or privacy.budgets.distribution is None:
        raise ValueError("the spec has no distribution of budgets")
    words = keyed_words(spec.seed, purpose=Purpose.RECORD_BUDGETS, keys=keys, count=2)
    first, second = wide_uniforms(words).T
    level = np.searchsorted(np.cumsum(_SHARES[:-1]), first, side="right")
    budgets: Floats = np.array(_LEVELS)[level]
    match privacy.budgets.distribution:
        case "bounded-pareto":
            budgets = first ** (-1 / _PARETO_SHAPE) - 1 + _PARETO_SHIFT
        case "three-levels":
            pass
        case "bounded-mix-gauss":
            from scipy.special import ndtri

            budgets = budgets + np.array(_SPREADS)[level] * ndtri(second)
        case _:
            assert_never(privacy.budgets.distribution)
    return np.clip(budgets, privacy.epsilon_min, privacy.epsilon_max)


def given_budgets(values: ArrayLike, *, rows: ArrayLike, epsilon_max: float) -> Floats:
    """Budgets from a column, lowered to `epsilon_max` where they exceed it: float64 [records].

    A given budget is a promise to a data subject, so it is never raised: there is no lower end, and
    a budget too small to be sampled at all is left out later. `rows`: the names of records in
    messages. Raises InvalidInputError, naming rows, for a budget that is not a positive finite
    number.
    """
    budgets = np.asarray(values, dtype=np.float64)
    faults = [
        FieldError(
            "/privacy/budgets/column", f"{what} in {_named(np.asarray(rows)[wrong])}; {remedy}"
        )
        for what, wrong, remedy in (
            ("no number", np.isnan(budgets), "give every record a budget, or drop it"),
            ("an infinite budget", np.isinf(budgets), "give a number; epsilon_max caps it"),
            ("a budget of zero", budgets == 0, "drop records that may not be used"),
            ("a negative budget", np.isfinite(budgets) & (budgets < 0), "budgets are positive"),
        )
        if wrong.any()
    ]
    raise_errors(faults)
    return np.minimum(budgets, epsilon_max)


def _named(rows: NDArray[np.generic]) -> str:
    names = ", ".join(str(row) for row in rows[:_NAMED_ROWS])
    more = len(rows) - _NAMED_ROWS
    return f"row{'s' if len(rows) > 1 else ''} {names}" + (f" and {more} more" if more > 0 else "")


_WORDS = 2.0**32


def tossed_coins(source: Source, *, steps: ArrayLike, silos: ArrayLike, inclusion: Floats) -> Bools:
    """Which records take part: bool [..., rows] over broadcast(seeds, steps, silos).

    `steps` are numbers that a run never uses twice, such as (round - 1) * steps a round + step;
    `inclusion` [..., rows] the probabilities, 0 for padding. A probability is rounded down to a
    multiple of 2**-32, so that no record takes part more often than it was charged for. Raises
    ValueError where one is not within 0 and 1.
    """
    if not np.all((inclusion >= 0) & (inclusion <= 1)):
        raise ValueError("probabilities of inclusion must lie between 0 and 1")
    words = source.words(
        purpose=Purpose.RECORDS, round_=steps, counters=silos, count=inclusion.shape[-1]
    )
    return words < np.floor(inclusion * _WORDS).astype(np.uint64)


def sampled_rows(taken: Bools) -> tuple[Ints, Ints]:
    """The rows that take part, in front: rows [..., width] and how many they are, [...].

    `taken` [..., rows]. Rows ascend; `width` is the size of the largest batch. Rows beyond a size
    are 0.
    """
    sizes = taken.sum(-1)
    width = int(sizes.max(initial=0))
    rows = np.zeros((*sizes.shape, width), dtype=np.int64)
    rows[np.arange(width) < sizes[..., None]] = np.nonzero(taken)[-1]
    return rows, sizes


def client_rate(cohort: Cohort) -> float:
    """The chance of a client in a round.

    Raises ValueError for a cohort of fixed size, which the spec's rules leave to other mechanisms.
    """
    if not isinstance(cohort, PoissonCohort):
        raise ValueError("records are accounted for with a coin for each client")
    return cohort.rate


def uncalibrated_run(spec: ExperimentSpec) -> TwoStageRun:
    """The public numbers of a run, with the most noise. Budgets are kept against an observer of the
    final model; figures against the other one follow from the plan's runs.

    Raises ValueError for a spec of another mechanism, or with a cohort of fixed size.
    """
    privacy, training = spec.privacy, spec.training
    steps = training.local.steps
    if not isinstance(privacy, RecordPersonalised) or steps is None:
        raise ValueError(f"{privacy.mechanism} does not sample records")
    return TwoStageRun(
        client_rate=client_rate(training.cohort),
        noise_multiplier=MAX_NOISE,
        steps=steps,
        rounds=training.rounds,
        delta=privacy.delta,
        observer="final_model",
    )


def record_use(
    spec: ExperimentSpec, *, budgets: Floats, client_of: Ints, clients: int
) -> RecordPlan:
    """How the spec uses records with these budgets: each as often as its budget allows, with noise
    at all clients that a record of rate 1 needs to stay within `epsilon_max`, or as a baseline.

    In a baseline every client samples `batch_size` records a step on average, and but for `filter`
    it adds as much noise as its rate needs; a client without a record has that of a rate of 1.

    - `privacy-free`: none.
    - `uniform`: all records spend at most `uniform_epsilon`, whatever their budgets.
    - `strong-for-all`: all spend at most the smallest budget.
    - `dropout`: records below the mean budget leave, and the others spend at most the mean.
    - `filter`: the noise of rPDP-FL; a record leaves before the round that would pass its own
      budget. The paper gives no figures for it, and which noise it had is not known.

    `client_of` ascends, below the number of training `clients`; a client may have no record. Raises
    InvalidInputError where no noise is enough, or no curve can be fitted.
    """
    public, privacy = uncalibrated_run(spec), spec.privacy
    assert isinstance(privacy, RecordPersonalised)
    staying = np.full(len(budgets), True)
    if privacy.baseline == "dropout":
        staying = budgets >= budgets.mean()
    sizes = np.bincount(client_of[staying], minlength=clients)
    batch = spec.training.local.batch_size or 1  # a baseline has one
    client_rates = sampling_grid(np.minimum(batch / np.maximum(sizes, 1), 1.0))
    rates = np.where(staying, client_rates[client_of], 0.0)
    rounds = np.where(staying, public.rounds, 0)

    def within(epsilon: float, field: str) -> tuple[TwoStageRun, ...]:
        at = f"/privacy/{field}"
        return tuple(
            calibrated_run(epsilon, public, record_rate=rate, pointer=at)
            for rate in client_rates.tolist()
        )

    runs: tuple[TwoStageRun, ...] | None = None
    match privacy.baseline:
        case None:
            run = calibrated_run(privacy.epsilon_max, public)
            invert = {"exact": exact_rates, "curve-fit": curve_fit_rates}[privacy.inversion]
            runs, rates = (run,) * clients, invert(budgets, run)
        case "filter":
            run = calibrated_run(privacy.epsilon_max, public)
            runs, rounds = (run,) * clients, longest_lasting(budgets, rates, run)
        case "uniform":
            runs = within(privacy.uniform_epsilon, "uniform_epsilon")
        case "strong-for-all":
            runs = within(float(budgets.min()), "epsilon_min")
        case "dropout":
            runs = within(float(budgets.mean()), "epsilon_max")
        case "privacy-free":
            pass
        case _:
            assert_never(privacy.baseline)
    return RecordPlan(runs=runs, rates=rates, rounds=rounds, budgets=budgets, client_of=client_of)


_MAX_LEVELS = 12


@dataclass(frozen=True)
class RecordGroup:
    """Records whose budgets lie in one range."""

    name: str
    low: float
    high: float
    """The largest budget that may lie in the group."""


def record_groups(budgets: Floats, used: Bools) -> tuple[tuple[RecordGroup, ...], Ints]:
    """The groups, by ascending budget, and each record's: int [records], -1 for an unused record.

    A few distinct budgets make a group each. Many budgets are binned between 1, 2 and 5 times a
    power of ten; these bounds do not depend on the budgets.
    """
    group_of = np.full(len(budgets), -1, dtype=np.int64)
    levels = np.unique(budgets[used])
    if len(levels) <= _MAX_LEVELS:
        group_of[used] = np.searchsorted(levels, budgets[used])
        exact = [RecordGroup(f"budget {level!r}", level, level) for level in levels.tolist()]
        return tuple(exact), group_of
    ends = _round_numbers(float(levels[0]), float(levels[-1]))
    # A budget equal to a bound belongs to the group below it.
    found = np.searchsorted(ends, budgets[used], side="left")
    present, position = np.unique(found, return_inverse=True)
    group_of[used] = position
    ranges = [(ends[place - 1], ends[place]) for place in present.tolist()]
    return tuple(
        RecordGroup(f"budget over {low:g} to {high:g}", low, high) for low, high in ranges
    ), group_of


def enclosing(low: float, high: float) -> tuple[float, float]:
    """The nearest of those round numbers below budgets in [low, high], and at or above them."""
    ends = _round_numbers(low, high)
    first, last = np.searchsorted(ends, [low, high], side="left").tolist()
    below = first if low < high and ends[first] == low else first - 1
    return ends[below], ends[last]


def _round_numbers(smallest: float, largest: float) -> list[float]:
    """1, 2 and 5 times powers of ten, from below `smallest` to `largest` or above."""
    exponents = range(int(np.floor(np.log10(smallest))) - 1, int(np.floor(np.log10(largest))) + 2)
    return [float(f"{digit}e{exponent}") for exponent in exponents for digit in (1, 2, 5)]


RECORD_OBSERVERS: tuple[Observer, ...] = ("final_model", "server")
RECORD_ADJACENCY: Adjacency = "add-or-remove-one"


def epsilon_terms(observer: Observer, delta: float) -> EpsilonTerms:
    """Those of records, against an observer."""
    return EpsilonTerms(adjacency=RECORD_ADJACENCY, observer=observer, delta=delta)


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordSpending:
    """Every record's own figures; arrays [records], client after client."""

    use: RecordPlan
    rounds: int
    """Rounds of the whole run. A record leaves after the compositions for which it stays, rounds
    that were lost and repeated included, so that no record passes its budget by repeats."""
    delta: float
    groups: tuple[RecordGroup, ...]
    group_of: Ints
    """-1 where the record is left out."""

    @property
    def left_out(self) -> int:
        """Records that are never sampled, because their budget is too small or a baseline drops
        them."""
        return int(np.count_nonzero(self.group_of < 0))

    def epsilons(self, observer: Observer, compositions: ArrayLike) -> Floats:
        """What each record has spent after this many compositions (a number, or [records])."""
        plan = self.use
        counts = np.minimum(np.asarray(compositions, dtype=np.int64), plan.rounds)
        spent = np.zeros(len(plan.rates))
        for run, mine in self._runs():
            seen = replace(run, observer=observer)
            spent[mine] = seen.epsilons(plan.rates[mine], rounds=counts[mine])
        return spent

    def overspent(self, compositions: ArrayLike) -> int:
        """The number of records that exceeded their budget against the final model."""
        spent = self.epsilons("final_model", compositions)
        return int(np.count_nonzero(spent > self.use.budgets))

    def of_groups(self, compositions: ArrayLike) -> list[dict[str, Any]]:
        """What the records of each group, in their order, spent against the final model.

        `records`: how many they are; `epsilon_max`; `budget_used_share`: the largest share of its
        own budget that a record spent; above 1 it was passed.
        """
        spent, budgets = self.epsilons("final_model", compositions), self.use.budgets
        return [
            {
                "records": int(np.count_nonzero(mine)),
                "epsilon_max": float(spent[mine].max()),
                "budget_used_share": float((spent[mine] / budgets[mine]).max()),
            }
            for mine in (self.group_of == at for at in range(len(self.groups)))
        ]

    def lines(self) -> dict[Observer, tuple[EpsilonCurve, ...]]:
        """For each observer one curve for each group: that of the record that spends most."""
        counts = np.arange(self.rounds + 1)
        found: dict[Observer, tuple[EpsilonCurve, ...]] = dict.fromkeys(RECORD_OBSERVERS, ())
        for group in range(len(self.groups)):
            # Events are the same against all observers.
            events = self._repeated_events(group)
            tables = {
                terms: np.array([worst_epsilons((one,), counts, terms) for one in events])
                for terms in (epsilon_terms(one, self.delta) for one in RECORD_OBSERVERS)
            }
            # Keep each event that is the worst somewhere against any observer, the largest final
            # cost first.
            worst = np.unique([table.argmax(axis=0)[1:] for table in tables.values()])
            for terms, table in tables.items():
                order = worst[np.argsort(-table[worst, -1], kind="stable")]
                curve = EpsilonCurve(
                    terms=terms,
                    repeated_events=tuple(events[place] for place in order.tolist()),
                    epsilons=table.max(axis=0),
                )
                found[terms.observer] = (*found[terms.observer], curve)
        return found

    def _repeated_events(self, group: int) -> list[RepeatedEvent]:
        """The repeated events of the group's records; of those that differ only in rate, the
        largest."""
        plan = self.use
        repeated_events = []
        for run, mine in self._runs():
            inside = mine & (self.group_of == group)
            for lasts in np.unique(plan.rounds[inside]).tolist():
                rate = float(plan.rates[inside & (plan.rounds == lasts)].max())
                repeated_events.append(RepeatedEvent(run.event(rate), lasts))
        return repeated_events

    def _runs(self) -> list[tuple[TwoStageRun, Bools]]:
        """The distinct runs of the clients, and the records of each."""
        runs = self.use.runs or ()
        distinct = list(dict.fromkeys(runs))
        number = {run: place for place, run in enumerate(distinct)}
        of_client = np.array([number[run] for run in runs], dtype=np.int64)
        of_record = of_client[self.use.client_of]
        return [(run, of_record == place) for place, run in enumerate(distinct)]


def record_spending(use: RecordPlan, *, rounds: int, delta: float) -> RecordSpending:
    """The figures of a plan with noise.

    Raises InvalidInputError where no record can be used, and ValueError for a plan without noise.
    """
    if use.runs is None:
        raise ValueError("without noise nothing bounds what a record spends")
    used = ~use.left_out
    if not used.any():
        raise error_at(
            "/privacy/epsilon_max",
            "no record can be sampled even once within its budget; raise the budgets, "
            "epsilon_max or delta, or take fewer rounds or steps",
        )
    groups, group_of = record_groups(use.budgets, used)
    return RecordSpending(use=use, rounds=rounds, delta=delta, groups=groups, group_of=group_of)
