"""Assemble the report document from the facts of a finished run, and hash it."""

import hashlib
from collections.abc import Mapping
from typing import Any

from fedaudit.reports.canonical_json import canonical_json
from fedaudit.reports.document.document import (
    Data,
    Experiment,
    GuaranteeSection,
    Integrity,
    Provenance,
    Report,
)
from fedaudit.reports.document.material import ReportMaterial
from fedaudit.reports.document.outcome_words import with_words
from fedaudit.reports.gates.gate_evaluation import evaluate, overall
from fedaudit.reports.report_progress import Progressed, unfollowed
from fedaudit.reports.sections.fairness_privacy import NO_NOISE, fairness_privacy
from fedaudit.reports.sections.fairness_section import fairness_sections
from fedaudit.reports.sections.limitations.limits import limits
from fedaudit.reports.sections.privacy_section import guarantee_of, privacy_section
from fedaudit.reports.sections.utility_section import utility_section
from fedaudit.reports.verdict.verdict import verdict, verdict_parts
from fedaudit.spec.experiment import spec_hash

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
