"""How soon followed canaries find half of the noise, and how seldom they do where it is whole.

    OMP_NUM_THREADS=1 python -m benchmarks.evidence_lengths --runs 4000

White box, simulated: every canary is one number, its share where its coin let it in, beside nine
numbers of noise alone. The evidence is looked at after every thirtieth of the canaries with which
the test of a fixed number (one look at the known noise, at the same level of 1 %) has a power of
99 %: up to three times as many where the noise is half; where it is whole, up to thirty times, from
three times on at every twentieth more.
"""

import argparse
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.stats import nct

from benchmarks.reproductions.runs import table
from fedaudit.privacy.lower_bounds.e_values import (
    ALARM_LEVEL,
    ENOUGH_ALONE,
    known_noise_e_values,
)
from fedaudit.privacy.lower_bounds.release_law import gaussian_mu

_CLAIMS = (0.5, 1.0, 2.0, 4.0, 8.0)
_DELTA, _BESIDE, _POWER, _LOOKS = 1e-5, 10, 0.99, 30


def fixed_count(ratio: float) -> int:
    """The fewest canaries with which one look finds twice the ratio."""
    low, high = 1, 200_000
    while high - low > 1:
        middle = (low + high) // 2
        freedom, root = _BESIDE * middle - 1, (middle / 2) ** 0.5
        needed = nct.isf(ALARM_LEVEL, freedom, ratio * root)
        enough = nct.sf(needed, freedom, 2 * ratio * root) >= _POWER
        low, high = (low, middle) if enough else (middle, high)
    return high


def crossings(
    ratio: float, *, claimed: float, counts: Sequence[int], runs: int, seed: int
) -> NDArray[np.int64]:
    """After how many canaries the evidence of each run is enough; 0 where it never is: [runs]."""
    generator, found = np.random.default_rng(seed), np.zeros(runs, dtype=np.int64)
    product, weight, squares = np.zeros((3, runs))
    for before, count in pairwise([0, *counts]):
        present = generator.binomial(count - before, 0.5, size=runs)
        drawn = present * ratio + np.sqrt(present) * generator.standard_normal(runs)
        left = generator.chisquare(_BESIDE * (count - before) - (present > 0))
        squares += left + drawn**2 / np.maximum(present, 1)
        product, weight = product + drawn, weight + present
        e_values = known_noise_e_values(
            product / np.sqrt(squares), weight, numbers=_BESIDE * count, claimed=claimed
        )
        found[(found == 0) & (e_values >= ENOUGH_ALONE)] = count
    return found


def row(claim: float, runs: int) -> list[str]:
    """Counts and shares of alarms."""
    claimed = gaussian_mu(claim, _DELTA)
    count = fixed_count(claimed)
    step, seed = max(1, round(count / _LOOKS)), round(10 * claim)
    counts = list(range(step, 3 * count, step))
    half = crossings(2 * claimed, claimed=claimed, counts=counts, runs=runs, seed=seed)
    while counts[-1] < 30 * count:
        counts.append(round(1.05 * counts[-1]) + 1)
    whole = crossings(claimed, claimed=claimed, counts=counts, runs=runs, seed=seed + 1)
    # One that was never found has seen all of them.
    mean = float(np.where(half > 0, half, 3 * count).mean())
    return [
        f"{claim:g}",
        str(count),
        f"{mean:.0f}",
        f"{count / mean:.2f}",
        f"{np.median(np.where(half > 0, half, 3 * count)):.0f}",
        f"{(half > 0).mean():.2%}",
        f"{(whole > 0).mean():.2%}",
    ]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--claims", type=float, nargs="+", default=_CLAIMS)
    given = parser.parse_args()
    head = (
        "claim",
        "fixed count",
        "followed, mean",
        "times fewer",
        "median",
        "found",
        "false alarms",
    )
    print(table(head, [row(claim, given.runs) for claim in given.claims]))


if __name__ == "__main__":
    main()
