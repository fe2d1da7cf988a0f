"""Whether numbers have the distribution that was charged for, and are independent: p-values.

Distribution functions are compared by Kolmogorov and Smirnov's largest distance, sums of squares
with their chi-square, and what ought to be independent by correlation. Of several p-values the
smallest counts, times their number (Bonferroni).

Every vector may have the right law and their sums no noise at all: z and then -z, a difference of
the noise of two rounds, a coordinate that is minus another. Every p-value of dependence is exact or
an upper bound for independent standard normal numbers, however few they are:

- Products of two numbers that are symmetric and independent have independent signs, given their
  sizes. Their sum S over the root V of the sum of their squares exceeds t with a chance of at most
  2 exp(-t^2 / 2) (Hoeffding 1963). Sizes are tested likewise, by their normal scores.
- Squared norms of sums over m rounds, over m, have the chi-square law.
- The cosine of two vectors in R^n is that of a uniform direction: (1 + cosine) / 2 has the law
  Beta((n - 1) / 2, (n - 1) / 2).
- Singular values of a matrix [rows, columns] are farther than t beyond sqrt(rows) -+ sqrt(columns)
  with a chance of at most exp(-t^2 / 2) each (Davidson and Szarek 2001, theorem II.13).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special, stats

from fedaudit.arrays import Floats, Ints
from fedaudit.attacks.replay.neighbours import Replayed
from fedaudit.attacks.replay.replay_finding import FALSE_ALARM, Findings
from fedaudit.attacks.replay.watched_run import PassedThrough, WatchedRun, play
from fedaudit.privacy.noise.laplace import layer_slices
from fedaudit.randomness import Purpose, Source
from fedaudit.spec.base import MAX_INTEGER
from fedaudit.spec.training import AllocationCohort, FixedCohort
from fedaudit.training.base.cell import Cell, split_cells, stands_alone
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.stacked.stack_round import build_draws

_AXES = 6
"""So many coordinates of a direction are tested; each has the same distribution."""
_FEW = 30
_COORDINATES = 256
"""So many coordinates of a longer vector are tested for dependence, half of them at each end."""
_ALL_WINDOWS = 64
"""For more rounds, windows are those of a binary tree."""
_WINDOW_ROUNDS = (16, 8, 4, 2)
_MOST_COLUMNS = 512
_MOST_PAIRED = 1 << 10

Tests = Iterator[tuple[str, float]]
"""Names and p-values."""


def gaussian_law(noise: Floats) -> Tests:
    """Tests of vectors [vectors, n] of independent standard normal numbers, in the order drawn."""
    if noise.size < _FEW:
        return
    flat = noise.ravel()
    yield "normal numbers", float(stats.kstest(flat, stats.norm.cdf).pvalue)
    law, total = stats.chi2(flat.size), float(np.square(flat).sum())
    yield "their size", min(1.0, 2 * float(min(law.cdf(total), law.sf(total))))
    yield "their mean", _normal(float(flat.sum()) / math.sqrt(flat.size))
    if noise.shape[1] > 1:
        yield "numbers in turn", correlation(noise[:, :-1].ravel(), noise[:, 1:].ravel())


def laplace_law(noise: Floats, sizes: Sequence[int]) -> Tests:
    """Tests of vectors [vectors, n] with density K exp(-||x||) in each layer of these sizes."""
    if len(noise) < _FEW:
        return
    scores = []
    for layer, part in enumerate(layer_slices(sizes)):
        own, n = noise[:, part], sizes[layer]
        norms = np.sqrt(np.square(own).sum(1))
        yield f"norms of layer {layer + 1}", float(stats.kstest(norms, stats.gamma(n).cdf).pvalue)
        scores.append(stats.norm.ppf(np.clip(stats.gamma(n).cdf(norms), 1e-12, 1 - 1e-12)))
        yield from _direction(own / norms[:, None], layer + 1)
    for first, second in combinations(range(len(sizes)), 2):
        name = f"norms of layers {first + 1} and {second + 1}"
        yield name, correlation(scores[first], scores[second])
    for one, other in combinations(layer_slices(sizes), 2):
        width = min(one.stop - one.start, other.stop - other.start)
        left, right = (np.sign(noise[:, part][:, :width]).ravel() for part in (one, other))
        yield "directions of two layers", correlation(left, right)


def _direction(unit: Floats, layer: int) -> Tests:
    n = unit.shape[1]
    if n == 1:
        up = int((unit > 0).sum())
        yield f"signs of layer {layer}", float(stats.binomtest(up, len(unit)).pvalue)
        return
    # (1 + cosine) / 2 of a uniform direction with a fixed axis.
    law = stats.beta((n - 1) / 2, (n - 1) / 2)
    for axis in range(min(n, _AXES)):
        pvalue = float(stats.kstest((1 + unit[:, axis]) / 2, law.cdf).pvalue)
        yield f"directions of layer {layer}", pvalue
    diagonals = (1 + unit.sum(1) / math.sqrt(n)) / 2
    yield f"diagonals of layer {layer}", float(stats.kstest(diagonals, law.cdf).pvalue)


def correlation(left: Floats, right: Floats) -> float:
    """The p-value of pairs that ought to be independent, of mean zero."""
    scale = float(np.square(left * right).sum())
    return 1.0 if scale == 0 else _normal(float((left * right).sum()) / math.sqrt(scale))


def binomial(successes: int, trials: int, rate: float) -> float:
    """The p-value of a count of independent coins, two-sided."""
    return 1.0 if trials == 0 else float(stats.binomtest(successes, trials, rate).pvalue)


def binomial_spread(counts: Ints, trials: int, rate: float) -> float:
    """The p-value of the spread of counts that ought to be independent binomials.

    The sum of squared standardised counts, taken for normal: there should be hundreds.
    """
    if not 0 < rate < 1:
        return 1.0 if (counts == round(trials * rate)).all() else 0.0
    variance = trials * rate * (1 - rate)
    squares = np.square(counts - trials * rate) / variance
    kurtosis = 3 + (1 - 6 * rate * (1 - rate)) / variance
    return _normal((float(squares.sum()) - len(counts)) / math.sqrt(len(counts) * (kurtosis - 1)))


def turns(memberships: Floats) -> float:
    """The p-value of memberships [turns, members], less their rate, that ought to be drawn again in
    every turn; members of one turn may depend on each other."""
    both = (memberships[:-1] * memberships[1:]).sum(-1)
    return correlation(both, np.ones(len(both)))


def _normal(score: float) -> float:
    return 2 * float(stats.norm.sf(abs(score)))


# -- dependence on other noise: over rounds, hypotheses, clients and coordinates ------------------


def as_normal(noise: Floats, sizes: Sequence[int] | None) -> Floats:
    """Laplace noise [..., n] of layers of these sizes as normal numbers, with the same directions;
    without sizes the noise is normal already. Long vectors are cut to their two ends."""
    if sizes is not None:
        noise = noise.copy()
        for part in layer_slices(sizes):
            own = noise[..., part]
            n, norms = own.shape[-1], np.sqrt(np.square(own).sum(-1, keepdims=True))
            # Both tails keep their digits: the smaller one is inverted.
            lower, upper = special.gammainc(n, norms), special.gammaincc(n, norms)
            squares = np.where(
                lower < 0.5, special.gammaincinv(n / 2, lower), special.gammainccinv(n / 2, upper)
            )
            own *= np.sqrt(2 * squares) / np.maximum(norms, 1e-300)
    half = _COORDINATES // 2
    if noise.shape[-1] > _COORDINATES:
        noise = np.concatenate([noise[..., :half], noise[..., -half:]], axis=-1)
    return noise


def dependence_law(noise: Floats) -> Tests:
    """Tests of normal numbers [rounds, units, n]: a unit is a hypothesis, client or silo, in the
    same place in every round, and NaN where it had no noise."""
    there = ~np.isnan(noise)
    vectors = np.where(there, noise, 0.0).reshape(-1, noise.shape[-1])
    # Normal numbers that measure how large these are; 0 stays 0.
    shares = np.clip(special.erf(np.abs(vectors) / math.sqrt(2)), 1e-16, 1 - 1e-16)
    sizes = np.where(vectors == 0, 0.0, special.ndtri(shares))
    for name, values in (("noise", vectors), ("sizes of noise", sizes)):
        yield f"{name} at any lag", lags(values)
        yield f"{name}, pairs of coordinates", pairs(values)
    yield from _over_windows(noise)
    full = vectors[there.reshape(vectors.shape).all(-1)]
    if 1 < len(full) <= _MOST_PAIRED and full.shape[1] > 1:
        yield "two vectors of noise", _cosines(full)
    yield "combinations of coordinates", _singular(full)
    if there.all():
        yield "combinations of rounds", _singular(_windowed(noise))


def lags(values: Floats) -> float:
    """The p-value of vectors [vectors, n] against those any number of places later."""
    if len(values) < 2:
        return 1.0
    products, squares = (_correlated(part)[1:] for part in (values, np.square(values)))
    return _signed(products, squares, least=float(np.square(np.square(values)).sum()))


def _correlated(values: Floats) -> Floats:
    """The sum of products of vectors so many places apart: [vectors]."""
    count = len(values)
    waves = np.fft.rfft(values, 2 * count, axis=0)
    return np.fft.irfft(np.square(np.abs(waves)).sum(1), 2 * count)[:count]


def pairs(values: Floats) -> float:
    """The p-value of each of n coordinates of vectors [vectors, n] against each other one."""
    upper = np.triu_indices(values.shape[1], 1)
    squared = np.square(values)
    products, squares = (values.T @ values)[upper], (squared.T @ squared)[upper]
    return _signed(products, squares, least=float(squares.max(initial=0.0)))


def _signed(products: Floats, squares: Floats, *, least: float) -> float:
    """The smallest p-value of sums of products and of their squares, times their number."""
    some = squares > 1e-9 * least
    if not some.any():
        return 1.0
    largest = float((np.square(products[some]) / squares[some]).max())
    return min(1.0, 2 * int(some.sum()) * math.exp(-largest / 2))


def _over_windows(noise: Floats) -> Tests:
    """Sums of noise over rounds, and its size, in windows of rounds."""
    rounds, flat = len(noise), noise.reshape(len(noise), -1)
    there = ~np.isnan(flat)
    numbers = np.where(there, flat, 0.0)
    of_sums, of_sizes = [], []
    counts, sums, sizes = (
        np.concatenate([np.zeros((1, part.shape[1])), part.cumsum(0)])
        for part in (there * 1.0, numbers, np.square(numbers))
    )
    for starts, length in _windows(rounds):
        there_in, sum_in, size_in = (
            whole[starts + length] - whole[starts] for whole in (counts, sums, sizes)
        )
        of_sizes.append(_chi_square(size_in.sum(-1), there_in.sum(-1)))
        if length > 1:
            squares = np.square(sum_in) / np.maximum(there_in, 1)
            of_sums.append(_chi_square(squares.sum(-1), (there_in > 0).sum(-1)))
    for name, found in (("sums over rounds", of_sums), ("size over rounds", of_sizes)):
        if found:
            every = np.concatenate(found)
            yield name, min(1.0, float(every.min()) * len(every))


def _windows(rounds: int) -> list[tuple[Ints, int]]:
    """The starts of windows of each length."""
    if rounds <= _ALL_WINDOWS:
        return [(np.arange(rounds - length + 1), length) for length in range(1, rounds + 1)]
    lengths = [1 << power for power in range(rounds.bit_length())]
    return [(np.arange(rounds // length) * length, length) for length in lengths]


def _chi_square(values: Floats, freedom: Floats) -> Floats:
    """Two-sided p-values; 1 without a degree of freedom."""
    of = np.maximum(freedom, 1)
    ends = np.minimum(special.chdtr(of, values), special.chdtrc(of, values))
    return np.where(freedom > 0, np.minimum(1.0, 2 * ends), 1.0)


def _cosines(vectors: Floats) -> float:
    """The p-value of the two vectors whose cosine is the largest."""
    norms = np.sqrt(np.square(vectors).sum(1, keepdims=True))
    unit = vectors[norms[:, 0] > 0] / norms[norms[:, 0] > 0]
    upper = np.triu_indices(len(unit), 1)
    if not len(upper[0]):
        return 1.0
    largest = min(1.0, float(np.abs((unit @ unit.T)[upper]).max()))
    half = (unit.shape[1] - 1) / 2
    return min(1.0, 2 * len(upper[0]) * float(special.betainc(half, half, (1 - largest) / 2)))


def _windowed(noise: Floats) -> Floats:
    """The longest windows of rounds that leave enough of them: [windows * n, rounds * units]."""
    rounds, units, n = noise.shape
    for length in _WINDOW_ROUNDS:
        count, columns = rounds // length, length * units
        if columns <= _MOST_COLUMNS and count * n >= 4 * columns:
            taken = noise[: count * length].reshape(count, columns, n)
            return taken.transpose(0, 2, 1).reshape(-1, columns)
    return np.zeros((0, 2))


def _singular(matrix: Floats) -> float:
    """The p-value of the singular values that are farthest out."""
    rows, columns = matrix.shape
    if columns < 2 or rows < 4 * columns:
        return 1.0
    squares = np.linalg.eigvalsh(matrix.T @ matrix)
    least, most = (math.sqrt(max(0.0, float(squares[end]))) for end in (0, -1))
    below = math.sqrt(rows) - math.sqrt(columns) - least
    above = most - math.sqrt(rows) - math.sqrt(columns)
    return min(1.0, 2 * math.exp(-(max(0.0, below, above) ** 2) / 2))


_SECRET_ROUNDS = 3
_LOOKED_AT = 1 << 16
_SEEDS = 512
_DRAWN = 1 << 20
_WORDS, _WORDS_OF = 1 << 11, 1 << 20
"""Number of counters whose words are drawn, and their round, which no run reaches."""
_SHORT_BLOCKS, _SHORT_DRAWS = 1 << 14, 1 << 10
"""With b bits of entropy 2^(b/2 + 1) draws have two alike: the former find 26, the latter 18."""


def check_never_twice(replayed: Replayed, findings: Findings) -> None:
    """Check that no noise repeats. Two float64 numbers made of 64 random bits are alike up to their
    sign by chance once in about 2^52 pairs: below one in a million for as many as are compared."""
    found = [*_used(replayed.base.passed)]
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
    for round_ in np.sort(rounds[order[again + 1]]):
        findings.at("noise", int(round_)).add(
            "noise used once",
            allowed="numbers that no other round, hypothesis, layer, step or client has",
            measured="the same number again, or minus it",
        )


def _used(passed: PassedThrough) -> Iterator[tuple[int, Floats]]:
    """The unscaled noise of each round that was played."""
    for round_ in range(1, passed.round + 1):
        if round_ in passed.drawn:
            yield round_, passed.drawn[round_]
        else:
            parts = passed.uploads.get(round_, [])
            yield from ((round_, part.noise) for part in parts if part.noise is not None)
        for part in passed.steps.get(round_, []):
            yield from ((round_, unit) for unit in part.unit_noise)
        count = passed.sums[round_].count_noise if round_ in passed.sums else None
        if count is not None:
            yield round_, np.array([count])


def check_seeds_apart(replayed: Replayed, findings: Findings) -> None:
    """Runs of other seeds share no noise, trained side by side or not: seeds that differ in one
    bit, the highest among them, and seeds in turn."""
    cell, charged = replayed.base.cell, replayed.charged
    vector, seed = charged.n * replayed.spec.training.hypotheses, cell.spec.seed
    highest = MAX_INTEGER.bit_length() - 1
    count = max(2, min(_SEEDS, _DRAWN // vector))
    flipped = [seed ^ (1 << bit) for bit in (0, highest, *range(1, highest))]
    in_turn = [(seed + step) % MAX_INTEGER for step in range(2, count + 2)]
    seeds = [seed, *[*dict.fromkeys(flipped + in_turn)][:count]]
    cells = [replace(cell, spec=cell.spec.model_copy(update={"seed": one})) for one in seeds]
    draws = build_draws(cells)
    words = draws.source().wide_words(purpose=Purpose.GAUSSIAN, round_=1, counters=0, count=2)
    _expect_apart(findings, "noise of other seeds", words)
    if replayed.role == "local-steps":
        both = [np.unique(_sent(run)[0]) for run in (replayed.base, play(cells[2], rounds=1))]
        _expect_apart(findings, "noise of other seeds", np.concatenate(both)[:, None])
        return
    if stands_alone(cell):
        return
    protection, rounds = build_protection(cells, torch.device("cpu")), np.ones((1, len(cells)), int)
    clients = np.zeros((1, len(cells), 1), dtype=np.int64)
    found = protection.draw(draws, rounds, clients).vectors
    if found is not None:
        # A number of each run: within a run they are compared by `check_never_twice`.
        _expect_apart(findings, "noise of runs side by side", np.abs(found[0, :, 0, :1]))


def _expect_apart(findings: Findings, check: str, blocks: NDArray[Any]) -> None:
    """No two of blocks [draws, numbers] are alike."""
    findings.at("noise").expect(
        check,
        len(np.unique(blocks, axis=0)) == len(blocks),
        allowed=f"{len(blocks)} draws, no two alike",
        measured="the same noise again",
    )


def check_words(source: Source, findings: Findings) -> None:
    """Bits of the words that noise is made of are coins, and follow no other bit or word.

    Exact bounds, as in `dependence_law`: a bit is a number with a sign.
    """
    words = source.wide_words(
        purpose=Purpose.GAUSSIAN, round_=_WORDS_OF, counters=np.arange(_WORDS), count=2
    ).ravel()
    coins = np.unpackbits(np.ascontiguousarray(words).view(np.uint8)).reshape(-1, 64)
    bits: Floats = 2 * coins.astype(np.float64) - 1
    with_one = np.concatenate([bits, np.ones((len(bits), 1))], axis=1)
    findings.test("noise", "bits of random words", pairs(with_one))
    findings.test("noise", "random words in turn", lags(bits))


def check_secrecy(cell: Cell, findings: Findings) -> None:
    """Two runs of a spec with `release` noise share neither noise nor, but by chance, coins."""
    rounds = min(_SECRET_ROUNDS, cell.spec.training.rounds)
    first, second = play(cell, rounds=rounds), play(cell, rounds=rounds)
    _check_entropy(cell, first, findings)
    for round_, (left, right) in enumerate(zip(_sent(first), _sent(second), strict=True), start=1):
        findings.at("noise", round_).expect(
            "secret noise",
            not len(np.intersect1d(left, right)),
            allowed="noise that does not follow from the seed",
            measured="the same noise in two runs",
        )
    if _chance_of_same_cohorts(cell, rounds) < FALSE_ALARM:
        same = all(
            np.array_equal(_who(first, round_), _who(second, round_))
            for round_ in range(1, rounds + 1)
        )
        findings.at("sampling").expect(
            "secret coins",
            not same,
            allowed="cohorts that do not follow from the seed",
            measured="the same cohorts in two runs",
        )


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
    if passed.protection is not None:
        first = np.ones(1, int), np.zeros((1, 1), dtype=np.int64)
        drawn = [passed.protection.draw(draws, *first).vectors for _ in range(times)]
        numbers = [np.abs(noise.ravel()[:1]) for noise in drawn if noise is not None]
        if numbers:
            _expect_apart(findings, "entropy of secret noise", np.stack(numbers))


def _sent(run: WatchedRun) -> list[Floats]:
    """The noise of each round: unscaled, or else within what was sent."""
    found: list[list[Floats]] = [[] for _ in range(run.rounds)]
    for round_, numbers in _used(run.passed):
        if round_ <= run.rounds:
            found[round_ - 1].append(numbers.ravel())
    for round_, one in run.passed.sums.items():
        if one.noise is not None:
            found[round_ - 1].append(one.noise.ravel())
    return [np.concatenate([np.zeros(0), *numbers]) for numbers in found]


def _who(run: WatchedRun, round_: int) -> Ints:
    cohort = run.passed.cohorts.get(round_)
    return np.sort(run.silos(round_)) if cohort is None else cohort


def _chance_of_same_cohorts(cell: Cell, rounds: int) -> float:
    """That two runs draw the same cohorts in all rounds."""
    cohort = cell.spec.training.drawn_cohort
    if isinstance(cohort, FixedCohort):
        population = split_cells([cell]).training.shape[1]
        return float((1 / math.comb(population, min(cohort.clients, population))) ** rounds)
    by_record = cell.spec.federation.validation_unit == "record"
    clients = cell.federation.clients if by_record else split_cells([cell]).training.shape[1]
    if isinstance(cohort, AllocationCohort):
        blocks, left = divmod(rounds, cohort.every)
        begun = left / cohort.every**2 + (1 - left / cohort.every) ** 2
        return float((cohort.every ** -float(blocks) * begun) ** clients)
    alike: float = cohort.rate**2 + (1 - cohort.rate) ** 2
    return alike ** (clients * rounds)
