"""The record of all disclosure-control criteria of one report: SATRE 2.0.1, control 3.3.09.

The control names thresholds, rules of suppression and perturbation, requirements of the model, risk
appetite, and versions of tools and configuration, linked to the output without ambiguity.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fedaudit.reports.checks import canonical_hash, value_at
from fedaudit.reports.readings.facts import ReadingPart, number_at, part_at, parts_at, text_at
from fedaudit.reports.readings.questions import suppressed
from fedaudit.spec.metrics import METRICS


class OutputPackage(ReadingPart):
    """What the criteria were applied to. Hashes are SHA-256 in hexadecimal."""

    experiment_id: str
    name: str
    report_sha256: str
    """Of report.json, and of the report that sign-offs name."""
    model_sha256: str | None
    model_reason: str | None
    """Why no model may leave; None where one may."""
    spec_sha256: str
    ledger_sha256: str
    data_sha256: str
    signing_key: str | None
    """The id of the key that signed the report; None where nobody did."""


class Threshold(ReadingPart):
    """One gate that was set in the spec, and so before the run."""

    figure: str
    attribute: str | None
    op: Literal["le", "ge"]
    bound: float
    value: float | None
    outcome: str
    reason: str
    allows: list[str]
    """The kinds of weak evidence that the gate admits."""


class Suppression(ReadingPart):
    """What keeps figures of small groups out of the report."""

    minimum_group_size: int | None
    rounding: dict[str, Any] | None
    """Of counts; None where they are not rounded."""
    groups_suppressed: dict[str, int]
    """By attribute."""
    excluded: dict[str, Any]
    """Values of attributes that no figure counts."""


class Perturbation(ReadingPart):
    """The noise on the model and on the report's figures."""

    mechanism: str
    settings: dict[str, Any]
    guarantee: str
    unit: str | None
    in_force: bool
    fairness_noise: dict[str, Any] | None


class ModelRequirements(ReadingPart):
    """The model, and what is required of it before it may leave."""

    model: dict[str, Any]
    parameters: int | None
    hypotheses: int | None
    may_leave: bool
    """By the service's own rule: a guarantee that is proven, in force and of secret noise."""
    attacks: list[str]
    """Kinds that were carried out."""
    attacks_not_done: list[str]


class RiskAppetite(ReadingPart):
    """What the submitter set as acceptable; an organisation's own appetite is not in a report."""

    set_by: Literal["the spec, before the run", "nobody: there are no gates"]
    budget: dict[str, Any]
    """Epsilon or leakage that was asked for, or at which clients take no further part."""
    admitted: list[str]
    """Exceptions that any gate admits."""
    unjudged_gap_size: float | None
    """From where on a gap that no gate judges stops a release."""
    gaps_judged: list[str]
    """Attributes of which some gap has a gate."""


class Versions(ReadingPart):
    """Tools and their configuration."""

    trained_with: str | None
    libraries: dict[str, Any]
    backend: dict[str, Any]
    report: int
    dossier: int
    control_set: str
    configuration_sha256: str
    """Of the spec with every default explicit."""


class Criteria(ReadingPart):
    """The record."""

    output_package: OutputPackage
    thresholds: list[Threshold]
    suppression_rules: Suppression
    perturbation_rules: Perturbation
    model_requirements: ModelRequirements
    risk_appetite: RiskAppetite
    versions: Versions


def criteria(
    report: Mapping[str, Any], judged: Mapping[str, Any], *, version: int, control_set: str
) -> Criteria:
    """The record of a report as it was signed. `judged`: with what later attacks changed.
    `version`: that of the dossier's form."""
    spec_hash = report["provenance"]["spec_hash"]
    thresholds = _thresholds(judged)
    admitted = sorted({name for one in thresholds for name in one.allows})
    asked = part_at(report, "spec", "privacy")
    budgets = ("target", "epsilon_budget", "client_budget")
    attacks = parts_at(judged, "attacks")
    return Criteria(
        output_package=OutputPackage(
            experiment_id=report["experiment"]["id"],
            name=report["experiment"]["name"],
            report_sha256=canonical_hash(report) or "",
            model_sha256=text_at(report, "model", "sha256"),
            model_reason=text_at(report, "model_reason"),
            spec_sha256=spec_hash,
            ledger_sha256=report["integrity"]["ledger_hash"],
            data_sha256=report["provenance"]["data_fingerprint"],
            signing_key=text_at(report, "integrity", "key_id"),
        ),
        thresholds=thresholds,
        suppression_rules=_suppression(report),
        perturbation_rules=Perturbation(
            mechanism=report["guarantee"]["mechanism"],
            settings=dict(asked),
            guarantee=report["guarantee"]["label"],
            unit=text_at(report, "guarantee", "unit"),
            in_force=report["guarantee"]["in_force"] is True,
            fairness_noise=value_at(report, "spec", "fairness", "noise"),
        ),
        model_requirements=ModelRequirements(
            model=dict(part_at(report, "spec", "model")),
            parameters=value_at(report, "data", "parameters"),
            hypotheses=value_at(report, "spec", "training", "hypotheses"),
            may_leave=value_at(report, "model") is not None,
            attacks=_kinds(attacks, done=True),
            attacks_not_done=_kinds(attacks, done=False),
        ),
        risk_appetite=RiskAppetite(
            set_by="the spec, before the run" if thresholds else "nobody: there are no gates",
            budget={name: asked[name] for name in budgets if asked.get(name) is not None},
            admitted=admitted,
            unjudged_gap_size=number_at(report, "answer", "gap_size"),
            gaps_judged=_gaps_judged(report),
        ),
        versions=Versions(
            trained_with=text_at(report, "provenance", "code_version"),
            libraries=dict(part_at(report, "provenance", "libraries")),
            backend=dict(part_at(report, "provenance", "backend")),
            report=report["report_version"],
            dossier=version,
            control_set=control_set,
            configuration_sha256=spec_hash,
        ),
    )


def _thresholds(judged: Mapping[str, Any]) -> list[Threshold]:
    """A report's gates are in the order of its spec's."""
    fields = ("figure", "attribute", "op", "bound", "value", "outcome", "reason")
    return [
        Threshold(
            **{name: gate[name] for name in fields},
            allows=sorted(name for name in asked if name.startswith("allow_") and asked[name]),
        )
        for gate, asked in zip(judged["gates"], judged["spec"]["gates"], strict=True)
    ]


def _suppression(report: Mapping[str, Any]) -> Suppression:
    asked = part_at(report, "spec", "fairness")
    return Suppression(
        minimum_group_size=asked.get("minimum_group_size"),
        rounding=asked.get("rounding"),
        groups_suppressed={one["attribute"]: suppressed(one) for one in report["fairness"]},
        excluded=dict(asked.get("exclude") or {}),
    )


def _gaps_judged(report: Mapping[str, Any]) -> list[str]:
    every = [one["attribute"] for one in report["fairness"]]
    asked = [one.get("attribute") for one in report["spec"]["gates"] if one["figure"] in METRICS]
    return every if None in asked else [one for one in every if one in asked]


def _kinds(attacks: Sequence[Mapping[str, Any]], *, done: bool) -> list[str]:
    return sorted({one["kind"] for one in attacks if (one["status"] == "done") == done})
