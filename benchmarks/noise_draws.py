"""Nanoseconds of processor time for a number of noise, and for its words alone.

    OMP_NUM_THREADS=1 python -m benchmarks.noise_draws

For the tasks of `benchmarks.rounds`, a stack of 60 experiments, and a network of a million
parameters; the smallest of several turns, since whatever else the machine does only adds.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.reproductions.runs import table
from fedaudit.privacy.noise.gaussian import unit_gaussian
from fedaudit.privacy.noise.laplace import unit_laplace
from fedaudit.randomness import CounterSource, EntropySource, Purpose, Source

_LAYOUTS = {
    "W1, 64 rounds of 7 clients, n = 2": (64, 1, 7, 2),
    "W2, 64 rounds of 100 clients, n = 11": (64, 1, 100, 11),
    "W2, 60 experiments, n = 11": (1, 60, 100, 11),
    "one vector, n = 1,000,000": (1, 1, 1, 1_000_000),
}


def nanoseconds(draw: Callable[[], object], *, numbers: int, turns: int) -> float:
    """For a number, of the fastest turn."""
    draw()
    best = float("inf")
    for _ in range(turns):
        began = time.process_time_ns()
        draw()
        best = min(best, time.process_time_ns() - began)
    return best / numbers


def measured(layout: tuple[int, int, int, int], source: Source, turns: int) -> list[str]:
    """Of words, Gaussian and Laplace noise."""
    rounds, cells, clients, n = layout
    numbers = rounds * cells * clients * n
    round_ = np.arange(rounds).reshape(-1, 1, 1)
    counters = np.arange(clients)[None, None]
    draws: list[Callable[[], object]] = [
        lambda: source.wide_words(
            purpose=Purpose.GAUSSIAN, round_=round_, counters=counters, count=n
        ),
        lambda: unit_gaussian(source, n=n, round_=round_, counters=counters),
        lambda: unit_laplace(source, n=n, round_=round_, counters=counters),
    ]
    return [f"{nanoseconds(draw, numbers=numbers, turns=turns):.0f}" for draw in draws]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name, layout in _LAYOUTS.items():
        seeds = np.arange(layout[1], dtype=np.uint64).reshape(1, -1, 1)
        for kind, source in (
            ("simulation", CounterSource(seeds)),
            ("release", EntropySource(seeds)),
        ):
            rows.append([name, kind, *measured(layout, source, chosen.turns)])
    print(table(("layout", "noise", "words", "Gaussian", "Laplace"), rows))


if __name__ == "__main__":
    main()
