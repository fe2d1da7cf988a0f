"""How sure a gap is: percentile intervals from drawing clients anew with replacement.

Rows of one client belong together, so clients are drawn, not rows (a cluster bootstrap). The groups
shown are those of the point estimate. The interval tells of the clients drawn for validation,
given the trained model; it does not tell how another training run would differ. The largest gap
among many groups is biased upward, and its interval with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.counts import scored_rows
from fedaudit.fairness.gaps import METRICS, gap_values, reference_index
from fedaudit.fairness.suppression import shown_groups
from fedaudit.randomness import CounterSource, Purpose

FEWEST_CLIENTS = 20
"""Below this, percentiles over clients say little."""
MOST_UNDEFINED = 0.05
"""Share of draws without a value above which there is no interval."""

_WORDS_AT_A_TIME = 1 << 20


@dataclass(frozen=True)
class Interval:
    """One interval, or the reason why there is none. A reason beside bounds qualifies them."""

    low: float | None
    high: float | None
    reason: str | None


def bootstrap_intervals(
    client_counts: NDArray[np.int64],
    groups: Sequence[str],
    *,
    minimum_group_size: int,
    level: float,
    samples: int,
    seed: int,
    stream: int = 0,
    reference_group: str | None = None,
) -> dict[str, Interval]:
    """The interval of each of METRICS, from counts per client [clients, groups, 4].

    `level`: coverage, such as 0.95. `stream`: another number draws other clients from the same
    seed (one for each attribute). The same arguments always give the same intervals.
    """
    shown = shown_groups(
        scored_rows(client_counts.sum(axis=0)), minimum_group_size=minimum_group_size
    )
    contributing = client_counts[client_counts[:, shown].any(axis=(1, 2))]
    if len(contributing) < FEWEST_CLIENTS:
        reason = (
            f"{len(contributing)} clients have rows in the groups shown; "
            f"an interval needs {FEWEST_CLIENTS}"
        )
        return {metric: Interval(None, None, reason) for metric in METRICS}
    reference = reference_index(groups, reference_group)
    values = np.concatenate(
        [
            gap_values(drawn, np.broadcast_to(shown, drawn.shape[:-1]), reference=reference)
            for drawn in _resample(contributing, samples=samples, seed=seed, stream=stream)
        ]
    )
    return {
        metric: _percentiles(values[:, position], level) for position, metric in enumerate(METRICS)
    }


def _resample(
    counts: NDArray[np.int64], *, samples: int, seed: int, stream: int
) -> Iterator[NDArray[np.int64]]:
    """Pooled counts [some samples, groups, 4] of clients drawn with replacement, in blocks."""
    clients, groups, _ = counts.shape
    # Sums of counts stay far below 2**53: the product is exact, whatever order it is taken in.
    flat = counts.reshape(clients, -1).astype(np.float64)
    source = CounterSource(seed)
    chunk = max(1, _WORDS_AT_A_TIME // max(clients, flat.shape[1]))
    for start in range(0, samples, chunk):
        draws = np.arange(start, min(start + chunk, samples), dtype=np.uint32)
        words = source.words(
            purpose=Purpose.BOOTSTRAP, round_=stream, counters=draws, count=clients
        )
        chosen = (words.astype(np.uint64) * np.uint64(clients)) >> np.uint64(32)
        cells = chosen.astype(np.int64) + np.arange(len(draws))[:, np.newaxis] * clients
        times = np.bincount(cells.ravel(), minlength=len(draws) * clients)
        pooled = times.reshape(len(draws), clients).astype(np.float64) @ flat
        yield pooled.astype(np.int64).reshape(-1, groups, 4)


def _percentiles(values: NDArray[np.float64], level: float) -> Interval:
    undefined = int(np.isnan(values).sum())
    if undefined > MOST_UNDEFINED * len(values):
        return Interval(
            None,
            None,
            f"undefined in {undefined} of {len(values)} draws; at most {MOST_UNDEFINED:.0%} may be",
        )
    tail = 50 * (1 - level)
    low, high = np.percentile(values[~np.isnan(values)], (tail, 100 - tail))
    reason = (
        f"{undefined} of {len(values)} draws were undefined and left out" if undefined else None
    )
    return Interval(float(low), float(high), reason)
