"""Stage noise: no number is used twice, and none follows from the seed where it is a secret."""

import math
from dataclasses import replace
from typing import Any, assert_never

import numpy as np
import torch
from numpy.typing import NDArray

from fedaudit.attacks.replay.bounded_contributions import wide
from fedaudit.attacks.replay.noise_dependence import lags, pairs
from fedaudit.attacks.replay.passed_through import Floats, PassedThrough
from fedaudit.attacks.replay.replay_finding import FALSE_ALARM, Findings
from fedaudit.attacks.replay.replayed import Replayed
from fedaudit.attacks.replay.watched_run import WatchedRun, play
from fedaudit.randomness import Purpose, Source
from fedaudit.spec.base import MAX_INTEGER
from fedaudit.spec.training import FixedCohort
from fedaudit.training.base.cell import Cell, split_cells, stands_alone
from fedaudit.training.mechanisms.base import ClientProtection, TrustedServer
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.stacked.stack_round import build_draws

_SECRET_ROUNDS = 3
_LOOKED_AT = 1 << 16
_SEEDS = 512
_DRAWN = 1 << 20
_WORDS, _WORDS_OF = 1 << 11, 1 << 20
"""Of so many counters, in a round that no run reaches."""
_SHORT_BLOCKS, _SHORT_DRAWS = 1 << 14, 1 << 10
"""With b bits of entropy 2^(b/2 + 1) draws have two alike: the former find 26, the latter 18."""


def check_never_twice(replayed: Replayed, findings: Findings) -> None:
    """Of float64 numbers made of 64 random bits two are alike up to their sign by chance once in
    about 2^52 pairs: below one in a million for as many numbers as are looked at."""
    found = [(round_, numbers) for round_, numbers in _used(replayed.base.passed)]
    if not found:
        return
    # The same share of every vector: of a long one in the first round there is more than enough.
    share = max(1, _LOOKED_AT // sum(numbers.size // numbers.shape[-1] for _, numbers in found))
    cut = [(at, np.abs(numbers[..., :share]).ravel()) for at, numbers in found]
    values = np.concatenate([numbers for _, numbers in cut])[:_LOOKED_AT]
    rounds = np.concatenate([np.full(numbers.size, at) for at, numbers in cut])[:_LOOKED_AT]
    order = np.argsort(values, kind="stable")
    again = np.flatnonzero(np.diff(values[order]) == 0)
    findings.looked("noise used once", len(values))
    for place in np.sort(rounds[order[again + 1]]):
        findings.add(
            "noise",
            "noise used once",
            round_=int(place),
            allowed="numbers that no other round, hypothesis, layer, step or client has",
            measured="the same number again, or minus it",
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


def check_seeds_apart(replayed: Replayed, findings: Findings) -> None:
    """Runs of other seeds share no noise, trained side by side or not: seeds that differ in one
    bit, the highest among them, and seeds in turn."""
    cell, charged = replayed.base.cell, replayed.charged
    vector = charged.n * replayed.spec.training.hypotheses
    seeds = [cell.spec.seed, *_other_seeds(cell.spec.seed, max(2, min(_SEEDS, _DRAWN // vector)))]
    cells = [_with_seed(cell, seed) for seed in seeds]
    draws = build_draws(cells)
    words = draws.source().wide_words(purpose=Purpose.GAUSSIAN, round_=1, counters=0, count=2)
    _expect_apart(findings, "noise of other seeds", words)
    if replayed.role == "local-steps":
        other = play(_with_seed(cell, seeds[2]), rounds=1)
        both = [np.unique(_sent(run)[0]) for run in (replayed.base, other)]
        _expect_apart(findings, "noise of other seeds", np.concatenate(both)[:, None])
        return
    if stands_alone(cell):
        return
    protection, rounds = build_protection(cells, torch.device("cpu")), np.ones((1, len(cells)), int)
    match protection:
        case TrustedServer():
            found: Floats | None = protection.draw(draws, rounds).sums
        case ClientProtection():
            found = protection.draw(draws, rounds, np.zeros((1, len(cells), 1), dtype=np.int64))
        case _:
            assert_never(protection)
    if found is not None:
        # A number of each run's: within a run they are compared elsewhere.
        _expect_apart(findings, "noise of runs side by side", np.abs(found[0, :, 0, :1]))


def _with_seed(cell: Cell, seed: int) -> Cell:
    return replace(cell, spec=cell.spec.model_copy(update={"seed": seed}))


def _other_seeds(seed: int, count: int) -> list[int]:
    highest = MAX_INTEGER.bit_length() - 1
    flipped = [seed ^ (1 << bit) for bit in (0, highest, *range(1, highest))]
    in_turn = [(seed + step) % MAX_INTEGER for step in range(2, count + 2)]
    return [*dict.fromkeys(flipped + in_turn)][:count]


def _expect_apart(findings: Findings, check: str, blocks: NDArray[Any]) -> None:
    """No two of blocks [draws, numbers] are alike."""
    findings.expect(
        "noise",
        check,
        holds=len(np.unique(blocks, axis=0)) == len(blocks),
        round_=None,
        allowed=f"{len(blocks)} draws, no two alike",
        measured="the same noise again",
    )


def check_words(source: Source, findings: Findings) -> None:
    """Bits of the words that noise is made of are coins, and follow no other bit or word.

    Exact bounds, as in `noise_dependence`: a bit is a number with a sign.
    """
    words = source.wide_words(
        purpose=Purpose.GAUSSIAN, round_=_WORDS_OF, counters=np.arange(_WORDS), count=2
    ).ravel()
    coins = np.unpackbits(np.ascontiguousarray(words).view(np.uint8)).reshape(-1, 64)
    bits: Floats = 2 * coins.astype(np.float64) - 1
    with_one = np.concatenate([bits, np.ones((len(bits), 1))], axis=1)
    findings.test("noise", "bits of random words", pairs(with_one))
    findings.test("noise", "random words in turn", lags(bits))


def _check_entropy(cell: Cell, run: WatchedRun, findings: Findings) -> None:
    """Secret words have more than a few bits of entropy: of short blocks no two are alike."""
    passed = run.passed
    draws = passed.draws or build_draws([cell])
    source = passed.source or draws.source()
    check_words(source, findings)
    blocks = [
        source.wide_words(purpose=Purpose.GAUSSIAN, round_=1, counters=0, count=2).ravel()
        for _ in range(_SHORT_BLOCKS)
    ]
    _expect_apart(findings, "entropy of secret words", np.stack(blocks))
    times = min(_SHORT_DRAWS, _DRAWN // (cell.shape.n * cell.spec.training.hypotheses))
    match passed.protection:
        case TrustedServer() as server:
            drawn = [server.draw(draws, np.ones(1, int)).sums.ravel()[:1] for _ in range(times)]
        case ClientProtection() as own:
            one = np.zeros((1, 1), dtype=np.int64)
            found = [own.draw(draws, np.ones(1, int), one) for _ in range(times)]
            drawn = [noise.ravel()[:1] for noise in found if noise is not None]
        case None:
            drawn = []
        case _:
            assert_never(passed.protection)
    if drawn:
        _expect_apart(findings, "entropy of secret noise", np.abs(np.stack(drawn)))


def check_secrecy(cell: Cell, findings: Findings) -> None:
    """Two runs of a spec with `release` noise share neither noise nor, but by chance, coins."""
    rounds = min(_SECRET_ROUNDS, cell.spec.training.rounds)
    first, second = play(cell, rounds=rounds), play(cell, rounds=rounds)
    _check_entropy(cell, first, findings)
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
