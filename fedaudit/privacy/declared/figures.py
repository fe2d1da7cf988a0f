"""What a declared ledger comes to, for whoever shows it."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.privacy_events import FixedSizeSampled, NonPrivate, PoissonSampled
from fedaudit.privacy.declared.histories import (
    Histories,
    Tally,
    distinct,
    largest_epsilon,
    leakages,
    log_ratio,
    over_budget,
)
from fedaudit.spec.declared_ledgers import LedgerTerms

UNBOUNDED = "some rounds were declared without noise, so nothing bounds what they reveal"
OVERFLOW = "exceeds what floating-point numbers hold, so it bounds nothing"
NO_EPSILON = "the cost of {} is not counted as an epsilon with a delta"
NO_LEAKAGE = "only metric privacy is counted as leakage"
NO_THEOREM = "the theorem's sum needs a fixed radius and a clip in every round"
NO_MECHANISM = "no mechanism was declared, so nothing bounds what the rounds reveal"


@dataclass(frozen=True)
class LedgerFigures:
    """The largest cost of any subject; a None has its reason."""

    epsilon_max: float | None
    accountant: str | None
    """Of the epsilon; where it is not that of the terms, `reasons` says why."""
    leakage_max: float | None
    leakage_median: float | None
    log_ratio_max: float | None
    participations_max: int
    """Compositions of the subject that was charged most."""
    over_budget: int
    reasons: dict[str, str] = field(default_factory=dict)


def ledger_figures(terms: LedgerTerms, histories: Histories) -> LedgerFigures:
    """The figures after all rounds so far."""
    rows, charges = histories.distinct(), histories.charges
    reasons: dict[str, str] = {}
    largest = largest_epsilon(histories, terms)
    epsilon = _bounded("epsilon_max", largest.value if largest else None, reasons)
    if largest is not None and largest.reason is not None:
        reasons["accountant"] = largest.reason
    if not terms.counts_epsilon:
        reasons["epsilon_max"] = NO_EPSILON.format(terms.mechanism)
    leakage = median = bound = None
    if terms.mechanism == "laplace-l2":
        own = leakages(histories.of(np.arange(1, len(histories.names))), charges)
        leakage = _bounded("leakage_max", float(own.max(initial=0.0)), reasons)
        middle = float(np.median(_population(own, terms))) if terms.population else 0.0
        median = _bounded("leakage_median", middle, reasons)
        worst = log_ratio(rows[int(leakages(rows, charges).argmax())], charges) if charges else 0.0
        if worst is None:
            reasons["log_ratio_max"] = NO_THEOREM
        bound = _bounded("log_ratio_max", worst, reasons)
    else:
        why = NO_LEAKAGE if terms.counts_epsilon else NO_MECHANISM
        reasons |= dict.fromkeys(("leakage_max", "leakage_median", "log_ratio_max"), why)
    if has_unprotected(histories):
        overflown = [name for name, why in reasons.items() if why == OVERFLOW]
        reasons |= dict.fromkeys(overflown, UNBOUNDED)
    return LedgerFigures(
        epsilon_max=epsilon,
        accountant=largest.accountant if largest else None,
        leakage_max=leakage,
        leakage_median=median,
        log_ratio_max=bound,
        participations_max=int(rows.sum(axis=1).max(initial=0)),
        over_budget=clients_over(terms, histories),
        reasons=reasons,
    )


def has_unprotected(histories: Histories) -> bool:
    """Whether some round was declared without noise."""
    return any(isinstance(charge.event, NonPrivate) for charge in histories.charges)


def _population(own: np.ndarray, terms: LedgerTerms) -> np.ndarray:
    """With those who were never named, who spent nothing; as far as memory is worth it."""
    if terms.unit == "record":
        return own if len(own) else np.zeros(1)
    unnamed = min(max(terms.population - len(own), 0), len(own) + 1)
    return np.concatenate([own, np.zeros(unnamed)])


def clients_over(terms: LedgerTerms, histories: Histories) -> int:
    """How many clients have spent more than the budget of one; those that were never named have
    spent what everyone has."""
    if terms.budget is None:
        return 0
    rows = histories.of(np.arange(len(histories.names)))
    found, which = distinct(rows)
    over = over_budget(found, histories.charges, terms)[which]
    unnamed = terms.population - (len(rows) - 1)
    return int(over[1:].sum()) + (unnamed if over[0] else 0)


def _bounded(name: str, value: float | None, reasons: dict[str, str]) -> float | None:
    if value is not None and not np.isfinite(value):
        reasons[name] = OVERFLOW
        return None
    return value


class Drawn:
    """In how many rounds that charge everyone each client was named."""

    def __init__(self, names: Sequence[str] | None = None, counts: Iterable[int] = ()) -> None:
        self.is_recorded = names is not None
        """Whether there was such a round since names are kept apart."""
        self._counts = dict(zip(names or (), map(int, counts), strict=True))

    def copy(self) -> "Drawn":
        """One to which rounds may be added without changing this one."""
        return Drawn(self.names if self.is_recorded else None, self._counts.values())

    def add(self, names: Iterable[str]) -> None:
        """One more round that named these."""
        self.is_recorded = True
        for name in names:
            self._counts[name] = self._counts.get(name, 0) + 1

    @property
    def names(self) -> list[str]:
        """In the order in which `counts` has them."""
        return list(self._counts)

    @property
    def counts(self) -> NDArray[np.int64]:
        """[names]: rounds that named each."""
        return np.fromiter(self._counts.values(), dtype=np.int64, count=len(self._counts))

    def __contains__(self, name: object) -> bool:
        return name in self._counts


FALSE_ALARMS = 1e-9
"""Of a ledger, over all its counts and all its rounds."""
_EXPONENTS = np.geomspace(1e-5, 50.0, 100)
_UNNAMED = (
    "participants of amplified rounds are not named, by the terms of the ledger, so nothing tests "
    "whether the sampling was as rare as declared"
)


def contradictions(terms: LedgerTerms, histories: Histories, drawn: Drawn) -> list[str]:
    """What the names contradict of the declared sampling; empty where nothing is shown."""
    tallies = [one for one in histories.tallies.values() if one.charge.everyone]
    return list(_contradictions(terms, tallies, drawn)) if tallies else []


def conditions(terms: LedgerTerms, histories: Histories) -> dict[str, str]:
    """Why figures rest on a sampling that nothing tests, by figure; empty where they do not."""
    amplified = any(one.everyone for one in histories.charges)
    return {"epsilon_max": _UNNAMED} if amplified and not terms.names_participants else {}


def _contradictions(terms: LedgerTerms, tallies: list[Tally], drawn: Drawn) -> Iterator[str]:
    rounds = np.array([one.rounds for one in tallies])
    rates = np.array([_rate(one) for one in tallies])
    expected = float(rounds @ rates)
    total, most = int(drawn.counts.sum()), int(drawn.counts.max(initial=0))
    population, number = terms.population, int(rounds.sum())
    alarm = math.log((population + 2) / FALSE_ALARMS)
    # [exponents]: the logarithm of a client's mean of exp(t * rounds that named it), as declared.
    growth = _mean_log(rates, rounds)
    if _evidence(total, population * growth) > alarm:
        yield (
            f"{total} participations in {number} rounds of a population of {population} are more "
            f"than the declared sampling gives, which is {population * expected:.4g} on average"
        )
    if _evidence(most, growth) > alarm:
        yield (
            f"one client was named in {most} of {number} rounds, where the declared sampling gives "
            f"{expected:.4g} on average: the population is smaller than declared, or the sample "
            "was not drawn at random"
        )
    if not terms.names_participants or not drawn.is_recorded:
        return
    # At least one step names clients in each round: rounds of several only name more.
    least = np.array([_sampled(one) for one in tallies])
    if _evidence(-total, population * _mean_log(least, rounds, -_EXPONENTS)) > alarm:
        yield (
            f"{total} participations in {number} rounds of a population of {population} are fewer "
            f"than the declared sampling gives, at least {population * float(rounds @ least):.4g} "
            "on average: those who were drawn and did not answer belong under `failures`, and a "
            "training that cannot name who was drawn states so in the terms of its ledger "
            "(`names_participants: false`)"
        )


def _rate(tally: Tally) -> float:
    """The chance that a round of this charge names a client."""
    rate = _sampled(tally)
    # A round of several steps names who was drawn in any of them. The chance is concave in the
    # number of steps, so that of their mean, rounded up, is never below the mean chance.
    steps = max(1, math.ceil(int(tally.counts[0]) / max(1, tally.rounds)))
    return -math.expm1(steps * math.log1p(-rate)) if rate < 1 else 1.0


def _sampled(tally: Tally) -> float:
    """The chance that one step of this charge draws a client."""
    event = tally.charge.event
    match event:
        case PoissonSampled():
            return event.rate
        case FixedSizeSampled():
            return event.sample / event.population
        case _:
            raise ValueError(f"everyone pays for an event that samples nobody: {event.kind}")


def _mean_log(
    rates: np.ndarray, rounds: np.ndarray, exponents: np.ndarray = _EXPONENTS
) -> np.ndarray:
    """[exponents]: the logarithm of the mean of exp(exponent * rounds that name one client)."""
    with np.errstate(divide="ignore"):  # a rate of 1
        stays = np.log1p(-rates)
    logs = np.logaddexp(stays, np.add.outer(exponents, np.log(rates)))
    found: np.ndarray = logs @ rounds
    return found


def _evidence(count: int, growth: np.ndarray) -> float:
    """The logarithm of the average over exponents of exp(t * count) over its declared mean; with a
    count below 0, of exp(-t * count)."""
    logs = _EXPONENTS * count - growth
    return float(np.logaddexp.reduce(logs) - math.log(len(logs)))
