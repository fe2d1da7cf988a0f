"""What reports are assembled from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike

from fedaudit.arrays import Floats, Floats32, Ints16, Ints32
from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.noised_counts import ExactCounts, PublishedCounts
from fedaudit.privacy.accounting.privacy_events import MechanismParameters, Observer
from fedaudit.privacy.planning.plan import SpendingPlan
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
    """How many of these rows `fairness.exclude` leaves out and do not train either; of an audit, all
    that it does not count. Confidential."""
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
