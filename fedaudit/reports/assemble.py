"""Assemble the report document from the facts of a finished run, and hash it."""

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import rfc8785

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.document.document import (
    Data,
    Experiment,
    GuaranteeSection,
    Integrity,
    Provenance,
    Report,
    Utility,
)
from fedaudit.reports.document.material import ReportMaterial
from fedaudit.reports.gates.gate_evaluation import evaluate, overall
from fedaudit.reports.sections.fairness_privacy import NO_NOISE, fairness_privacy
from fedaudit.reports.sections.fairness_section import fairness_sections
from fedaudit.reports.sections.limits import limits
from fedaudit.reports.sections.noised_fairness import WITHHELD
from fedaudit.reports.sections.privacy_section import planned, privacy_section, spent
from fedaudit.reports.sections.verdict import verdict
from fedaudit.spec.canonical import spec_hash

_UNSIGNED = "the report is not signed"
_PROVENANCE = ("code_version", "libraries", "device", "backend", "started_at", "finished_at")


def assemble(material: ReportMaterial) -> dict[str, Any]:
    """Build the report (version 1) as JSON-able values, without NaN or infinities.

    Raises KeyError where the material lacks a sensitive attribute of the spec.
    """
    spec = material.spec
    sections: dict[str, Any] = {
        "report_version": 1,
        "experiment": _experiment(material).model_dump(),
        "guarantee": _guarantee(material).model_dump(),
        "privacy": privacy_section(material).model_dump(),
        "utility": _utility(material).model_dump(),
        "fairness": [section.model_dump() for section in fairness_sections(material)],
        **_fairness_privacy(material),
        "attacks": [],
        **_plane(material),
        "data": _data(material).model_dump(),
        "spec": spec.model_dump(mode="json"),
        "provenance": _provenance(material).model_dump(),
        "limits": limits(material),
        "integrity": _integrity(material).model_dump(),
    }
    sections["gates"] = evaluate(spec.gates, sections)
    sections["gate_outcome"] = overall(sections["gates"])
    sections["verdict"] = verdict(sections)
    document: dict[str, Any] = Report.model_validate(sections).model_dump(mode="json")
    return document


def report_hash(document: Mapping[str, Any]) -> str:
    """SHA-256, in hexadecimal, of the document's canonical JSON (RFC 8785)."""
    return hashlib.sha256(rfc8785.dumps(dict(document))).hexdigest()


def _experiment(material: ReportMaterial) -> Experiment:
    return Experiment(
        id=material.experiment_id,
        name=material.name,
        spec_hash=spec_hash(material.spec),
        status=material.status,
    )


def _guarantee(material: ReportMaterial) -> GuaranteeSection:
    found = mechanism_of(material.spec).guarantee(
        n=material.inputs.n,
        epsilons=spent(material),
        planned=planned(material),
        layers=material.inputs.component_sizes,
    )
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


def _utility(material: ReportMaterial) -> Utility:
    result = material.result
    figures: dict[str, float | None] = {
        "validation_loss": _finite(result.validation_loss),
        "selection_loss": _finite(result.selection_loss),
        "accuracy": _finite(result.accuracy),
    }
    reasons = {
        name: "there was no finite loss to report" for name in figures if figures[name] is None
    }
    if _protects_held_out(material):
        figures, reasons = dict.fromkeys(figures), dict.fromkeys(figures, WITHHELD)
    elif "accuracy" in reasons and not material.spec.training.compares_classes:
        reasons["accuracy"] = "the target is a number, so there is no accuracy"
    return Utility(
        **figures,
        rounds=result.rounds,
        best_round=result.best_round,
        stopped_by=result.stopped_by,
        reasons=reasons,
    )


def _fairness_privacy(material: ReportMaterial) -> dict[str, Any]:
    found = fairness_privacy(material.spec, releases=material.report_charges)
    if found is None:
        return {"fairness_privacy": None, "fairness_privacy_reason": NO_NOISE}
    return {"fairness_privacy": found.model_dump(), "fairness_privacy_reason": None}


def _plane(material: ReportMaterial) -> dict[str, Any]:
    if isinstance(material.plane, str):
        return {"plane": None, "plane_reason": material.plane}
    return {"plane": material.plane.model_dump(), "plane_reason": None}


def _data(material: ReportMaterial) -> Data:
    facts = material.federation
    return Data(
        source=material.spec.federation.source,
        clients=facts.clients,
        training_clients=facts.training_clients,
        validation_clients=facts.clients - facts.training_clients,
        rows=facts.rows,
        parameters=material.inputs.n,
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


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
