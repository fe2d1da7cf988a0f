"""Stage accounting, of records: what a group spends at the rates that its records are drawn at."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.replay.least_delta import least_delta_of_two_stages
from fedaudit.attacks.replay.passed_through import Floats
from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.attacks.replay.replayed import Replayed
from fedaudit.attacks.replay.second_computation import expect_epsilon, two_stage_epsilon
from fedaudit.privacy.accounting.privacy_events import Observer, TwoStage
from fedaudit.privacy.accounting.two_stage import TwoStageAccountant
from fedaudit.privacy.records.record_use import client_rate
from fedaudit.spec.privacy import RecordPersonalised
from fedaudit.training.base.records import training_records

_CLOSE = 1e-9
_OBSERVERS: tuple[Observer, ...] = ("final_model", "server")


def check_record_epsilons(
    replayed: Replayed, privacy: RecordPersonalised, findings: Findings
) -> None:
    """Each group's epsilon is at least that of its record with the largest rate at each noise."""
    base = replayed.base
    plan = base.ledger_context.plan
    if plan is None or plan.records is None or plan.records.use.plan.runs is None:
        return
    spending, training = plan.records, replayed.spec.training
    rates, lasts = _largest_chances(replayed)
    runs = plan.records.use.plan.runs
    multipliers = np.array([runs[client].noise_multiplier for client in spending.use.client_of])
    for observer in _OBSERVERS:
        entries = [entry for entry in base.entries if entry.observer == observer]
        charged = {
            int(subject): (int(count), float(epsilon))
            for entry in entries
            if entry.epsilons is not None
            for subject, count, epsilon in zip(
                entry.subjects, entry.releases, entry.epsilons, strict=True
            )
        }
        rounds = base.rounds if observer == "final_model" else _busiest(replayed)
        coin = client_rate(training.cohort) if observer == "final_model" else 1.0
        for group in range(len(spending.groups)):
            mine = spending.group_of == group
            _, epsilon = charged.get(group, (0, 0.0))
            for multiplier in np.unique(multipliers[mine]).tolist():
                alike = mine & (multipliers == multiplier)
                record = int(np.flatnonzero(alike)[(rates * np.sqrt(lasts))[alike].argmax()])
                rate, count = float(rates[record]), min(rounds, int(lasts[record]))
                if not rate or not count:
                    continue
                event = TwoStage(
                    client_rate(training.cohort), rate, multiplier, training.local.steps or 1
                )
                least = TwoStageAccountant(observer=observer).compose(event, count)
                findings.expect(
                    "accounting",
                    "epsilon of the ledger",
                    holds=epsilon >= least.epsilon(privacy.delta) * (1 - _CLOSE),
                    round_=None,
                    allowed=least.epsilon(privacy.delta),
                    measured=epsilon,
                )
                again = two_stage_epsilon(
                    coin,
                    rate,
                    steps=event.steps,
                    noise_multiplier=multiplier,
                    rounds=count,
                    delta=privacy.delta,
                )
                expect_epsilon(findings, epsilon, again, round_=None)
                delta = least_delta_of_two_stages(
                    epsilon,
                    client_rate=coin,
                    record_rate=rate,
                    steps=event.steps,
                    rounds=count,
                    noise_multiplier=multiplier,
                )
                findings.expect(
                    "accounting",
                    "epsilon against an attack",
                    holds=delta <= privacy.delta * (1 + _CLOSE),
                    round_=None,
                    allowed=f"delta = {privacy.delta:g} at epsilon = {epsilon:.6g}",
                    measured=f"at least {delta:.6g}",
                )


def _largest_chances(replayed: Replayed) -> tuple[Floats, NDArray[np.int64]]:
    """Of every record, the largest chance that a step gave it, and for how many rounds it stays."""
    plan = replayed.base.ledger_context.plan
    assert plan is not None
    assert plan.records is not None
    of_plan = plan.records.use.plan
    rates = of_plan.rates.astype(np.float64).copy()
    records = training_records(replayed.spec, replayed.base.cell.federation)
    first = np.cumsum(records.counts) - records.counts
    for parts in replayed.base.passed.steps.values():
        for part in parts:
            for place, silo in enumerate(part.silos.tolist()):
                at = int(np.searchsorted(records.clients, silo))
                own = slice(int(first[at]), int(first[at] + records.counts[at]))
                given = part.inclusion[place, : own.stop - own.start]
                rates[own] = np.maximum(rates[own], given)
    return rates, of_plan.rounds


def _busiest(replayed: Replayed) -> int:
    """The rounds of the client that took part most often."""
    rounds = np.zeros(replayed.base.cell.federation.clients, dtype=np.int64)
    for parts in replayed.base.passed.steps.values():
        for part in parts:
            rounds[part.silos] += 1
    return int(rounds.max(initial=0))
