"""How sure a gap is: percentile intervals from drawing clients anew with replacement.

Rows of one client belong together, so clients are drawn, not rows (a cluster bootstrap). The groups
shown are those of the point estimate. An interval shows how much a gap depends on which clients
were drawn for validation, given the trained model; it does not show how another training run would
differ. The largest gap among many groups is biased upward, and its interval with it.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.counts import scored_rows
from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import NO_OUTCOME, gap_values
from fedaudit.fairness.scores import GroupScores, score_values
from fedaudit.native.resampled import pool, stride_of, tally
from fedaudit.randomness import CounterSource, Purpose
from fedaudit.spec.metrics import METRICS, SCORE_METRICS

MIN_CLIENTS = 20
"""Below this, percentiles over clients say little."""
MAX_UNDEFINED = 0.05
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
    disclosure: Disclosure,
    *,
    level: float,
    samples: int,
    seed: int,
    stream: int = 0,
) -> dict[str, Interval]:
    """The interval of each of METRICS, from counts per client [clients, groups, 4].

    `level`: coverage, such as 0.95. `stream`: another number draws other clients from the same
    seed (one for each attribute). The same arguments always give the same intervals. Raises
    ValueError where the disclosure was not decided from the rows of these counts.
    """
    if not disclosure.rule.has_favourable_outcome:
        return dict.fromkeys(METRICS, Interval(None, None, NO_OUTCOME))
    disclosure.check(scored_rows(client_counts.sum(axis=0)))
    shown, reference = disclosure.shown, disclosure.reference

    def measure(pooled: NDArray[np.float64]) -> NDArray[np.float64]:
        return gap_values(pooled.astype(np.int64), _each(shown, pooled), reference=reference)

    return resampled_intervals(
        METRICS,
        measure,
        # Sums of counts stay far below 2**53: they are exact, whatever order they are taken in.
        client_counts.astype(np.float64),
        contributing=np.flatnonzero(client_counts[:, shown].any(axis=(1, 2))),
        draws=ClientDraws(seed, stream, samples),
        level=level,
    )


def score_intervals(
    scores: GroupScores,
    disclosure: Disclosure,
    *,
    root_mean: bool,
    level: float,
    samples: int,
    seed: int,
    stream: int = 0,
) -> dict[str, Interval]:
    """The interval of each of SCORE_METRICS, as `bootstrap_intervals`, from the same clients."""
    disclosure.check(scores.rows.sum(axis=0))
    shown, reference = disclosure.shown, disclosure.reference

    def measure(pooled: NDArray[np.float64]) -> NDArray[np.float64]:
        return score_values(pooled, _each(shown, pooled), root_mean=root_mean, reference=reference)

    return resampled_intervals(
        SCORE_METRICS,
        measure,
        scores.sums,
        contributing=np.flatnonzero(scores.rows[:, shown].any(axis=1)),
        draws=ClientDraws(seed, stream, samples),
        level=level,
    )


class ClientDraws(NamedTuple):
    """Which clients are drawn: `samples` times as many as there are, with replacement."""

    seed: int
    stream: int
    samples: int


def resampled_intervals(
    metrics: Collection[str],
    measure: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    sums: NDArray[np.float64],
    *,
    contributing: NDArray[np.int64],
    draws: ClientDraws,
    level: float,
    of: str = "clients have rows in the groups shown",
) -> dict[str, Interval]:
    """Of what `measure` makes of sums over drawn clients: [count, metrics] of [count, ...].

    `sums` [clients, ...] of each client; `contributing`: the clients that are drawn from. `of`:
    what they are called where they are too few.
    """
    drawn_from = sums[contributing]
    if len(drawn_from) < MIN_CLIENTS:
        reason = f"{len(drawn_from)} {of}; an interval needs {MIN_CLIENTS}"
        return {metric: Interval(None, None, reason) for metric in metrics}
    values = np.concatenate([measure(pooled) for pooled in _resample(drawn_from, draws)])
    return {
        metric: _percentiles(values[:, position], level) for position, metric in enumerate(metrics)
    }


def _each(shown: NDArray[np.bool_], pooled: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The groups shown, for each of the draws."""
    return np.broadcast_to(shown, (len(pooled), len(shown)))


def _resample(sums: NDArray[np.float64], draws: ClientDraws) -> Iterator[NDArray[np.float64]]:
    """Sums [some samples, ...] over clients drawn with replacement, in blocks."""
    flat = sums.reshape(len(sums), -1)
    chunk = max(1, _WORDS_AT_A_TIME // max(flat.shape))
    for start in range(0, draws.samples, chunk):
        times = _times(draws, len(sums), start, min(start + chunk, draws.samples))
        yield _added_up(times, flat).reshape(-1, *sums.shape[1:])


def _added_up(times: NDArray[np.float64], own: NDArray[np.float64]) -> NDArray[np.float64]:
    """`times` [samples, clients] @ `own` [clients, numbers], where many are 0.

    Columns of whole numbers are exact in any order. The others are multiplied by themselves, since
    the order in which they are added may depend on how many there are.
    """
    with np.errstate(invalid="ignore"):  # a loss that is not finite, drawn no times
        whole = np.all(own == np.rint(own), axis=0)
        found = np.zeros((len(times), own.shape[1]))
        if not pool(times, np.where(whole, own, 0.0), found):
            found[:, whole] = times @ own[:, whole]
        found[:, ~whole] = times @ own[:, ~whole]
    return found


@lru_cache(maxsize=2)
def _times(draws: ClientDraws, clients: int, start: int, end: int) -> NDArray[np.float64]:
    """How often each client is drawn in some of the samples: [end - start, clients].

    Kept, because rates, scores and gains of one attribute draw the same clients.
    """
    counters = np.arange(start, end, dtype=np.uint32)
    words = CounterSource(draws.seed).words(
        purpose=Purpose.BOOTSTRAP, round_=draws.stream, counters=counters, count=stride_of(clients)
    )
    drawn = tally(words, clients)
    if drawn is not None:
        drawn.flags.writeable = False
        return drawn
    words = words[:, :clients]
    chosen = (words.astype(np.uint64) * np.uint64(clients)) >> np.uint64(32)
    cells = chosen.astype(np.int64) + np.arange(len(counters))[:, np.newaxis] * clients
    times = np.bincount(cells.ravel(), minlength=len(counters) * clients)
    found = times.reshape(len(counters), clients).astype(np.float64)
    found.flags.writeable = False
    return found


def _percentiles(values: NDArray[np.float64], level: float) -> Interval:
    undefined = int(np.isnan(values).sum())
    if undefined > MAX_UNDEFINED * len(values):
        return Interval(
            None,
            None,
            f"undefined in {undefined} of {len(values)} draws; at most {MAX_UNDEFINED:.0%} may be",
        )
    tail = 50 * (1 - level)
    low, high = np.percentile(values[~np.isnan(values)], (tail, 100 - tail))
    reason = (
        f"{undefined} of {len(values)} draws were undefined and left out" if undefined else None
    )
    return Interval(float(low), float(high), reason)
