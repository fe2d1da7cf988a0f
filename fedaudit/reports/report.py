"""The report of a run, version 1: its shape, how it is assembled, and its schema.

A figure that is None has its reason beside it: in the `reasons` map of the same object under the
field's name, or in `reason` where the object holds one figure.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, assert_never

from fedaudit.privacy.guarantees.guarantee import start_limit
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.canonical_json import canonical_json
from fedaudit.reports.gates.gate_evaluation import evaluate, overall
from fedaudit.reports.report_progress import Progressed, unfollowed
from fedaudit.reports.sections.attacks import ReportedAttack, attack_limits
from fedaudit.reports.sections.fairness import FairnessSection
from fedaudit.reports.sections.guarantee import (
    SIMULATED,
    GuaranteeSection,
    epsilon_limits,
    floating_point_limits,
    guarantee_of,
    withheld_updates,
)
from fedaudit.reports.sections.held_out_privacy import (
    NO_NOISE,
    FairnessPrivacy,
    fairness_privacy,
    noised_limits,
)
from fedaudit.reports.sections.integrity import Integrity
from fedaudit.reports.sections.material import ReportMaterial
from fedaudit.reports.sections.model import ModelSection
from fedaudit.reports.sections.other_runs import RepeatsSection, SweepSection
from fedaudit.reports.sections.outcome_words import with_words
from fedaudit.reports.sections.parameter_plot import Plane
from fedaudit.reports.sections.part import GateOutcome, Part, VerdictParts
from fedaudit.reports.sections.privacy import Privacy, privacy_section
from fedaudit.reports.sections.provenance import Data, Experiment, Provenance, disclosure_limits
from fedaudit.reports.sections.published_fairness import fairness_sections
from fedaudit.reports.sections.utility import Utility, method_limits, utility_section
from fedaudit.reports.verdict.verdict import verdict, verdict_parts
from fedaudit.spec.canonical import spec_hash
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.training import StoppedBy

REPORT_VERSION = 1


class GateSection(Part):
    """One condition and whether it holds."""

    figure: str
    attribute: str | None
    """The one that the gate names; of a gate on each of several, the one that decides."""
    op: Literal["le", "ge"]
    bound: float
    value: float | None
    outcome: GateOutcome
    reason: str


class Report(Part):
    """The audit report of one experiment."""

    report_version: Literal[1] = 1
    experiment: Experiment
    verdict: str
    """The four parts below, one after the other; of earlier reports one text."""
    verdict_parts: VerdictParts | None = None
    """None in reports of earlier versions."""
    guarantee: GuaranteeSection
    privacy: Privacy
    utility: Utility
    fairness: list[FairnessSection]
    fairness_privacy: FairnessPrivacy | None = None
    fairness_privacy_reason: str | None = None
    attacks: list[ReportedAttack]
    """What was tried against the run, in the order of the spec."""
    model: ModelSection | None = None
    model_reason: str | None = None
    gates: list[GateSection]
    gate_outcome: GateOutcome | None
    """The worst of the gates; None where the spec has none."""
    plane: Plane | None = None
    plane_reason: str | None = None
    sweep: SweepSection | None = None
    sweep_reason: str | None = None
    repeats: RepeatsSection | None = None
    repeats_reason: str | None = None
    data: Data
    spec: dict[str, Any]
    """The spec with every default explicit: the provenance's spec_hash is taken over it."""
    provenance: Provenance
    limits: list[str]
    """What this report does not show."""
    integrity: Integrity


def schema() -> dict[str, Any]:
    """The report's JSON schema."""
    return Report.model_json_schema(mode="serialization")


_NO_SWEEP = "the run is a cell of no sweep"
_NO_REPEATS = "the run has one seed; give `repeats` for the spread over several"
_UNSIGNED = "the report is not signed"
_PROVENANCE = ("code_version", "libraries", "device", "backend", "started_at", "finished_at")


def assemble(material: ReportMaterial, *, progressed: Progressed = unfollowed) -> dict[str, Any]:
    """Build the report (version 1) as JSON-able values, without NaN or infinities.

    `progressed` is called between its parts. Raises KeyError where the material lacks a sensitive
    attribute of the spec.
    """
    spec = material.spec
    utility = utility_section(material)
    progressed()
    fairness = fairness_sections(material, progressed=progressed)
    sections: dict[str, Any] = {
        "report_version": 1,
        "experiment": _experiment(material).model_dump(),
        "guarantee": _guarantee(material).model_dump(),
        "privacy": privacy_section(material).model_dump(),
        "utility": utility.model_dump(),
        "fairness": [section.model_dump() for section in fairness],
        **_fairness_privacy(material),
        "attacks": [attack.model_dump(mode="json") for attack in material.attacks],
        **_model(material),
        **_plane(material),
        **_beside(material),
        "data": _data(material).model_dump(),
        "spec": spec.model_dump(mode="json"),
        "provenance": _provenance(material).model_dump(),
        "limits": limits(material),
        "integrity": _integrity(material).model_dump(),
    }
    sections["fairness"] = with_words(sections)
    sections["gates"] = evaluate(spec.gates, sections)
    sections["gate_outcome"] = overall(sections["gates"])
    parts = verdict_parts(sections)
    sections |= {"verdict": verdict(parts), "verdict_parts": parts.model_dump()}
    document: dict[str, Any] = Report.model_validate(sections).model_dump(mode="json")
    return document


def report_hash(document: Mapping[str, Any]) -> str:
    """SHA-256, in hexadecimal, of the document's canonical JSON (RFC 8785)."""
    return hashlib.sha256(canonical_json(dict(document))).hexdigest()


def _experiment(material: ReportMaterial) -> Experiment:
    return Experiment(
        id=material.experiment_id,
        name=material.name,
        spec_hash=spec_hash(material.spec),
        status=material.status,
    )


def _guarantee(material: ReportMaterial) -> GuaranteeSection:
    found = guarantee_of(material)
    return GuaranteeSection(
        kind=found.kind,
        label=found.label,
        in_force=found.in_force,
        conditions=dict(found.conditions),
        mechanism=found.mechanism,
        unit=found.unit,
        adjacency=found.adjacency,
        delta=found.delta,
        observers=list(found.observers),
        statement=found.statement,
        reasons=found.reasons,
    )


def _fairness_privacy(material: ReportMaterial) -> dict[str, Any]:
    found = fairness_privacy(material.spec, releases=material.report_charges)
    if found is None:
        return {"fairness_privacy": None, "fairness_privacy_reason": NO_NOISE}
    return {"fairness_privacy": found.model_dump(), "fairness_privacy_reason": None}


def _model(material: ReportMaterial) -> dict[str, Any]:
    if isinstance(material.model, str):
        return {"model": None, "model_reason": material.model}
    return {"model": material.model.section.model_dump(), "model_reason": None}


def _plane(material: ReportMaterial) -> dict[str, Any]:
    if isinstance(material.plane, str):
        return {"plane": None, "plane_reason": material.plane}
    return {"plane": material.plane.model_dump(), "plane_reason": None}


def _beside(material: ReportMaterial) -> dict[str, Any]:
    """What is said of other runs: the cells of its sweep, and other seeds."""
    sweep, repeats = material.sweep, material.repeats
    return {
        "sweep": None if sweep is None else sweep.model_dump(),
        "sweep_reason": _NO_SWEEP if sweep is None else None,
        "repeats": None if repeats is None else repeats.model_dump(),
        "repeats_reason": _NO_REPEATS if repeats is None else None,
    }


def _data(material: ReportMaterial) -> Data:
    facts = material.federation
    return Data(
        source=material.spec.federation.source,
        clients=facts.clients,
        training_clients=facts.training_clients,
        validation_clients=facts.clients - facts.training_clients,
        rows=facts.rows,
        parameters=material.inputs.n,
        positive_class=facts.positive_class,
        # A note may count rows, held-out ones among them.
        notes=[] if _protects_held_out(material) else list(facts.notes),
    )


def _protects_held_out(material: ReportMaterial) -> bool:
    """Whether nothing but counts with noise may be published of the held-out people."""
    return material.spec.fairness.noise is not None


def _provenance(material: ReportMaterial) -> Provenance:
    known = {name: material.provenance.get(name) for name in _PROVENANCE}
    return Provenance(
        spec_hash=spec_hash(material.spec),
        data_fingerprint=material.federation.fingerprint,
        seed=material.spec.seed,
        reasons={name: "was not recorded" for name, value in known.items() if value is None},
        **known,
    )


def _integrity(material: ReportMaterial) -> Integrity:
    """Without the signature, which `sign_report` adds."""
    missing = ("signature", "key_id") if material.key_id is None else ("signature",)
    return Integrity(
        ledger_hash=material.ledger_hash,
        chain_head=material.chain_head,
        entries=material.entries,
        signature=None,
        key_id=material.key_id,
        reasons=dict.fromkeys(missing, _UNSIGNED),
    )


_LIMIT_UNSIGNED = (
    "The report is not signed. Its hash chain shows changed or missing entries, but not that the "
    "newest ones were cut off, unless the chain's head is kept elsewhere."
)
_APART = (
    "Budgets of this service are kept for each project apart: what another project spends on the "
    "same data is in none of this one's figures."
)
_FOUND_CLASSES = (
    "Which classes there are was found in the data and is taken as known: a record of a class that "
    "no other one has would change the size of the model, which no figure covers."
)
_SIGNED = (
    "The signature shows that whoever held the key stated this, and that nothing was changed "
    "since. It does not show that what was stated is true, nor when."
)


def limits(material: ReportMaterial) -> list[str]:
    """The sentences that apply to this run, privacy first."""
    start = start_limit(material.spec.model.start)
    return [
        *([] if start is None else [start]),
        *_limit_mechanism(material),
        *_limit_data(material),
        *_limit_held_out(material),
        *disclosure_limits(material.disclosure_policy, material.spec),
        *_limit_training(material),
        *attack_limits(material.attacks, repeats=material.spec.repeats),
        _limit_run(material),
        *([_APART] if material.budgets_apart else []),
        _LIMIT_UNSIGNED if material.key_id is None else _SIGNED,
    ]


def _limit_run(material: ReportMaterial) -> str:
    others = "what other experiments spent on the same data is kept in the federation's budget."
    if material.spec.repeats == 1:
        return f"The figures are of one run with one seed, and of this run alone: {others}"
    return (
        f"But for those over seeds, the figures are of the run with seed {material.spec.seed} "
        f"alone: {others}"
    )


def _limit_mechanism(material: ReportMaterial) -> list[str]:
    cost_kind = material.inputs.cost_kind
    match cost_kind:
        case "epsilon":
            if material.plan is None:
                raise ValueError("a report of an epsilon needs the spending plan of its run")
            return epsilon_limits(material, material.plan)
        case "leakage":
            return _limit_leakage(material)
        case "unbounded":
            return mechanism_of(material.spec).limits()
        case _:
            assert_never(cost_kind)


def _limit_leakage(material: ReportMaterial) -> list[str]:
    found = [
        "Leakage is metric privacy: a cost within a distance. It is not the epsilon of "
        "(epsilon, delta)-differential privacy and must not be compared with it or added to it."
    ]
    if material.inputs.noise == "simulation":
        found.append(SIMULATED)
    found += mechanism_of(material.spec).limits()
    return [*found, *floating_point_limits(material), *withheld_updates(material)]


def _limit_data(material: ReportMaterial) -> list[str]:
    return [
        "The numbers of clients and rows and a hash of the data are disclosed without noise: "
        "anyone who guesses the whole data set can confirm the guess.",
        *material.spec.federation.traits.data_limits,
        *([_FOUND_CLASSES] if _finds_classes(material.spec) else []),
    ]


def _finds_classes(spec: ExperimentSpec) -> bool:
    return spec.classifies and spec.federation.traits.finds_classes


def _limit_held_out(material: ReportMaterial) -> list[str]:
    if material.spec.fairness.noise is not None:
        return noised_limits(material.spec)
    return [*_limit_validation(material), *_limit_fairness(material)]


def _limit_validation(material: ReportMaterial) -> list[str]:
    by_record = material.spec.federation.holds_out_rows
    rows, who = (
        ("the rows held out of every client", "held-out rows")
        if by_record
        else ("the real rows of the validation clients", "validation clients")
    )
    return [
        f"Validation losses, early stopping and fairness figures use {rows}, without noise or "
        "guarantee.",
        f"The {who} that decided when to stop also give the final figures, which are therefore "
        "somewhat optimistic; selection_loss, the smallest loss over hypotheses, is for stopping "
        "only.",
    ]


def _limit_fairness(material: ReportMaterial) -> list[str]:
    fairness = material.spec.fairness
    if not fairness.sensitive:
        return ["No sensitive attribute was named: nothing here says how groups fare."]
    found = [
        "Rates and gaps are pooled over the scored rows; those averaged over clients, beside them "
        "under client_averaged, are different figures.",
        f"Groups with fewer than {fairness.minimum_group_size} scored rows, or with rows of fewer "
        f"than {fairness.minimum_group_clients} clients, are suppressed, and so are groups from "
        "which so few would follow by sums and differences of what this report shows of all "
        "attributes; a gap may be larger among suppressed groups.",
        _limit_counts(material),
        "The largest gap among many groups is biased upward, and so is its interval: it cannot "
        "show that there is no gap. A null shows how wide it comes out by chance alone; a small "
        "p-value shows that groups differ, not why.",
    ]
    if fairness.privacy_cost_by_group and mechanism_of(material.spec).no_group_costs is None:
        found.append(
            "fairness.privacy_cost_by_group was asked for: what training cost each group reveals "
            "something of the sensitive values of training clients, whom the guarantee speaks of "
            "and which it does not cover here. The figures are coarse, so one report says little; "
            "many reports on the same clients say more."
        )
    if any(", in no group: " in note for note in material.federation.notes):
        found.append(
            "Rows without a value of an attribute are in no group. Groups are suppressed where the "
            "figures of other attributes' groups would reveal these rows, and not where those of "
            "everybody do: the accuracy less that of the groups shown is theirs."
        )
    if not material.spec.declares_outcome:
        found.append(
            "No outcome was declared favourable: groups are compared by their losses alone, which "
            "do not say whom an error favours."
        )
    found += material.spec.federation.traits.fairness_limits
    if material.result.single_row_clients:
        found.append(
            f"{material.result.single_row_clients} validation clients have one row only and were "
            "scored with the same hypothesis, since none could be chosen without that row."
        )
    return found


def _limit_counts(material: ReportMaterial) -> str:
    """How far the counts behind published rates can be worked out."""
    base = material.spec.fairness.rounded_to
    if base is None:
        return (
            "Rates of larger groups are exact and may rest on few rows with one outcome: the "
            "counts behind them can be worked out, and what remains of the total bounds the counts "
            "of the suppressed groups, together and at times one by one."
        )
    return (
        f"Rates and gaps follow from counts that were rounded at random to multiples of {base}, "
        "without bias; the same people are rounded alike in every report of one service. "
        f"Intervals, nulls and averages over clients are given in steps of about {base} rows, "
        f"losses of groups to two digits. Each rounded count lies within {base - 1} rows of the "
        "exact one; several figures of one report, or the exact accuracy and loss over all people, "
        "can narrow that down, at times to one number: this is rounding and no noise with an "
        "epsilon."
    )


def _limit_training(material: ReportMaterial) -> list[str]:
    found = method_limits(material.spec)
    if material.result.collapsed_rounds:
        found.append(
            f"In {material.result.collapsed_rounds} of {material.result.rounds} rounds the "
            "uploads all fell into one of several clusters: only one hypothesis was trained."
        )
    if material.spec.relocates and material.spec.training.hypotheses > 1:
        found.append(
            "Empty clusters were moved to the farthest upload, so clusters are not the clients' "
            "own choices."
        )
    return [*found, *_limit_ending(material.result.stopped_by)]


def _limit_ending(stopped_by: StoppedBy) -> list[str]:
    match stopped_by:
        case "rounds" | "patience" | "budget" | "audit":
            return []
        case "diverged":
            return [
                "Training diverged: the figures are of the best round before that, or of the "
                "hypotheses that training started from where there is none (round 0)."
            ]
        case _:
            assert_never(stopped_by)
