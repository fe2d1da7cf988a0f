"""Stage accounting: the ledger charges what was done, and no less than it can cost."""

import json
from typing import assert_never

import numpy as np

from fedaudit.arrays import Ints
from fedaudit.attacks.replay.neighbours import Replayed
from fedaudit.attacks.replay.replay_finding import Checks, Findings
from fedaudit.ledger.rows import Outcome
from fedaudit.privacy.accounting.accountant import epsilon_of_events
from fedaudit.privacy.accounting.epsilon_tables import renyi_epsilons
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
from fedaudit.privacy.records.record_use import client_rate, epsilon_terms
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianDistance,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    RecordPersonalised,
)
from fedaudit.spec.training import AllocationCohort, FixedCohort, PoissonCohort
from fedaudit.training.base.cell import split_cells

_CLOSE = 1e-9
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
        case GaussianCentral() | GaussianLocal():
            noise = float(privacy.noise_multiplier)
            expected |= {"noise_multiplier": noise, "delta": privacy.delta}
            if isinstance(privacy, GaussianLocal):
                expected["clip"] = privacy.clip
            _check_gaussian(replayed, privacy, findings)
        case GaussianDistance():
            expected |= {"noise_multiplier": None, "clip": privacy.clip, "guarantee": "heuristic"}
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
                one
                for one in base.entries
                if (one.keys[0].round, one.keys[0].observer) == (round_, observer)
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
            if entry.keys[0].observer == "server" and len(entry.subjects)
        ]
        busiest = int(replayed.rounds_of_clients().max())
        findings.at("accounting").at_least(
            "rounds of the busiest client", max(charged, default=0), busiest
        )


def _released(replayed: Replayed, round_: int) -> Ints:
    """The subjects of which something was released in a round, by what passed."""
    base, none = replayed.base, np.zeros(0, dtype=np.int64)
    if replayed.role == "server":
        return np.arange(1)
    if replayed.role == "local-steps":
        if replayed.charged.counts_epsilon:
            return np.arange(len(base.ledger_context.subjects))
        return np.sort(base.silos(round_))
    columns = base.columns[round_ - 1]
    out = columns.subjects[columns.outcomes == Outcome.REFUSED]
    found = [
        clients[part.finite.numpy() & ~np.isin(clients, out)]
        for clients, part in replayed.uploads(round_)
    ]
    return np.sort(np.concatenate([none, *found]))


def _check_gaussian(
    replayed: Replayed, privacy: GaussianCentral | GaussianLocal, findings: Findings
) -> None:
    """The ledger names the event that took place, between the neighbours that it protects, and its
    epsilons are at least what the events cost, accounted for again."""
    base, charged, at = replayed.base, replayed.charged, findings.at("accounting")
    event, adjacency = _event(replayed, privacy)
    found = event_from_dict(json.loads(charged.event or "null") or {})
    at.equal("event of the ledger", found, event)
    at.equal("adjacency of the ledger", charged.adjacency, adjacency)
    sent = np.zeros(len(base.ledger_context.subjects), dtype=np.int64)
    known = {0: 0.0}
    for entry in base.entries:
        round_ = entry.keys[0].round
        sent[_released(replayed, round_)] += 1
        between = isinstance(privacy, GaussianCentral) and round_ not in {1, base.rounds}
        if entry.epsilons is None or between:
            continue
        for subject, epsilon in zip(entry.subjects, entry.epsilons.tolist(), strict=True):
            count = int(sent[subject])
            if isinstance(event, RandomAllocated):
                count = -(-count // event.rounds)  # blocks
            if count not in known:
                known[count] = epsilon_of_events(
                    ((event, count),), privacy.accountant, adjacency=adjacency, delta=privacy.delta
                )
            at = findings.at("accounting", round_)
            at.at_least("epsilon of the ledger", epsilon, known[count], close=_CLOSE)


def _event(replayed: Replayed, privacy: GaussianCentral | GaussianLocal) -> tuple[Event, Adjacency]:
    """What a round releases, and of which neighbours it is private."""
    noised, cohort = Gaussian(float(privacy.noise_multiplier)), replayed.spec.training.drawn_cohort
    if isinstance(privacy, GaussianLocal):
        return noised, "replace-one"
    match cohort:
        case FixedCohort():
            population = split_cells([replayed.base.cell]).training.shape[1]
            clients = min(cohort.clients, population)
            return FixedSizeSampled(population, clients, noised), "replace-one"
        case PoissonCohort():
            return PoissonSampled(cohort.rate, noised), "add-or-remove-one"
        case AllocationCohort():
            return RandomAllocated(cohort.every, noised), "add-or-remove-one"
        case _:
            assert_never(cohort)


def _check_records(replayed: Replayed, privacy: RecordPersonalised, at: Checks) -> None:
    """Each group's epsilon is at least that of its record with the largest rate at each noise."""
    base, plan = replayed.base, replayed.record_plan
    spending = None if base.ledger_context.plan is None else base.ledger_context.plan.records
    if spending is None or plan.runs is None:
        return
    training, lasts = replayed.spec.training, plan.rounds
    client, steps = client_rate(training.cohort), training.local.steps or 1
    # The largest chance that a step gave each record.
    rates = replayed.record_plan.rates.copy()
    for parts in replayed.base.passed.steps.values():
        for part in parts:
            for place, silo in enumerate(part.silos.tolist()):
                own = replayed.records_of(silo)
                given = part.inclusion[place, : own.stop - own.start]
                rates[own] = np.maximum(rates[own], given)
    multipliers = np.array([run.noise_multiplier for run in plan.runs])[spending.use.client_of]
    for observer in _OBSERVERS:
        charged = {
            int(subject): float(epsilon)
            for entry in base.entries
            if entry.keys[0].observer == observer and entry.epsilons is not None
            for subject, epsilon in zip(entry.subjects, entry.epsilons, strict=True)
        }
        rounds = base.rounds
        if observer == "server":
            rounds = int(replayed.rounds_of_clients().max(initial=0))
        for group in range(len(spending.groups)):
            mine, epsilon = spending.group_of == group, charged.get(group, 0.0)
            for multiplier in np.unique(multipliers[mine]).tolist():
                alike = mine & (multipliers == multiplier)
                record = int(np.flatnonzero(alike)[(rates * np.sqrt(lasts))[alike].argmax()])
                rate, count = float(rates[record]), min(rounds, int(lasts[record]))
                if not rate or not count:
                    continue
                event = TwoStage(client, rate, multiplier, steps)
                least = renyi_epsilons(event, count, epsilon_terms(observer, privacy.delta))
                at.at_least("epsilon of the ledger", epsilon, float(least), close=_CLOSE)
