"""What of a run's counts is published, in its report and rounds: as they are, rounded, or with
noise."""

from collections.abc import Mapping
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
from fedaudit.privacy.count_release import CountRelease
from fedaudit.privacy.noise.exact_integers import IntegerDraws, drawn_integers
from fedaudit.randomness import CounterSource, EntropySource, Purpose, Source
from fedaudit.reports.sections.held_out_privacy import is_secret
from fedaudit.reports.sections.noised_counts import noised_gaps
from fedaudit.runs.figures import FairnessFigures
from fedaudit.runs.run import Run
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.base.round_records import FinalResult, RoundRecord

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
    if not run.ledger.report_charged:
        raise RuntimeError("the held-out people must be charged before noise is drawn for them")
    return noised_counts(held_out.release, result.fairness, count_source(run.spec), round_=_REPORT)


def noised_round(run: Run, record: RoundRecord) -> list[FairnessFigures]:
    """The figures of each attribute in a validated round from counts with noise, which is drawn
    here: the ledger has to be charged for it before."""
    held_out = run.ledger.ledger_context.held_out
    if held_out is None:
        raise ValueError("the counts of this run have no noise")
    client_counts = record.by_client or {
        name: counts[np.newaxis] for name, counts in record.fairness.items()
    }
    noised = noised_counts(
        held_out.release, client_counts, count_source(run.spec), round_=record.round
    )
    found = []
    for attribute, counts in noised.counts.items():
        *_, figures = noised_gaps(counts, run.disclosures[attribute].rule)
        found.append(
            FairnessFigures(
                round=record.round,
                attribute=attribute,
                figures=[figure._asdict() for figure in figures],
                counts=record.fairness[attribute],
            )
        )
    return found


def count_source(spec: ExperimentSpec) -> Source:
    """What the noise of a run's counts is drawn from."""
    return EntropySource() if is_secret(spec) else CounterSource(spec.seed)


def noised_counts(
    release: CountRelease,
    client_counts: Mapping[str, NDArray[np.int64]],
    source: Source,
    *,
    round_: int,
) -> NoisedCounts:
    """Counts with noise from `source`, one draw for every count.

    `client_counts`: attribute -> [clients, groups, 4]; with the unit `record` all clients may
    be one. `round_`: whose counts they are, since each release has noise of its own.
    """
    draws = IntegerDraws(source, purpose=Purpose.COUNT_NOISE, round_=round_)
    gaussian = release.mechanism == "gaussian"
    counts = {}
    for place, (attribute, of_clients) in enumerate(client_counts.items()):
        bounded = _bounded(release, of_clients, source, place, round_=round_)
        noise = drawn_integers(draws, shape=bounded.shape, scale=release.scale, gaussian=gaussian)
        counts[attribute] = bounded + noise
    return NoisedCounts(
        counts=counts,
        deviation=release.deviation,
        tail=release.mechanism,
        max_rows=release.max_rows,
    )


def _bounded(
    release: CountRelease, of_clients: NDArray[np.int64], source: Source, place: int, *, round_: int
) -> NDArray[np.int64]:
    """Pooled counts [groups, 4], with no more rows of a unit than the noise covers."""
    match release.unit:
        case "record":
            pooled: NDArray[np.int64] = of_clients.sum(axis=0)
            return pooled
        case "client":
            words = source.words(
                purpose=Purpose.COUNTED_ROWS, round_=round_, counters=place, count=_SEED_WORDS
            )
            generator = np.random.default_rng(words.tolist())
            return bounded_counts(of_clients, max_rows=release.max_rows, generator=generator)
        case _:
            assert_never(release.unit)
