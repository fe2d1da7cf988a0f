"""The ledger of one experiment while it is being written: totals, chain and newest clusters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Ints, Ints16, Ints32, Turns
from fedaudit.ledger.columns import EntryColumns
from fedaudit.ledger.encoding import EntryEncoder, LedgerHash, genesis, links_of
from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.ledger.rows import SUBJECT_KINDS, Outcome, charges_report
from fedaudit.privacy.accounting.privacy_events import REPORT, MechanismParameters, Observer
from fedaudit.privacy.leakage import median_and_most
from fedaudit.stored import Key, LedgerRow
from fedaudit.training.base.rounds import PlannedRound, RoundColumns

_RELEASED, _REFUSED, _WITHHELD = (
    int(one) for one in (Outcome.RELEASED, Outcome.REFUSED, Outcome.WITHHELD)
)


class Spending:
    """The running totals of one experiment against one observer.

    Beside the totals it keeps how many of the subjects that train were charged how often, so that a
    round's median and maximum cost no pass over all of them.
    """

    def __init__(self, releases: Ints32, *, training: Ints32) -> None:
        """`releases`: [subjects], those that never train included; `training`: indices of
        those that do."""
        self.releases = np.array(releases, dtype=np.int32)
        self.refusals = self.withheld = 0
        self.refused = np.zeros(len(self.releases), dtype=np.int32)
        """How often each subject was refused: [subjects], as far as rounds were counted in."""
        self._clients_with = np.bincount(self.releases[training], minlength=1)

    def count_rounds(
        self, subjects: Ints32, outcomes: NDArray[np.uint8]
    ) -> tuple[Ints32, Ints, Floats]:
        """Count consecutive rounds in: [rounds, subjects], each subject once a round. Returns where
        the totals stand after each: releases of the rounds' own subjects, [rounds, subjects], and
        the most and the median releases over those that train, [rounds]; halfway between two in the
        middle."""
        released = outcomes == _RELEASED
        self.refusals += int(np.count_nonzero(outcomes == _REFUSED))
        self.withheld += int(np.count_nonzero(outcomes == _WITHHELD))
        self.count_refused(subjects, outcomes)
        counted = Turns(subjects.ravel()).count(self.releases, released.ravel())
        after = counted.astype(np.int32).reshape(subjects.shape)
        # For each round, how many subjects have so many releases: [rounds, releases].
        sizes = max(len(self._clients_with), int(after.max(initial=0)) + 1)
        of_round = np.nonzero(released)[0] * sizes
        moved = np.bincount(of_round + after[released], minlength=len(subjects) * sizes)
        moved -= np.bincount(of_round + after[released] - 1, minlength=len(subjects) * sizes)
        history = moved.reshape(len(subjects), sizes)
        history[0, : len(self._clients_with)] += self._clients_with
        history = history.cumsum(axis=0)
        self._clients_with = history[-1]
        _, median, most = median_and_most(history)
        return after, most, median

    def count_refused(self, subjects: Ints32, outcomes: NDArray[np.integer]) -> None:
        """Count in whom rounds refused whose totals are counted already."""
        np.add.at(self.refused, subjects[outcomes == _REFUSED], 1)


@dataclass(frozen=True, eq=False)
class RecordedRounds:
    """The entries of rounds, and the totals after each of them."""

    written: Sequence[LedgerRow]
    """An entry against each observer, round by round, in their places in the hash chain."""
    most: Ints
    """[rounds]: the most releases of any subject, against any observer."""
    median: Floats
    """[rounds]: median releases of those that train, against the first observer."""
    releases: Ints32
    """[rounds, subjects]: of the round's subjects, against the first observer."""
    clusters: Ints16
    """[rounds, subjects]: where each one's newest upload went, -1 for nowhere."""


@dataclass(kw_only=True, eq=False)
class LedgerWriter:
    """Turns rounds into ledger entries, in the order of (round, release, observer)."""

    ledger_context: LedgerContext
    spendings: Sequence[Spending]
    """Against each of the context's observers."""
    head: bytes
    """The link of the newest entry, or the experiment's genesis."""
    salt: bytes | None = None
    """That digests are keyed with, if they are."""
    entries: int = 0
    last_round: int = 0
    """That of the newest entry, 0 without any."""
    report_charged: bool = False
    """Whether the held-out people were charged for the report."""

    def __post_init__(self) -> None:
        self.clusters = np.full(len(self.ledger_context.subjects), -1, dtype=np.int16)
        """The cluster of each client's newest upload, -1 for none."""
        self._encoder = EntryEncoder(self.ledger_context.subjects, salt=self.salt)
        self._hash = LedgerHash()

    @classmethod
    def from_beginning(
        cls,
        ledger_context: LedgerContext,
        *,
        experiment_id: str,
        training: Ints32,
        salt: bytes | None = None,
    ) -> "LedgerWriter":
        """An empty ledger. `training`: indices of the subjects that train. `salt`: as above."""
        none = np.zeros(len(ledger_context.subjects), dtype=np.int32)
        spendings = [Spending(none, training=training) for _ in ledger_context.observers]
        return cls(
            ledger_context=ledger_context,
            spendings=spendings,
            head=genesis(experiment_id),
            salt=salt,
        )

    @property
    def inputs(self) -> MechanismParameters:
        """The mechanism of every entry."""
        return self.ledger_context.inputs

    @property
    def spending(self) -> Spending:
        """Spending against the first observer: all who take part are charged against it."""
        return self.spendings[0]

    @property
    def ledger_hash(self) -> str:
        """The hash of all entries, in hexadecimal; those that were stored before are read again."""
        return self._hash.hexdigest()

    @property
    def totals(self) -> Ints32:
        """The releases of all subjects, observer after observer: [observers * subjects]."""
        return np.concatenate([spending.releases for spending in self.spendings])

    @property
    def compositions(self) -> Mapping[Observer, Ints32]:
        """How often each subject was charged against each observer: [subjects]."""
        releases = (spending.releases for spending in self.spendings)
        return dict(zip(self.ledger_context.observers, releases, strict=True))

    def largest_epsilon(self, most: int) -> float | None:
        """The largest epsilon that any subject can have spent, whose most releases are `most`; None
        without an epsilon.

        Every round counts against every observer: how often the busiest client really took part
        would disclose, round by round, when it was drawn.
        """
        plan = self.ledger_context.plan
        if plan is None:
            return None
        return max(plan.largest(observer, most) for observer in self.ledger_context.observers)

    def largest_charges(self, rounds: Sequence[PlannedRound]) -> list[int]:
        """The releases of the subject that has most, against each observer, after more rounds.

        In the worst case: each of the rounds charges its subjects against every observer.
        """
        charged = np.stack([spending.releases for spending in self.spendings])
        for planned in rounds:
            charged[:, planned.subjects] += 1
        most: list[int] = charged.max(axis=1).tolist()
        return most

    def record_rounds(self, played: RoundColumns) -> RecordedRounds:
        """The entries of rounds, one against each observer; moves totals and chain on.

        Raises ValueError for more than one round where not everybody is charged for all of them.
        """
        return self._record(
            played.round.tolist(),
            played.release.tolist(),
            played.subjects,
            outcomes=played.outcomes,
            radii=played.radii,
            clusters=played.clusters,
            compositions=played.compositions,
        )

    def record_interrupted(self, charged: PlannedRound) -> RecordedRounds:
        """The entries of a round whose noise may have left the process and whose results are lost.

        Everyone who was to take part in it is charged.
        """
        shape = (1, len(charged.subjects))
        return self._record(
            [charged.round],
            [charged.release],
            charged.subjects[np.newaxis],
            outcomes=np.full(shape, Outcome.RELEASED, dtype=np.uint8),
            radii=np.full((1, *self.inputs.radii_shape(shape[1])), np.nan),
            clusters=np.full(shape, -1, dtype=np.int16),
            compositions={},
            interrupted=True,
        )

    def record_report(self) -> list[LedgerRow]:
        """The entry that charges the held-out people for the report, behind the last round.

        Empty where their counts get no noise, or where it was written before: the noise that was
        drawn then was never published.
        """
        held_out = self.ledger_context.held_out
        if held_out is None or self.report_charged:
            return []
        self.report_charged = True
        kind = SUBJECT_KINDS[held_out.release.unit]
        entry = EntryColumns(
            inputs=held_out.inputs,
            subject_kind=kind,
            keys=[Key(self.last_round + 1, 0, kind, REPORT)],
            interrupted=[False],
            sizes=np.ones(1, dtype=np.int64),
            subjects=np.zeros(1, dtype=np.int32),
            outcomes=np.array([Outcome.RELEASED], dtype=np.uint8),
            radii=np.full(1, np.nan),
            releases=np.ones(1, dtype=np.int32),
            clusters=np.full(1, -1, dtype=np.int16),
            epsilons=np.array([held_out.release.epsilon(1)]),
        )
        return self._chained(entry)

    def read_again(self, row: LedgerRow) -> None:
        """Take from a stored row, which the totals have in, what they do not say."""
        self._hash.add(row.keyed_digest)
        if charges_report(row.observer):
            return
        self.place_uploads(row.subjects, row.outcomes, row.clusters)
        if row.observer == self.ledger_context.observers[0]:
            self.spending.count_refused(row.subjects, row.outcomes)

    def place_uploads(
        self, subjects: Ints32, outcomes: NDArray[np.integer], clusters: Ints16
    ) -> Ints16:
        """Note which cluster each upload went into, of one shape and in the order of time; returns
        where each one's newest upload is then, -1 for nowhere."""
        placed = (outcomes == _RELEASED) & (clusters >= 0)
        turns = Turns(subjects.ravel())
        _, newest = turns.renew(self.clusters, clusters.ravel(), placed.ravel())
        return newest.reshape(subjects.shape)

    def check_totals(self, counted: Ints32) -> None:
        """Compare with what training has counted by itself: [subjects].

        Raises RuntimeError where the two differ.
        """
        if not np.array_equal(counted, self.spending.releases):
            raise RuntimeError("the ledger's totals differ from what training has released")

    def _record(
        self,
        rounds: Sequence[int],
        releases: Sequence[int],
        subjects: Ints32,
        *,
        outcomes: NDArray[np.uint8],
        radii: Floats,
        clusters: Ints16,
        compositions: Mapping[Observer, Ints32],
        interrupted: bool = False,
    ) -> RecordedRounds:
        """`compositions`: where subjects are not charged against every observer in every round,
        how often each of them has been by now."""
        if compositions and len(rounds) > 1:
            raise ValueError("rounds that do not charge everybody are recorded one by one")
        newest = self.place_uploads(subjects, outcomes, clusters)
        largest, medians, parts = list[Ints](), list[Floats](), list[dict[str, Any]]()
        context = self.ledger_context
        for observer, spending in zip(context.observers, self.spendings, strict=True):
            paying: Bools | slice = slice(None)
            if observer in compositions:
                [charged], [who] = compositions[observer], subjects
                paying = charged > spending.releases[who]
            whom, found = subjects[:, paying], outcomes[:, paying]
            counts, most, median = spending.count_rounds(whom, found)
            largest.append(most)
            medians.append(median)
            parts.append(
                {
                    "subjects": whom,
                    "outcomes": found,
                    "radii": radii[:, paying],
                    "releases": counts,
                    "clusters": clusters[:, paying],
                    "epsilons": context.epsilons(observer, whom, counts),
                }
            )
        columns: dict[str, Any] = {
            # Round by round, and in each observer by observer.
            name: None
            if values is None
            else np.hstack([part[name] for part in parts]).reshape(-1, *values.shape[2:])
            for name, values in parts[0].items()
        }
        entries = EntryColumns(
            inputs=context.inputs,
            subject_kind=context.subject_kind,
            keys=[
                Key(*round_, context.subject_kind, observer)
                for round_ in zip(rounds, releases, strict=True)
                for observer in context.observers
            ],
            interrupted=[interrupted] * (len(rounds) * len(parts)),
            sizes=np.tile([part["subjects"].shape[1] for part in parts], len(rounds)),
            **columns,
        )
        return RecordedRounds(
            written=self._chained(entries),
            most=np.max(largest, axis=0),
            median=medians[0],
            releases=self.spending.releases[subjects] if compositions else parts[0]["releases"],
            clusters=newest,
        )

    def _chained(self, entries: EntryColumns) -> list[LedgerRow]:
        digests = self._encoder.digests(entries)
        links = links_of(entries, digests, before=self.head)
        self.head = links[-1]
        for key, digest in zip(entries.keys, digests, strict=True):
            self._hash.add((*key, digest))
        self.entries += len(entries)
        self.last_round = entries.keys[-1].round
        return list(entries.rows(digests, links))
