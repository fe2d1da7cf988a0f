"""Stage noise: no number is used twice, and none follows from the seed where it is a secret."""

import math
from dataclasses import replace
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray

from fedaudit.attacks.replay.bounded_contributions import wide
from fedaudit.attacks.replay.passed_through import Floats, PassedThrough
from fedaudit.attacks.replay.replay_finding import FALSE_ALARM, Findings
from fedaudit.attacks.replay.replayed import Replayed
from fedaudit.attacks.replay.watched_run import WatchedRun, play
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.training import FixedCohort
from fedaudit.training.base.cell import Cell, stands_alone
from fedaudit.training.base.splits import split_cells
from fedaudit.training.mechanisms.base import ClientProtection, TrustedServer
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.stacked.round_method import build_draws

_SECRET_ROUNDS = 3


def check_never_twice(replayed: Replayed, findings: Findings) -> None:
    """Of float64 numbers made of 64 random bits two are alike by chance once in about 2^53 pairs:
    below one in a million for as many numbers as are looked at."""
    found = [(round_, numbers) for round_, numbers in _used(replayed.base.passed)]
    if not found:
        return
    values = np.concatenate([numbers.ravel() for _, numbers in found])[: 1 << 17]
    rounds = np.concatenate([np.full(numbers.size, at) for at, numbers in found])[: 1 << 17]
    order = np.argsort(values, kind="stable")
    again = np.flatnonzero(np.diff(values[order]) == 0)
    findings.looked("noise used once", len(values))
    for place in np.sort(rounds[order[again + 1]]):
        findings.add(
            "noise",
            "noise used once",
            round_=int(place),
            allowed="numbers that no other round, hypothesis, layer, step or client has",
            measured="the same number again",
        )


def _used(passed: PassedThrough) -> list[tuple[int, Floats]]:
    """The unscaled noise of each round that was played."""
    found: list[tuple[int, Floats]] = []
    for round_ in range(1, passed.round + 1):
        drawn = passed.drawn_noise(round_)
        if drawn is not None:
            found.append((round_, drawn))
        found += [
            (round_, unit) for part in passed.steps.get(round_, []) for unit in part.unit_noise
        ]
        count = passed.sums[round_].count_noise if round_ in passed.sums else None
        if count is not None:
            found.append((round_, np.array([count])))
    return found


def check_cells_apart(cell: Cell, findings: Findings) -> None:
    """Runs of two seeds that are trained side by side share no noise."""
    if stands_alone(cell) or mechanism_of(cell.spec).facts.applied_by == "local-steps":
        return
    other = replace(cell, spec=cell.spec.model_copy(update={"seed": cell.spec.seed ^ 1}))
    protection = build_protection([cell, other], torch.device("cpu"))
    draws, rounds = build_draws([cell, other]), np.array([[1, 1]])
    match protection:
        case TrustedServer():
            found: Floats | None = protection.draw(draws, rounds).sums
        case ClientProtection():
            found = protection.draw(draws, rounds, np.zeros((1, 2, 1), dtype=np.int64))
        case _:
            assert_never(protection)
    if found is not None:
        findings.expect(
            "noise",
            "noise of runs side by side",
            holds=not len(np.intersect1d(found[0, 0], found[0, 1])),
            round_=1,
            allowed="noise of its own for each run",
            measured="the same noise in two runs",
        )


def check_secrecy(cell: Cell, findings: Findings) -> None:
    """Two runs of a spec with `release` noise share neither noise nor, but by chance, coins."""
    rounds = min(_SECRET_ROUNDS, cell.spec.training.rounds)
    first, second = play(cell, rounds=rounds), play(cell, rounds=rounds)
    both = [_sent(one) for one in (first, second)]
    for round_, (left, right) in enumerate(zip(*both, strict=True), start=1):
        findings.expect(
            "noise",
            "secret noise",
            holds=not len(np.intersect1d(left, right)),
            round_=round_,
            allowed="noise that does not follow from the seed",
            measured="the same noise in two runs",
        )
    if _chance_of_same_cohorts(cell, rounds) < FALSE_ALARM:
        same = all(
            np.array_equal(_who(first, round_), _who(second, round_))
            for round_ in range(1, rounds + 1)
        )
        findings.expect(
            "sampling",
            "secret coins",
            holds=not same,
            round_=None,
            allowed="cohorts that do not follow from the seed",
            measured="the same cohorts in two runs",
        )


def _sent(run: WatchedRun) -> list[Floats]:
    """The noise of each round: unscaled, or else within what was sent."""
    found: list[list[Floats]] = [[] for _ in range(run.rounds)]
    for round_, numbers in _used(run.passed):
        if round_ <= run.rounds:
            found[round_ - 1].append(numbers.ravel())
    for round_, parts in run.passed.uploads.items():
        for part in parts:
            if part.noise is None and part.bare is None:
                found[round_ - 1].append(wide(part.uploads).ravel())
    for round_, one in run.passed.sums.items():
        if one.noise is not None:
            found[round_ - 1].append(one.noise.ravel())
    return [np.concatenate([np.zeros(0), *numbers]) for numbers in found]


def _who(run: WatchedRun, round_: int) -> NDArray[np.int64]:
    cohort = run.passed.cohort(round_)
    if cohort is not None:
        return cohort
    silos = [part.silos for part in run.passed.steps.get(round_, [])]
    return np.sort(np.concatenate(silos)) if silos else np.zeros(0, dtype=np.int64)


def _chance_of_same_cohorts(cell: Cell, rounds: int) -> float:
    """That two runs draw the same cohorts in all rounds; 1 where it is not looked at."""
    cohort = cell.spec.training.cohort
    if isinstance(cohort, FixedCohort):
        population = split_cells([cell]).training.shape[1]
        one = 1 / math.comb(population, min(cohort.clients, population))
        return float(one**rounds)
    clients = (
        cell.federation.clients
        if cell.spec.federation.validation_unit == "record"
        else (split_cells([cell]).training.shape[1])
    )
    alike: float = cohort.rate**2 + (1 - cohort.rate) ** 2
    return alike ** (clients * rounds)


def simulated(cell: Cell) -> Cell:
    """The same spec with noise that can be drawn again."""
    privacy = cell.spec.privacy.model_copy(update={"noise": "simulation"})
    return replace(cell, spec=cell.spec.model_copy(update={"privacy": privacy}))
