"""What a report claims, as in-toto statements for other tools.

Each is about the SHA-256 of the report in canonical JSON (`report.json` of a bundle), and about
that of the model's file where it may leave. None claims more than the report: a gate that lacks
evidence is a failed test, and one that passed by an allowance passed with a warning.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fedaudit.ledger.claim_bundles import STATEMENT
from fedaudit.privacy.mechanisms.registry import bounds_nothing
from fedaudit.reports.checks import Check
from fedaudit.reports.figures import figures_of, parsed
from fedaudit.reports.report import Report
from fedaudit.reports.sections.guarantee import guarantee_words
from fedaudit.spec.metrics import RATES

TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
VERIFICATION = "https://in-toto.io/attestation/svr/v0.2"
ML_BOM = "https://cyclonedx.org/bom"
REPORT = "https://fedaudit/report/v1"
MODEL_SIGNATURE = "https://model_signing/signature/v1.0"
_MODEL_FILE = "model.safetensors"
_OF_REPORT = ("experiment", "answer", "guarantee", "privacy", "gates", "gate_outcome", "limits")
_OF_GROUPS = ("accuracy", "auc", "loss", *RATES)

Document = Mapping[str, Any]


def claims_of(
    report: Document, hashed: str, *, verified: Iterable[Check], at: str
) -> list[dict[str, Any]]:
    """Every claim of a report with this hash. `verified`: what was checked of the report and its
    ledger, `at` this time. Raises ValueError for a report in the form of another version."""
    passed = sorted(
        f"FEDAUDIT_{one.name.upper().replace('.', '_').replace('-', '_')}"
        for one in verified
        if one.outcome == "pass"
    )
    verifier = {"id": "https://fedaudit/verify/v1", "policies": [_spec(report)]}
    made = following(report, hashed)
    judged = {"verifier": verifier, "timeCreated": at, "properties": passed}
    made[VERIFICATION]["predicate"] = judged
    made[ML_BOM]["predicate"] = _bill_of_materials(report)
    return list(made.values())


def following(report: Document, hashed: str) -> dict[str, dict[str, Any]]:
    """The claims of a report with this hash by their predicate types, in order, as far as they
    follow from the report alone: verification recomputes them, and two have no predicate. Without
    gates there is no test. A model's signature is about the hash of its files' hashes, as in
    model-signing for one file. Raises KeyError, TypeError or ValueError for a document without the
    parts of a report."""
    model, files = report.get("model"), {"report.json": hashed}
    predicates: dict[str, Any] = {TEST_RESULT: _test_result(report)} if report["gates"] else {}
    predicates |= {VERIFICATION: None, ML_BOM: None}
    predicates[REPORT] = {name: report[name] for name in _OF_REPORT}
    if model is not None:
        files[_MODEL_FILE] = model["sha256"]
        file = {"name": ".", "algorithm": "sha256", "digest": model["sha256"]}
        serialised = {"method": "files", "hash_type": "sha256", "allow_symlinks": False}
        serialised["ignore_paths"] = []
        predicates[MODEL_SIGNATURE] = {"serialization": serialised, "resources": [file]}
    subjects = dict.fromkeys(predicates, _named(files))
    if model is not None:
        root = hashlib.sha256(bytes.fromhex(model["sha256"])).hexdigest()
        subjects[MODEL_SIGNATURE] = _named({_MODEL_FILE: root})
    return {
        kind: {"_type": STATEMENT, "subject": subject, "predicateType": kind, "predicate": one}
        for (kind, one), subject in zip(predicates.items(), subjects.values(), strict=True)
    }


def _named(files: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "digest": {"sha256": digest}} for name, digest in files.items()]


def _spec(report: Document) -> dict[str, Any]:
    return {"name": "spec.json", "digest": {"sha256": report["provenance"]["spec_hash"]}}


def _test_result(report: Document) -> dict[str, Any]:
    tests: dict[str, list[str]] = {"passedTests": [], "warnedTests": [], "failedTests": []}
    for gate, asked in zip(report["gates"], report["spec"]["gates"], strict=True):
        of = f" of {gate['attribute']}" if gate["attribute"] else ""
        name = f"{gate['figure']}{of} {gate['op']} {gate['bound']:.15g}"
        allowed = sorted(key for key, value in asked.items() if key.startswith("allow_") and value)
        if gate["outcome"] != "pass":
            lacks = gate["outcome"] != "fail"
            tests["failedTests"].append(f"{name}: insufficient evidence" if lacks else name)
        elif allowed:
            tests["warnedTests"].append(f"{name}: {', '.join(allowed)}")
        else:
            tests["passedTests"].append(name)
    result = "WARNED" if tests["warnedTests"] else "PASSED"
    result = "FAILED" if tests["failedTests"] else result
    return {"result": result, "configuration": [_spec(report)], **tests}


def _bill_of_materials(document: Document) -> dict[str, Any]:
    """An ML-BOM in CycloneDX 1.6: the model card, and the guarantee with what speaks against it."""
    report = parsed(document)
    assessed = [
        {
            "groupAtRisk": section.attribute,
            "harms": "; ".join(
                f"{name}: {one.reason}" if one.value is None else f"{name} {one.value!r}"
                for name, one in section.metrics.items()
            ),
        }
        for section in report.fairness
    ]
    model: dict[str, Any] = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": report.experiment.name,
        "modelCard": {
            "quantitativeAnalysis": {"performanceMetrics": list(_metrics(report))},
            "considerations": {
                "technicalLimitations": list(report.limits),
                "ethicalConsiderations": [{"name": report.verdict}],
                "fairnessAssessments": assessed,
            },
        },
    }
    if report.model is not None:
        model["hashes"] = [{"alg": "SHA-256", "content": report.model.sha256}]
    tool = {"type": "application", "name": "fedaudit"}
    if report.provenance.code_version is not None:
        tool["version"] = report.provenance.code_version
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{report.experiment.id}",
        "version": 1,
        "metadata": {"tools": {"components": [tool]}, "component": model},
        "declarations": _declarations(report, document["attacks"]),
    }


def _metrics(report: Report) -> Iterator[dict[str, Any]]:
    for one in figures_of(report):
        if one.value is not None:
            part = one.attribute or one.observer or None
            yield _metric(one.figure, one.value, part, one.interval)
    for section in report.fairness:
        for group in section.groups:
            intervals = group.rate_intervals or {}
            for name in _OF_GROUPS:
                value = getattr(group, name, None)
                if value is not None:
                    part = f"{section.attribute}={group.value}"
                    yield _metric(name, value, part, intervals.get(name))


def _metric(name: str, value: float, part: str | None, interval: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": name, "value": repr(value)}
    if part is not None:
        found["slice"] = part
    if interval is not None:
        bounds = {"lowerBound": repr(interval.low), "upperBound": repr(interval.high)}
        found["confidenceInterval"] = bounds
    return found


def _declarations(report: Report, attacks: Sequence[Document]) -> dict[str, Any]:
    """The guarantee as the signer's own claim. An attack that raised an alarm, or measured a lower
    bound above 0, is counter-evidence. Evidence is the silence of canaries that would likely have
    found half of the noise; no other attack's failure supports a bound."""
    evidence, supporting, against = [], [], []
    for number, attack in enumerate(attacks, start=1):
        if attack["status"] != "done":
            continue
        bounds = list(_lower_bounds(attack))
        if attack.get("alarm") is not None or any(value > 0 for _, value in bounds):
            against.append(f"attack-{number}")
        elif any(one.get("all_clear", "") is None for one in attack.get("bounds") or []):
            supporting.append(f"attack-{number}")
        measured = "; ".join(f"{name} {value!r}" for name, value in bounds)
        text = f"{measured}. {attack['statement']}" if measured else attack["statement"]
        evidence.append(
            {
                "bom-ref": f"attack-{number}",
                "propertyName": attack["kind"],
                "description": text,
                "author": {"name": "fedaudit"},
            }
        )
    guarantee = guarantee_words(report.guarantee.model_dump())
    if bounds_nothing(report.guarantee.mechanism):
        guarantee += ", which bounds nothing"
    stated = report.guarantee.statement
    if report.verdict_parts is not None:
        if report.repeats is not None:
            stated += f" That is of the first seed. {report.verdict_parts.cost}"
        elif report.sweep is not None:
            stated += f" {report.verdict_parts.cost}"
    claim = {
        "bom-ref": "guarantee",
        "target": "model",
        "predicate": f"guarantee: {guarantee}. {stated}",
        "evidence": supporting,
        "counterEvidence": against,
    }
    assessor = {"bom-ref": "signer", "thirdParty": False}
    return {"assessors": [assessor], "claims": [claim], "evidence": evidence}


def _lower_bounds(section: Any, of: str = "") -> Iterator[tuple[str, float]]:
    """Every measured lower bound in a section of an attack, with its method where it has one."""
    if isinstance(section, list):
        for one in section:
            yield from _lower_bounds(one, of)
    if not isinstance(section, Mapping):
        return
    method = section.get("name", of)
    for name, value in section.items():
        if name.endswith("_lower_bound") and value is not None:
            yield f"{name} ({method})" if method else name, value
        yield from _lower_bounds(value, method)
