"""Whether those who were named fit the sampling that a trainer declares.

A sample that is said to be rarer than it was makes every epsilon too small. Who took part shows it:
too many clients in all, or the same one too often, over all amplified rounds together, whatever
rate and noise each of them declares. Too few in all show that the names are not those of the
sample, so that the first two tests saw nothing: naming nobody would pass them both. A trainer that
cannot name participants, as under secure aggregation, states so in its terms; nothing tests its
sampling then, and its figures are conditional.

Each count is compared by its Chernoff bound, averaged over fixed exponents: if all is as declared,
exp(t * count) over its declared mean is a martingale from round to round, and so is the average
over t; for too few in all it is exp(-t * count). By Ville's inequality it ever exceeds 1 / alpha
with a chance of at most alpha, however often a report is made and however rates are chosen from
round to round. Alpha is 1e-9 over the number of tests: one for each client of the population, and
two of the total.
"""

import math
from collections.abc import Iterator

import numpy as np

from fedaudit.privacy.accounting.privacy_events import FixedSizeSampled, PoissonSampled
from fedaudit.privacy.declared.drawn import Drawn
from fedaudit.privacy.declared.histories import Histories, Tally
from fedaudit.spec.declared.ledger_terms import LedgerTerms

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
