"""From the records of a block of rounds to what a sink keeps of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.runs.figures import FairnessFigures, RoundFigures
from fedaudit.runs.ledger_writer import WrittenEntry
from fedaudit.runs.publishing import noised_round
from fedaudit.runs.round_fairness import fairness_of_rounds
from fedaudit.runs.round_figures import round_figures
from fedaudit.runs.run import Run
from fedaudit.spec.fairness_agreement import publishes_noised_rounds
from fedaudit.training.base.round_records import RoundRecord


@dataclass(frozen=True)
class Block:
    """Everything that a sink keeps of some rounds of one run."""

    ledger: Sequence[WrittenEntry]
    rounds: Sequence[RoundFigures]
    fairness: Sequence[FairnessFigures]


def record_block(
    run: Run, records: Sequence[RoundRecord], *, last: bool, reported: bool = False
) -> Block:
    """What rounds that were played leave behind; moves the run's totals and chain on.

    Rounds that were charged and interrupted stand before their repeat; with the `last` block of a
    run, all that are left. `reported`: with these records the run came to its end, and its report
    is made next; the held-out people are charged for it before anything of them is published.
    """
    scored = [record.round for record in records if record.fairness]
    noised = publishes_noised_rounds(run.spec.fairness)
    fairness: list[FairnessFigures] = []
    if scored and not noised:
        shown = run.disclosures_of(scored)
        fairness = fairness_of_rounds(run.spec, shown, records, rounder=run.rounder)
    by_round: dict[int, dict[str, FairnessFigures]] = {record.round: {} for record in records}
    for one in fairness:
        by_round[one.round][one.attribute] = one
    ledger: list[WrittenEntry] = []
    rounds = []
    for record in records:
        ledger += _record_interrupted(run, up_to=record.round)
        ledger += run.ledger.record_round(record)
        if noised and record.fairness:
            ledger.append(run.ledger.record_counts(record.round, release=record.release))
            of_round = noised_round(run, record)
            by_round[record.round] = {one.attribute: one for one in of_round}
            fairness += of_round
        _follow_clusters(run, record.subjects)
        rounds.append(round_figures(run, record, by_round[record.round]))
        run.rounds_done = record.round
    if last:
        ledger += _record_interrupted(run, up_to=None)
    if reported:
        ledger += run.ledger.record_report()
    return Block(ledger, rounds, fairness)


def _record_interrupted(run: Run, *, up_to: int | None) -> list[WrittenEntry]:
    """The entries of interrupted rounds; those above `up_to` are left for later."""
    written: list[WrittenEntry] = []
    waiting = run.interrupted_rounds
    while waiting and (up_to is None or waiting[0].round <= up_to):
        charged = waiting.pop(0)
        written += run.ledger.record_interrupted(charged)
        _follow_clusters(run, charged.subjects)
    return written


def _follow_clusters(run: Run, subjects: NDArray[np.int32]) -> None:
    """Moves the leakage of each cluster on to where the ledger stands."""
    ledger = run.ledger
    if run.by_cluster is not None:
        run.by_cluster.move(
            subjects,
            clusters=ledger.clusters[subjects],
            releases=ledger.spending.releases[subjects],
        )
