"""What reports are assembled from, and what the report of a run is verified against."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedaudit.arrays import Floats, Floats32, Ints, Ints16, Ints32
from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.noised_counts import ExactCounts, PublishedCounts
from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.columns import EntryColumns, misfits
from fedaudit.ledger.rows import Outcome
from fedaudit.privacy.accounting.privacy_events import MechanismParameters, Observer
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.reports.checks import value_at
from fedaudit.reports.sections.attacks import AttackSection
from fedaudit.reports.sections.other_runs import ModelSection, RepeatsSection, SweepSection
from fedaudit.spec.disclosure import DisclosurePolicy
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.training import StoppedBy
from fedaudit.utility import ScoredFigures

Progressed = Callable[[], None]
"""Called between the parts of a report. What it raises ends the report."""


def unfollowed() -> None:
    """Do nothing, for reports without a follower."""


@dataclass(frozen=True)
class FederationFacts:
    """Facts about the data."""

    fingerprint: str
    """SHA-256 of the raw data, in hexadecimal."""
    clients: int
    training_clients: int
    rows: int
    not_counted: int = 0
    """How many of these rows `fairness.exclude` leaves out and do not train either, or an audit
    does not count. Confidential."""
    dropped: int = 0
    """How many more rows the data have, which loading left out."""
    notes: tuple[str, ...] = ()
    positive_class: str | None = None
    """The class of a two-class target that is favourable without a rule."""
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values of each sensitive attribute, in the order of the counts."""


@dataclass(frozen=True, kw_only=True)
class FinalFigures(ScoredFigures):
    """The results of training, for the best hypotheses."""

    stopped_by: StoppedBy


@dataclass(frozen=True)
class ModelFile:
    """The file with the trained hypotheses."""

    data: bytes = field(repr=False)
    section: ModelSection
    layout: Mapping[str, Any] = field(repr=False)
    """What goes in and what comes out (`fedaudit.runs.report_material`). Confidential."""


@dataclass(frozen=True, kw_only=True)
class ScoredMaterial:
    """What fairness and utility are computed from, whatever made the predictions."""

    spec: ExperimentSpec
    federation: FederationFacts
    result: FinalFigures
    disclosures: Mapping[str, Disclosure] = field(default_factory=dict)
    """Which groups are disclosed, for every attribute that the result has counts of."""
    progressed: Progressed = unfollowed
    published: PublishedCounts = field(default_factory=ExactCounts)
    chosen_by_losses: bool = True
    """Whether losses of held-out people chose the round (`Cell.chooses_by_losses`)."""
    everybody_withheld: str | None = None
    """Why no figure of all who are scored is shown; None where it may be."""


@dataclass(frozen=True, kw_only=True)
class ReportMaterial(ScoredMaterial):
    """Everything that `assemble` needs."""

    experiment_id: str
    name: str
    status: str
    sweep: SweepSection | None = None
    """The sweep that it is a cell of; None where there is none."""
    repeats: RepeatsSection | None = None
    """The figures over other seeds; None where it was not repeated."""
    inputs: MechanismParameters
    """The mechanism, as in every entry of the run's ledger."""
    releases: Ints32
    """How often each of the ledger's subjects released something: [subjects]. The subjects are
    clients, except for mechanisms whose plan has others."""
    refusals: int
    withheld: int
    ledger_hash: str
    chain_head: str
    entries: int
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """code_version, libraries, device, backend, started_at, finished_at; times in ISO 8601."""
    clusters: Ints16 | None = None
    """[clients]: the cluster of each client's last upload, -1 for none; None where unknown."""
    plan: SpendingPlan | None = None
    """The plan of mechanisms whose cost is an epsilon with a delta; None for the others."""
    compositions: Mapping[Observer, ArrayLike] = field(default_factory=dict)
    """The compositions against each observer of the plan: one number for all of the ledger's
    subjects, or one each, [subjects]."""
    hypotheses: Floats32 | None = None
    """[k, n], the best hypotheses."""
    radii: Floats | None = None
    """[releases, parts] of the best round, for an adaptive radius; None without one."""
    model: ModelFile | str = "the run's model was not handed over"
    """Or the reason why it may not leave."""
    refused: Ints32 | None = None
    """How often each of the ledger's subjects was refused: [subjects]; None where unknown."""
    disclosure_policy: DisclosurePolicy | None = None
    """The policy of the federation when the experiment was admitted, empty where its owner had set
    none; None where no service admitted the experiment, or where it is unknown."""
    attacks: Sequence[AttackSection] = ()
    """The results of the attacks of the spec, in their order."""
    report_charges: int = 0
    """How often the ledger charges the held-out people for counts with noise."""
    clients: Mapping[str, Any] | None = None
    """What each client paid and how good the model is for it (`fedaudit.reports.clients`).
    Confidential, beside the report; None where the run does not have it."""
    key_id: str | None = None
    """The key that will sign the report; None where it will not be signed."""


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
