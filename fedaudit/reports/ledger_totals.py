"""What the entries of a ledger add up to, and what the report of a run is verified against."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedaudit.arrays import Floats, Ints
from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.columns import EntryColumns, misfits
from fedaudit.ledger.rows import Outcome
from fedaudit.privacy.accounting.privacy_events import MechanismParameters
from fedaudit.reports.checks import value_at
from fedaudit.spec.experiment import ExperimentSpec


@dataclass(frozen=True, kw_only=True)
class RunEvidence:
    """The report of a run, with what verification has read of everything else."""

    evidence: Evidence
    report: Mapping[str, Any]
    audit: LedgerAudit
    totals: "LedgerTotals"
    spec: ExperimentSpec | None
    """None where the stored spec cannot be read."""

    @property
    def parameters(self) -> int | None:
        """How many parameters the report says the model has."""
        found = value_at(self.report, "data", "parameters")
        return found if type(found) is int else None


class LedgerTotals:
    """Totals over entries, counted from outcomes alone and not from the running columns."""

    def __init__(self, subjects: int, *, best_round: int = 0) -> None:
        """`best_round`: the round whose radii are kept, 0 for no round."""
        self._subjects = subjects
        self._best_round = best_round
        self.releases = np.zeros(subjects, dtype=np.int32)
        self.clusters = np.full(subjects, -1, dtype=np.int16)
        """The cluster of each subject's newest upload, -1 for none."""
        self.refusals = 0
        self.withheld = 0
        self.inputs: set[MechanismParameters] = set()
        self.misfits = 0
        """Entries whose radii do not match their mechanism."""
        self.rounds: set[int] = set()
        """Rounds with an entry whose results were stored."""
        self.compositions: dict[str, Ints] = {}
        """The largest running count of each subject, by observer: its compositions against that
        observer."""
        self.best_radii: Floats | None = None
        """[releases, parts] of the best round, None without one."""

    def add(self, entries: EntryColumns) -> None:
        """Count entries in; their subjects must lie within the range, each once in an entry."""
        if entries.charge_report:
            return  # counted by `report_charges`
        released, subjects = entries.released, entries.subjects
        every = bool(released.all())
        uploaded = subjects if every else subjects[released]
        self.releases += np.bincount(uploaded, minlength=self._subjects).astype(np.int32)
        placed = released & (entries.clusters >= 0)
        # Of a subject that is there several times the last is kept, as the newest.
        self.clusters[subjects[placed]] = entries.clusters[placed]
        if not every:
            self.refusals += int(np.count_nonzero(entries.outcomes == Outcome.REFUSED))
            self.withheld += int(np.count_nonzero(entries.outcomes == Outcome.WITHHELD))
        self.inputs.add(entries.inputs)
        self.misfits += len(misfits(entries))
        for observer, charged in entries.by_observer():
            if observer not in self.compositions:
                self.compositions[observer] = np.zeros(self._subjects, dtype=np.int64)
            found, counts = self.compositions[observer], entries.releases[charged]
            np.maximum.at(found, entries.subjects[charged], counts.astype(np.int64))
        for (round_, *_), interrupted, span in zip(
            entries.keys, entries.interrupted, entries.spans, strict=True
        ):
            if interrupted:
                continue
            self.rounds.add(round_)
            if round_ == self._best_round:
                released, radii = entries.released[span], entries.radii[span]
                by_part = radii.reshape(len(released), len(entries.inputs.noised_sizes))
                self.best_radii = by_part[released]
