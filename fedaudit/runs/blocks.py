"""From the columns of a block of rounds to what a sink keeps of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.leakage import ClusterLeakage
from fedaudit.runs.figures import FairnessFigures, RoundFigures
from fedaudit.runs.ledger_writer import RecordedRounds, WrittenEntry
from fedaudit.runs.publishing import noised_round
from fedaudit.runs.round_fairness import fairness_of_rounds
from fedaudit.runs.round_figures import figures_of_rounds
from fedaudit.runs.run import Run
from fedaudit.spec.fairness_agreement import publishes_noised_rounds
from fedaudit.training.base.round_records import PlayedRounds, RoundColumns

_TOGETHER = 64
"""Rounds that are worked out at a time, which bounds the memory."""


@dataclass(frozen=True)
class Block:
    """Everything that a sink keeps of some rounds of one run."""

    ledger: Sequence[WrittenEntry]
    rounds: Sequence[RoundFigures]
    fairness: Sequence[FairnessFigures]


def record_block(run: Run, played: PlayedRounds, *, last: bool, reported: bool = False) -> Block:
    """What rounds that were played leave behind; moves the run's totals and chain on.

    Rounds that were charged and interrupted stand before their repeat; with the `last` block of a
    run, all that are left. `reported`: with these rounds the run came to its end, and its report
    is made next; the held-out people are charged for it before anything of them is published.
    """
    ledger: list[WrittenEntry] = []
    rounds: list[RoundFigures] = []
    fairness: list[FairnessFigures] = []
    for part in _parts(run, played):
        ledger += _record_interrupted(run, up_to=int(part.round[0]))
        recorded = run.ledger.record_rounds(part)
        for of_round in recorded.written:
            ledger += of_round
        if publishes_noised_rounds(run.spec.fairness):
            found, entries = _noised(run, part)
            ledger += entries
        else:
            found = _exact(run, part)
        fairness += found
        rounds += figures_of_rounds(
            run, part, recorded, found, by_cluster=_follow_clusters(run, part.subjects, recorded)
        )
        run.rounds_done = int(part.round[-1])
    if last:
        ledger += _record_interrupted(run, up_to=None)
    if reported:
        ledger += run.ledger.record_report()
    return Block(ledger, rounds, fairness)


def _parts(run: Run, played: PlayedRounds) -> Iterator[RoundColumns]:
    """The rounds in parts within which nothing else is charged, and everybody for every round."""
    for span in played.spans:
        apart = bool(span.compositions) or publishes_noised_rounds(run.spec.fairness)
        begin = 0
        while begin < len(span):
            end = min(begin + (1 if apart else _TOGETHER), len(span))
            lost = [one.round for one in run.interrupted_rounds if one.round > span.round[begin]]
            if lost:
                end = min(end, int(np.searchsorted(span.round, lost[0])))
            yield span.part(begin, end)
            begin = end


def _exact(run: Run, part: RoundColumns) -> list[FairnessFigures]:
    validated = part.validated
    if not part.counts or not len(validated):
        return []
    shown = run.disclosures_of(part.round[validated].tolist())
    return fairness_of_rounds(run.spec, shown, part, rounder=run.rounder)


def _noised(run: Run, part: RoundColumns) -> tuple[list[FairnessFigures], list[WrittenEntry]]:
    """The figures of one round, by counts with noise, and the entry that charges for these."""
    record = part.record(0)
    if not record.fairness:
        return [], []
    charged = run.ledger.record_counts(record.round, release=record.release)
    return noised_round(run, record), [charged]


def _record_interrupted(run: Run, *, up_to: int | None) -> list[WrittenEntry]:
    """The entries of interrupted rounds; those above `up_to` are left for later."""
    written: list[WrittenEntry] = []
    waiting = run.interrupted_rounds
    while waiting and (up_to is None or waiting[0].round <= up_to):
        charged = waiting.pop(0)
        recorded = run.ledger.record_interrupted(charged)
        written += recorded.written[0]
        _follow_clusters(run, charged.subjects[np.newaxis], recorded)
    return written


def _follow_clusters(
    run: Run, subjects: NDArray[np.int32], recorded: RecordedRounds
) -> list[list[ClusterLeakage]] | None:
    """The leakage of each cluster after each of the rounds; None where the cost is no leakage."""
    if run.by_cluster is None:
        return None
    return run.by_cluster.follow(
        subjects,
        clusters=recorded.clusters,
        releases=recorded.releases,
        price=run.ledger.inputs.leakage,
    )
