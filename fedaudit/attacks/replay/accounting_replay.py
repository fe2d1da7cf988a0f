"""Stage accounting: the ledger charges what was done, and no less than it can cost."""

import json
import math
from collections.abc import Callable
from typing import assert_never

import numpy as np
from scipy import special, stats
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from fedaudit.arrays import Floats, Ints
from fedaudit.attacks.replay.neighbours import Replayed
from fedaudit.attacks.replay.replay_finding import Checks, Findings
from fedaudit.ledger.rows import Outcome
from fedaudit.privacy.accounting.accountant import accountant_of
from fedaudit.privacy.accounting.privacy_events import (
    Adjacency,
    Event,
    FixedSizeSampled,
    Gaussian,
    Observer,
    PoissonSampled,
    RandomAllocated,
    TwoStage,
    event_from_dict,
)
from fedaudit.privacy.accounting.two_stage import TwoStageAccountant
from fedaudit.privacy.records.record_use import client_rate
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    RecordPersonalised,
)
from fedaudit.spec.training import AllocationCohort, FixedCohort, PoissonCohort
from fedaudit.training.base.cell import split_cells

_CLOSE = 1e-9
_CLOSE_AGAIN = 1e-6
_OBSERVERS: tuple[Observer, ...] = ("final_model", "server")


def check_accounting(replayed: Replayed, findings: Findings) -> None:
    """Rounds, uploads, parameters, and epsilons."""
    _check_counts(replayed, findings)
    at, privacy = findings.at("accounting"), replayed.spec.privacy
    expected: dict[str, object] = {"n": replayed.base.hypotheses[0].shape[-1]}
    match privacy:
        case LaplaceL2():  # what is counted is the number of releases
            radius = None if privacy.radius == "adaptive" else float(privacy.radius)
            noise = float(privacy.noise_multiplier)
            expected |= {"noise_multiplier": noise, "radius": radius, "clip": privacy.clip}
        case GaussianLocal():
            noise = float(privacy.noise_multiplier)
            expected |= {"noise_multiplier": noise, "clip": privacy.clip, "delta": privacy.delta}
            _check_local(replayed, privacy, findings)
        case GaussianCentral():
            noise = float(privacy.noise_multiplier)
            expected |= {"noise_multiplier": noise, "delta": privacy.delta}
            _check_central(replayed, privacy, findings)
        case RecordPersonalised():
            if replayed.charged.cost_kind != "unbounded":
                expected |= {"clip": privacy.clip, "delta": privacy.delta}
            _check_records(replayed, privacy, at)
        case NoMechanism():
            pass
        case _:
            assert_never(privacy)
    for name, value in expected.items():
        at.equal(f"{name} of the ledger", getattr(replayed.charged, name), value)


def _check_counts(replayed: Replayed, findings: Findings) -> None:
    """Every subject of a release in a round has a line in the ledger, and a total that is one
    higher."""
    base = replayed.base
    sent = np.zeros(len(base.ledger_context.subjects), dtype=np.int64)
    by_record = replayed.role == "local-steps"
    for round_ in replayed.rounds:
        at, released = findings.at("accounting", round_), _released(replayed, round_)
        sent[released] += 1
        for observer in base.ledger_context.observers:
            if by_record and observer == "server":
                continue  # the busiest client's rounds, below
            entries = [
                one for one in base.entries if one.round == round_ and one.observer == observer
            ]
            paying = sum(int((one.outcomes == Outcome.RELEASED).sum()) for one in entries)
            at.equal("subjects charged in a round", paying, len(released))
            for entry in entries:
                own = entry.outcomes == Outcome.RELEASED
                counted, least = entry.releases[own], sent[entry.subjects[own]]
                at.expect(
                    "releases counted",
                    bool((counted >= least).all()),
                    allowed=least.tolist(),
                    measured=counted.tolist(),
                )
    if by_record and replayed.charged.counts_epsilon:
        # Against the server every group is charged for the rounds of the busiest client.
        charged = [
            int(entry.releases.min())
            for entry in base.entries
            if entry.observer == "server" and len(entry.subjects)
        ]
        busiest = int(replayed.rounds_of_clients().max())
        findings.at("accounting").at_least(
            "rounds of the busiest client", max(charged, default=0), busiest
        )


def _released(replayed: Replayed, round_: int) -> Ints:
    """The subjects of which something was released in a round, by what passed."""
    base, nobody = replayed.base, np.zeros(0, dtype=np.int64)
    if replayed.role == "server":
        return np.arange(1)
    if replayed.role == "local-steps":
        if replayed.charged.counts_epsilon:
            return np.arange(len(base.ledger_context.subjects))
        return np.sort(base.silos(round_))
    record = base.records[round_ - 1]
    out = record.subjects[record.outcomes == Outcome.REFUSED]
    found = [
        clients[part.finite.numpy() & ~np.isin(clients, out)]
        for clients, part in replayed.uploads(round_)
    ]
    return np.sort(np.concatenate([nobody, *found]))


def _check_central(replayed: Replayed, privacy: GaussianCentral, findings: Findings) -> None:
    population = split_cells([replayed.base.cell]).training.shape[1]
    multiplier, cohort = float(privacy.noise_multiplier), replayed.spec.training.drawn_cohort
    event: Event
    adjacency: Adjacency
    match cohort:
        case FixedCohort():
            drawn = min(cohort.clients, population)
            event = FixedSizeSampled(population, drawn, Gaussian(multiplier))
            rate, adjacency = drawn / population, "replace-one"
        case PoissonCohort():
            event, rate = PoissonSampled(cohort.rate, Gaussian(multiplier)), cohort.rate
            adjacency = "add-or-remove-one"
        case AllocationCohort():
            event, rate = RandomAllocated(cohort.every, Gaussian(multiplier)), 1 / cohort.every
            adjacency = "add-or-remove-one"
        case _:
            assert_never(cohort)
    _check_event(replayed, findings, event, adjacency)
    for entry in replayed.base.entries:
        if entry.epsilons is None or entry.round not in {1, replayed.base.rounds}:
            continue
        at, count = findings.at("accounting", entry.round), entry.round
        epsilon = float(entry.epsilons[0])
        again = 0.0
        if isinstance(event, RandomAllocated):
            count = -(-count // event.rounds)  # blocks
            delta = least_delta_of_allocation(
                epsilon, block=event.rounds, rounds=entry.round, noise_multiplier=multiplier
            )
        elif isinstance(event, FixedSizeSampled):
            delta = least_delta_of_coins(
                epsilon, rate=rate, rounds=count, noise_multiplier=multiplier, replaces=True
            )
        else:
            delta = least_delta_of_samples(
                epsilon, rate=rate, rounds=count, noise_multiplier=multiplier
            )
            if privacy.accountant == "rdp":
                again = sampled_epsilon(
                    rate, noise_multiplier=multiplier, rounds=count, delta=privacy.delta
                )
        at.at_least("epsilon by another computation", epsilon, again, close=_CLOSE_AGAIN)
        least = _epsilon(privacy, event, count, adjacency)
        _check_epsilon(replayed, at, epsilon, least=least, delta=delta)


def _check_local(replayed: Replayed, privacy: GaussianLocal, findings: Findings) -> None:
    multiplier = float(privacy.noise_multiplier)
    event = Gaussian(multiplier)
    _check_event(replayed, findings, event, "replace-one")
    sent = np.zeros(len(replayed.base.ledger_context.subjects), dtype=np.int64)
    known: dict[int, tuple[float, float]] = {}
    for entry in replayed.base.entries:
        if entry.epsilons is None:
            continue
        at = findings.at("accounting", entry.round)
        sent[_released(replayed, entry.round)] += 1
        for subject, epsilon in zip(entry.subjects, entry.epsilons.tolist(), strict=True):
            count = int(sent[subject])
            if count not in known:
                delta = 0.0
                if count:
                    delta = least_delta_of_coins(
                        epsilon, rate=1.0, rounds=count, noise_multiplier=multiplier, replaces=True
                    )
                if privacy.accountant == "rdp" and count:
                    # Sums of clients that are replaced differ by two clips.
                    again = sampled_epsilon(
                        1.0, noise_multiplier=multiplier / 2, rounds=count, delta=privacy.delta
                    )
                    at.at_least(
                        "epsilon by another computation", epsilon, again, close=_CLOSE_AGAIN
                    )
                known[count] = _epsilon(privacy, event, count, "replace-one"), delta
            least, delta = known[count]
            _check_epsilon(replayed, at, epsilon, least=least, delta=delta)


def _check_event(
    replayed: Replayed, findings: Findings, event: Event, adjacency: Adjacency
) -> None:
    """The ledger names the event that took place, between the neighbours that it protects."""
    at, charged = findings.at("accounting"), replayed.charged
    found = event_from_dict(json.loads(charged.event or "null") or {})
    at.equal("event of the ledger", found, event)
    at.equal("adjacency of the ledger", charged.adjacency, adjacency)


def _epsilon(
    privacy: GaussianCentral | GaussianLocal, event: Event, count: int, adjacency: Adjacency
) -> float:
    """What so many of these events cost, accounted for again."""
    accountant = accountant_of(privacy.accountant, adjacency=adjacency)
    return accountant.compose(event, count).epsilon(privacy.delta)


def _check_epsilon(
    replayed: Replayed, at: Checks, epsilon: float, *, least: float, delta: float
) -> None:
    """`least`: what the event costs; `delta`: what an attack refutes at the epsilon stated."""
    stated = replayed.charged.delta or 0.0
    at.at_least("epsilon of the ledger", epsilon, least, close=_CLOSE)
    at.expect(
        "epsilon against an attack",
        delta <= stated * (1 + _CLOSE),
        allowed=f"delta = {stated:g} at epsilon = {epsilon:.6g}",
        measured=f"at least {delta:.6g}",
    )


def _check_records(replayed: Replayed, privacy: RecordPersonalised, at: Checks) -> None:
    """Each group's epsilon is at least that of its record with the largest rate at each noise."""
    base, plan = replayed.base, replayed.record_plan
    spending = None if base.ledger_context.plan is None else base.ledger_context.plan.records
    if spending is None or plan.runs is None:
        return
    training, lasts = replayed.spec.training, plan.rounds
    client, steps = client_rate(training.cohort), training.local.steps or 1
    rates = _largest_chances(replayed)
    multipliers = np.array([run.noise_multiplier for run in plan.runs])[spending.use.client_of]
    for observer in _OBSERVERS:
        charged = {
            int(subject): float(epsilon)
            for entry in base.entries
            if entry.observer == observer and entry.epsilons is not None
            for subject, epsilon in zip(entry.subjects, entry.epsilons, strict=True)
        }
        rounds, coin = base.rounds, client
        if observer == "server":
            rounds, coin = int(replayed.rounds_of_clients().max(initial=0)), 1.0
        for group in range(len(spending.groups)):
            mine, epsilon = spending.group_of == group, charged.get(group, 0.0)
            for multiplier in np.unique(multipliers[mine]).tolist():
                alike = mine & (multipliers == multiplier)
                record = int(np.flatnonzero(alike)[(rates * np.sqrt(lasts))[alike].argmax()])
                rate, count = float(rates[record]), min(rounds, int(lasts[record]))
                if not rate or not count:
                    continue
                event = TwoStage(client, rate, multiplier, steps)
                least = TwoStageAccountant(observer=observer).compose(event, count)
                again = two_stage_epsilon(
                    coin,
                    rate,
                    steps=steps,
                    noise_multiplier=multiplier,
                    rounds=count,
                    delta=privacy.delta,
                )
                delta = least_delta_of_two_stages(
                    epsilon,
                    client_rate=coin,
                    record_rate=rate,
                    steps=steps,
                    rounds=count,
                    noise_multiplier=multiplier,
                )
                at.at_least("epsilon by another computation", epsilon, again, close=_CLOSE_AGAIN)
                own = least.epsilon(privacy.delta)
                _check_epsilon(replayed, at, epsilon, least=own, delta=delta)


def _largest_chances(replayed: Replayed) -> Floats:
    """Of every record, the largest chance that a step gave it."""
    rates = replayed.record_plan.rates.copy()
    for parts in replayed.base.passed.steps.values():
        for part in parts:
            for place, silo in enumerate(part.silos.tolist()):
                own = replayed.records_of(silo)
                given = part.inclusion[place, : own.stop - own.start]
                rates[own] = np.maximum(rates[own], given)
    return rates


_STEPS = 12
"""So many points to a standard deviation."""
_REACH = 12
_ORDERS = 1 + np.geomspace(0.02, 2047, 32)
_CELLS = 1500
_FINE_CELLS, _GRID = 10_000, 1 << 18
_NEGLIGIBLE = 1e-14


def sampled_epsilon(rate: float, *, noise_multiplier: float, rounds: int, delta: float) -> float:
    """Of rounds that a unit enters by an independent coin, one clip from its absence."""
    return _least_epsilon(
        lambda order: rounds * _log_moment(rate, noise_multiplier, order) / (order - 1), delta
    )


def two_stage_epsilon(
    client_rate: float,
    record_rate: float,
    *,
    steps: int,
    noise_multiplier: float,
    rounds: int,
    delta: float,
) -> float:
    """Of rounds that a client enters by one coin and a record each of their steps by another:
    log(1 - lambda + lambda A^steps) / (alpha - 1) a round, lambda being the client's rate."""

    def divergence(order: float) -> float:
        exponent = steps * _log_moment(record_rate, noise_multiplier, order)
        if client_rate < 1:
            added = math.log(client_rate) + exponent
            exponent = float(np.logaddexp(math.log1p(-client_rate), added))
        return rounds * exponent / (order - 1)

    return _least_epsilon(divergence, delta)


def _log_moment(rate: float, noise_multiplier: float, order: float) -> float:
    variance, step = noise_multiplier**2, noise_multiplier / _STEPS
    if rate == 1:
        return order * (order - 1) / (2 * variance)
    x = np.arange(-_REACH * noise_multiplier, order + _REACH * noise_multiplier, step)
    ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * variance))
    logs = order * ratio - x**2 / (2 * variance)
    return float(logsumexp(logs)) + math.log(step / (noise_multiplier * math.sqrt(2 * math.pi)))


def _least_epsilon(divergence: Callable[[float], float], delta: float) -> float:
    """By the conversion of Balle et al. 2020, theorem 21, at the best order."""

    def epsilon(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        added = math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
        return divergence(order) + added

    logs = np.log(_ORDERS - 1)
    best = int(np.argmin([epsilon(one) for one in logs.tolist()]))
    between = float(logs[max(0, best - 1)]), float(logs[min(len(logs) - 1, best + 1)])
    found = float(minimize_scalar(epsilon, bounds=between, method="bounded").fun)
    # Where even the total variation is below delta, epsilon is 0 (Bretagnolle and Huber 1979).
    nothing = -math.expm1(-divergence(float(_ORDERS[0]))) < delta**2
    return 0.0 if nothing else max(0.0, found)


def least_delta(
    epsilon: float,
    *,
    weights: Floats,
    releases: int,
    noise_multiplier: float,
    replaces: bool = False,
) -> float:
    """A lower bound on delta between a unit that came in k times with chance `weights[k]` in so
    many releases, and one that sent nothing; with `replaces`, one that sent the opposite."""
    times = np.flatnonzero(weights > _NEGLIGIBLE)
    chance, deviation = weights[times], noise_multiplier * math.sqrt(releases)
    reach = float(times.max(initial=0)) + 9 * deviation
    edges = np.concatenate([[-np.inf], np.linspace(-reach, reach, _CELLS), [np.inf]])
    there = _cells(edges, times.astype(np.float64), chance, deviation)
    if replaces:
        other = _cells(edges, -times.astype(np.float64), chance, deviation)
    else:
        other = _cells(edges, np.zeros(1), np.ones(1), deviation)
    # exp(epsilon) may overflow, and an epsilon as large is refuted by nothing.
    factor = math.exp(min(epsilon, 700.0))
    return max(
        float(np.maximum(left - factor * right, 0.0).sum())
        for left, right in ((there, other), (other, there))
    )


def least_delta_of_coins(
    epsilon: float, *, rate: float, rounds: int, noise_multiplier: float, replaces: bool = False
) -> float:
    """Of rounds that a unit enters by a coin, or as one of a sample of that share."""
    weights = stats.binom(rounds, rate).pmf(np.arange(rounds + 1))
    return least_delta(
        epsilon,
        weights=weights,
        releases=rounds,
        noise_multiplier=noise_multiplier,
        replaces=replaces,
    )


def least_delta_of_allocation(
    epsilon: float, *, block: int, rounds: int, noise_multiplier: float
) -> float:
    """Of rounds of which a unit enters exactly one of every block, against its absence, by two
    attackers: one looks at the sum of all whole blocks, one at the loudest round of the first."""
    whole = rounds // block
    if not whole:
        return 0.0
    weights = np.zeros(whole + 1)
    weights[whole] = 1.0
    by_sum = least_delta(
        epsilon, weights=weights, releases=whole * block, noise_multiplier=noise_multiplier
    )
    thresholds = np.linspace(0, 12 * noise_multiplier + 1, _FINE_CELLS)
    quiet = special.log_ndtr(thresholds / noise_multiplier)
    entered = special.log_ndtr((thresholds - 1) / noise_multiplier)
    there = -np.expm1((block - 1) * quiet + entered)
    absent = -np.expm1(block * quiet)
    loudest = there - math.exp(min(epsilon, 700.0)) * absent
    return max(by_sum, float(loudest.max(initial=0.0)))


def least_delta_of_samples(
    epsilon: float, *, rate: float, rounds: int, noise_multiplier: float
) -> float:
    """Of rounds that a unit enters by an independent coin, against its absence.

    The attacker sees every round by itself: which of many intervals it falls into, and the
    logarithms of their chances' ratios, rounded down to a grid, added up over rounds by a Fourier
    transform. A ratio is at least 1 - rate, so nothing wraps around the grid's end from below.
    """
    reach = 12 * noise_multiplier
    edges = np.concatenate([[-np.inf], np.linspace(-reach, reach + 1, _FINE_CELLS), [np.inf]])
    without = _cells(edges, np.zeros(1), np.ones(1), noise_multiplier)
    chance = (1 - rate) * without + rate * _cells(edges, np.ones(1), np.ones(1), noise_multiplier)
    some = (chance > 0) & (without > 0)
    least = math.log1p(-rate) if rate < 1 else -reach / noise_multiplier**2
    losses = np.maximum(np.log(chance[some]) - np.log(without[some]), least)
    step = (2 * (abs(epsilon) - rounds * least) + 1) / _GRID
    places = np.minimum(np.floor((losses - least) / step), _GRID - 1).astype(np.int64)
    # What is beyond the end wraps to smaller ratios, which refute less.
    one = np.bincount(places, weights=chance[some], minlength=_GRID)
    summed = np.fft.irfft(np.fft.rfft(one) ** rounds, _GRID)
    sums = rounds * least + step * np.arange(_GRID)
    return float((summed * np.maximum(-np.expm1(epsilon - np.maximum(sums, epsilon)), 0.0)).sum())


def least_delta_of_two_stages(
    epsilon: float,
    *,
    client_rate: float,
    record_rate: float,
    steps: int,
    rounds: int,
    noise_multiplier: float,
) -> float:
    """Of rounds that a client enters by a coin, and a record each of their steps by another.

    A client that is alone changes the model in the rounds that it enters only, so how many these
    were is seen (`fedaudit.training.records.personalised_round`).
    """
    found = 0.0
    for taking_part in range(1, rounds + 1):
        share = float(stats.binom(rounds, client_rate).pmf(taking_part))
        if share > _NEGLIGIBLE:
            found += share * least_delta_of_coins(
                epsilon,
                rate=record_rate,
                rounds=taking_part * steps,
                noise_multiplier=noise_multiplier,
            )
    return found


def _cells(edges: Floats, means: Floats, weights: Floats, deviation: float) -> Floats:
    """The chance of each interval under a mixture of normal numbers."""
    found = np.zeros(len(edges) - 1)
    for mean, weight in zip(means.tolist(), weights.tolist(), strict=True):
        away = (edges - mean) / deviation
        below, above = special.ndtr(away), special.ndtr(-away)
        # The smaller tails keep their digits: beside a factor of exp(epsilon) they count.
        found += weight * np.where(away[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    return found
