"""What of a run's counts is published: as they are, rounded, or with noise."""

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.published_counts import (
    ExactCounts,
    NoisedCounts,
    PublishedCounts,
    RoundedCounts,
    bounded_counts,
)
from fedaudit.privacy.held_out.count_release import CountRelease
from fedaudit.privacy.noise.exact_integers import IntegerDraws, drawn_integers
from fedaudit.randomness import CounterSource, EntropySource, Purpose, Source
from fedaudit.reports.sections.fairness_privacy import is_secret
from fedaudit.runs.run import Run
from fedaudit.training.base.round_records import FinalResult

_REPORT = 0
"""The round under which the report's noise is drawn, before the first of training."""
_SEED_WORDS = 4


def publish_counts(run: Run, result: FinalResult) -> PublishedCounts:
    """The counts for the report; noise is drawn anew with each call where it is secret.

    Raises RuntimeError where the ledger was not charged for it.
    """
    held_out = run.ledger.ledger_context.held_out
    if held_out is None:
        return ExactCounts() if run.rounder is None else RoundedCounts(run.rounder)
    if not run.ledger.report_charges:
        raise RuntimeError("the held-out people must be charged before noise is drawn for them")
    source = EntropySource() if is_secret(run.spec) else CounterSource(run.spec.seed)
    return noised_counts(held_out.release, result, source)


def noised_counts(release: CountRelease, result: FinalResult, source: Source) -> NoisedCounts:
    """The counts of a result with noise from `source`, one draw for every count."""
    draws = IntegerDraws(source, purpose=Purpose.COUNT_NOISE, round_=_REPORT)
    gaussian = release.mechanism == "gaussian"
    counts = {}
    for place, (attribute, of_clients) in enumerate(result.fairness.items()):
        bounded = _bounded(release, of_clients, source, place)
        noise = drawn_integers(draws, shape=bounded.shape, scale=release.scale, gaussian=gaussian)
        counts[attribute] = bounded + noise
    return NoisedCounts(
        counts=counts,
        deviation=release.deviation,
        tail=release.mechanism,
        max_rows=release.max_rows,
    )


def _bounded(
    release: CountRelease,
    of_clients: NDArray[np.int64],
    source: Source,
    place: int,
) -> NDArray[np.int64]:
    """Pooled counts [groups, 4], with no more rows of a unit than the noise covers."""
    match release.unit:
        case "record":
            pooled: NDArray[np.int64] = of_clients.sum(axis=0)
            return pooled
        case "client":
            words = source.words(
                purpose=Purpose.COUNTED_ROWS, round_=_REPORT, counters=place, count=_SEED_WORDS
            )
            generator = np.random.default_rng(words.tolist())
            return bounded_counts(of_clients, max_rows=release.max_rows, generator=generator)
        case _:
            assert_never(release.unit)
