"""Stage accounting: the ledger charges what was done, and no less than it can cost."""

import json
from typing import assert_never

import numpy as np

from fedaudit.attacks.replay.least_delta import (
    least_delta,
    least_delta_of_coins,
    least_delta_of_samples,
)
from fedaudit.attacks.replay.record_accounting import check_record_epsilons
from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.attacks.replay.replayed import Replayed
from fedaudit.attacks.replay.second_computation import expect_epsilon, sampled_epsilon
from fedaudit.ledger.rows import Outcome
from fedaudit.privacy.accounting.accountant import Accountant
from fedaudit.privacy.accounting.pld import PldAccountant
from fedaudit.privacy.accounting.privacy_events import (
    Adjacency,
    Event,
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    event_from_dict,
)
from fedaudit.privacy.accounting.rdp import RdpAccountant
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    RecordPersonalised,
)
from fedaudit.spec.training import FixedCohort, PoissonCohort
from fedaudit.training.base.cell import split_cells

_CLOSE = 1e-9


def check_accounting(replayed: Replayed, findings: Findings) -> None:
    """Rounds, uploads, parameters, and epsilons."""
    _check_counts(replayed, findings)
    _check_parameters(replayed, findings)
    privacy = replayed.spec.privacy
    match privacy:
        case GaussianCentral():
            _check_central(replayed, privacy, findings)
        case GaussianLocal():
            _check_local(replayed, privacy, findings)
        case RecordPersonalised():
            check_record_epsilons(replayed, privacy, findings)
        case LaplaceL2() | NoMechanism():
            pass  # what is counted is the number of releases
        case _:
            assert_never(privacy)


def _check_counts(replayed: Replayed, findings: Findings) -> None:
    """Whoever released in a round has a line in the ledger, and a total that is one higher."""
    base = replayed.base
    subjects = len(base.ledger_context.subjects)
    sent = np.zeros(subjects, dtype=np.int64)
    for round_ in range(1, base.rounds + 1):
        released = _released(replayed, round_)
        sent[released] += 1
        for observer in base.ledger_context.observers:
            entries = [
                one for one in base.entries if one.round == round_ and one.observer == observer
            ]
            paying = sum((one.outcomes == Outcome.RELEASED).sum() for one in entries)
            if replayed.role == "local-steps" and observer == "server":
                continue  # the busiest client's rounds, below
            findings.expect(
                "accounting",
                "subjects charged in a round",
                holds=paying == len(released),
                round_=round_,
                allowed=len(released),
                measured=int(paying),
            )
            for entry in entries:
                counted = entry.releases[entry.outcomes == Outcome.RELEASED]
                right = sent[entry.subjects[entry.outcomes == Outcome.RELEASED]]
                findings.expect(
                    "accounting",
                    "releases counted",
                    holds=bool((counted >= right).all()),
                    round_=round_,
                    allowed=right.tolist(),
                    measured=counted.tolist(),
                )
    if replayed.role == "local-steps" and replayed.charged.counts_epsilon:
        _check_busiest(replayed, findings)


def _released(replayed: Replayed, round_: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The subjects of which something was released in a round, by what passed."""
    base = replayed.base
    if replayed.role == "server":
        return np.arange(1)
    if replayed.role == "local-steps":
        if replayed.charged.counts_epsilon:
            return np.arange(len(base.ledger_context.subjects))
        silos = [part.silos for part in base.passed.steps[round_]]
        return np.sort(np.concatenate(silos)) if silos else np.zeros(0, dtype=np.int64)
    found = []
    refused = base.records[round_ - 1].outcomes == Outcome.REFUSED
    out = base.records[round_ - 1].subjects[refused]
    whose = replayed.clients_of_uploads(round_)
    for clients, part in zip(whose, base.passed.uploads[round_], strict=True):
        found.append(clients[part.finite.numpy() & ~np.isin(clients, out)])
    return np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)


def _check_busiest(replayed: Replayed, findings: Findings) -> None:
    """Against the server every group is charged for the rounds of the busiest client."""
    base = replayed.base
    rounds = np.zeros(base.cell.federation.clients, dtype=np.int64)
    for parts in base.passed.steps.values():
        for part in parts:
            rounds[part.silos] += 1
    charged = [
        entry.releases.min()
        for entry in base.entries
        if entry.observer == "server" and len(entry.subjects)
    ]
    findings.expect(
        "accounting",
        "rounds of the busiest client",
        holds=max(charged, default=0) >= rounds.max(),
        round_=None,
        allowed=int(rounds.max()),
        measured=int(max(charged, default=0)),
    )


def _check_parameters(replayed: Replayed, findings: Findings) -> None:
    """The ledger names the parameters that are released and the noise that was asked for."""
    charged, privacy = replayed.charged, replayed.spec.privacy
    expected: dict[str, object] = {"n": replayed.base.hypotheses[0].shape[-1]}
    match privacy:
        case LaplaceL2():
            radius = None if privacy.radius == "adaptive" else float(privacy.radius)
            noise = float(privacy.noise_multiplier)
            expected |= {"noise_multiplier": noise, "radius": radius, "clip": privacy.clip}
        case GaussianLocal():
            noise = float(privacy.noise_multiplier)
            expected |= {"noise_multiplier": noise, "clip": privacy.clip}
        case GaussianCentral():
            expected["noise_multiplier"] = float(privacy.noise_multiplier)
        case RecordPersonalised():
            if charged.cost_kind != "unbounded":
                expected["clip"] = privacy.clip
        case NoMechanism():
            pass
        case _:
            assert_never(privacy)
    for name, value in expected.items():
        found = getattr(charged, name)
        findings.expect(
            "accounting",
            f"{name} of the ledger",
            holds=found == value,
            round_=None,
            allowed=value,
            measured=found,
        )


def _check_central(replayed: Replayed, privacy: GaussianCentral, findings: Findings) -> None:
    training, cell = replayed.spec.training, replayed.base.cell
    population = split_cells([cell]).training.shape[1]
    noised, cohort = Gaussian(float(privacy.noise_multiplier)), training.cohort
    event: Event
    match cohort:
        case FixedCohort():
            drawn = min(cohort.clients, population)
            event, rate = FixedSizeSampled(population, drawn, noised), drawn / population
            adjacency: Adjacency = "replace-one"
            bounds = _bounds_of_coins
        case PoissonCohort():
            event, rate = PoissonSampled(cohort.rate, noised), cohort.rate
            adjacency = "add-or-remove-one"
            bounds = _bounds_of_samples
        case _:
            assert_never(cohort)
    _check_event(replayed, findings, event, adjacency)
    for entry in replayed.base.entries:
        if entry.epsilons is None or entry.round not in {1, replayed.base.rounds}:
            continue
        epsilon, count = float(entry.epsilons[0]), entry.round
        delta, least = bounds(privacy, epsilon, rate=rate, rounds=count)
        expect_epsilon(findings, epsilon, least, round_=count)
        _check_epsilon(
            replayed,
            findings,
            count,
            epsilon,
            least=_epsilon(privacy, event, count, adjacency),
            delta=delta,
        )


def _bounds_of_coins(
    privacy: GaussianCentral, epsilon: float, *, rate: float, rounds: int
) -> tuple[float, float]:
    """The least delta at an epsilon, and the least epsilon that is known, of fixed cohorts."""
    multiplier = float(privacy.noise_multiplier)
    delta = least_delta_of_coins(
        epsilon, rate=rate, rounds=rounds, noise_multiplier=multiplier, replaces=True
    )
    return delta, 0.0


def _bounds_of_samples(
    privacy: GaussianCentral, epsilon: float, *, rate: float, rounds: int
) -> tuple[float, float]:
    """The same of cohorts in which each client is drawn by itself."""
    multiplier = float(privacy.noise_multiplier)
    delta = least_delta_of_samples(epsilon, rate=rate, rounds=rounds, noise_multiplier=multiplier)
    if privacy.accountant != "rdp":
        return delta, 0.0
    least = sampled_epsilon(rate, noise_multiplier=multiplier, rounds=rounds, delta=privacy.delta)
    return delta, least


def _check_local(replayed: Replayed, privacy: GaussianLocal, findings: Findings) -> None:
    event = Gaussian(float(privacy.noise_multiplier))
    _check_event(replayed, findings, event, "replace-one")
    sent = np.zeros(len(replayed.base.ledger_context.subjects), dtype=np.int64)
    known: dict[int, tuple[float, float]] = {}
    for entry in replayed.base.entries:
        if entry.epsilons is None:
            continue
        sent[_released(replayed, entry.round)] += 1
        for subject, epsilon in zip(entry.subjects, entry.epsilons, strict=True):
            count = int(sent[subject])
            if count not in known:
                weights = np.zeros(count + 1)
                weights[count] = 1.0
                delta = (
                    least_delta(
                        float(epsilon),
                        weights=weights,
                        releases=count,
                        noise_multiplier=float(privacy.noise_multiplier),
                        replaces=True,
                    )
                    if count
                    else 0.0
                )
                if privacy.accountant == "rdp" and count:
                    # Sums of clients that are replaced differ by two clips.
                    again = sampled_epsilon(
                        1.0,
                        noise_multiplier=float(privacy.noise_multiplier) / 2,
                        rounds=count,
                        delta=privacy.delta,
                    )
                    expect_epsilon(findings, float(epsilon), again, round_=entry.round)
                known[count] = _epsilon(privacy, event, count, "replace-one"), delta
            least, delta = known[count]
            _check_epsilon(
                replayed, findings, entry.round, float(epsilon), least=least, delta=delta
            )


def _check_event(
    replayed: Replayed, findings: Findings, event: Event, adjacency: Adjacency
) -> None:
    """The ledger names the event that took place, between the neighbours that it protects."""
    found = event_from_dict(json.loads(replayed.charged.event or "null") or {})
    findings.expect(
        "accounting",
        "event of the ledger",
        holds=found == event,
        round_=None,
        allowed=event,
        measured=found,
    )
    findings.expect(
        "accounting",
        "adjacency of the ledger",
        holds=replayed.charged.adjacency == adjacency,
        round_=None,
        allowed=adjacency,
        measured=replayed.charged.adjacency,
    )


def _epsilon(
    privacy: GaussianCentral | GaussianLocal, event: Event, count: int, adjacency: Adjacency
) -> float:
    """What so many of these events cost, accounted for once more."""
    accountant: Accountant
    match privacy.accountant:
        case "rdp":
            accountant = RdpAccountant(adjacency=adjacency)
        case "pld":
            accountant = PldAccountant(adjacency=adjacency)
        case _:
            assert_never(privacy.accountant)
    return accountant.compose(event, count).epsilon(privacy.delta)


def _check_epsilon(
    replayed: Replayed,
    findings: Findings,
    round_: int,
    epsilon: float,
    *,
    least: float,
    delta: float,
) -> None:
    """`least`: what the event costs; `delta`: what is refuted by attack at the epsilon stated."""
    findings.expect(
        "accounting",
        "epsilon of the ledger",
        holds=epsilon >= least * (1 - _CLOSE),
        round_=round_,
        allowed=least,
        measured=epsilon,
    )
    stated = replayed.charged.delta or 0.0
    findings.expect(
        "accounting",
        "epsilon against an attack",
        holds=delta <= stated * (1 + _CLOSE),
        round_=round_,
        allowed=f"delta = {stated:g} at epsilon = {epsilon:.6g}",
        measured=f"at least {delta:.6g}",
    )
