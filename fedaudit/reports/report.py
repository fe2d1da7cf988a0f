"""The report of a run, version 1: its shape, how it is assembled, and its schema; and how it has to
be judged after attacks that came after it was signed.

A figure that is None has its reason beside it: in the `reasons` map of the same object under the
field's name, or in `reason` where the object holds one figure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import ValidationError

from fedaudit.ledger.statements import Chained, Number
from fedaudit.reports.checks import MALFORMED, Check, agrees, answer_check, same
from fedaudit.reports.gates.gate_evaluation import evaluate
from fedaudit.reports.gates.gate_evidence import is_simulated
from fedaudit.reports.gates.gate_results import overall
from fedaudit.reports.sections.attacks import ATTACKS, ReportedAttack
from fedaudit.reports.sections.fairness import FairnessSection
from fedaudit.reports.sections.guarantee import GUARANTEE, GuaranteeSection, charges_everyone
from fedaudit.reports.sections.held_out_privacy import FAIRNESS_PRIVACY, FairnessPrivacy
from fedaudit.reports.sections.material import ReportMaterial, RunEvidence
from fedaudit.reports.sections.other_runs import OTHERS, ModelSection, RepeatsSection, SweepSection
from fedaudit.reports.sections.outcome_words import with_words
from fedaudit.reports.sections.part import (
    FAIL,
    INSUFFICIENT,
    Advice,
    Answer,
    FigureRow,
    GateOutcome,
    Part,
    Section,
    Values,
    VerdictParts,
    assembled,
    figure_rows,
    section_checks,
)
from fedaudit.reports.sections.privacy import PRIVACY, Privacy
from fedaudit.reports.sections.provenance import DATA, HEAD, Data, Experiment, Integrity, Provenance
from fedaudit.reports.sections.published_fairness import FAIRNESS
from fedaudit.reports.sections.utility import UTILITY, Utility
from fedaudit.reports.verdict.release import answer_of
from fedaudit.reports.verdict.verdict import judged
from fedaudit.spec.base import stands_for
from fedaudit.spec.experiment import ExperimentSpec, document_hash
from fedaudit.spec.gates import Gate


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
    answer: Answer | None = None
    """Whether the model may be released; null in reports of earlier versions."""
    verdict: str
    """The four parts below, one after the other."""
    verdict_parts: VerdictParts
    advice: Advice
    """What to do next, with the changes of the spec that it means."""
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
    gate_outcome_reason: str | None = None
    sweep: SweepSection | None = None
    sweep_reason: str | None = None
    repeats: RepeatsSection | None = None
    repeats_reason: str | None = None
    data: Data
    spec: Annotated[dict[str, Any], stands_for(ExperimentSpec)]
    """The spec with every default explicit: the provenance's spec_hash is taken over it."""
    provenance: Provenance
    limits: list[str]
    """What this report does not show."""
    integrity: Integrity


def schema() -> dict[str, Any]:
    """The report's JSON schema."""
    return Report.model_json_schema(mode="serialization")


def section_rows(report: Mapping[str, Any]) -> dict[str, list[FigureRow]]:
    """The rows of each section of a stored report that has figures with `Shown`: pages and the
    command line have a table of them."""
    everyone = charges_everyone(report["guarantee"]["mechanism"])
    found = {
        name: list(figure_rows(part, report[name], charges_everyone=everyone))
        for name, field in Report.model_fields.items()
        for part in (field.annotation, *get_args(field.annotation))
        if isinstance(part, type)
        and issubclass(part, Part)
        and isinstance(report.get(name), Mapping)
    }
    return {name: rows for name, rows in found.items() if rows}


OTHER_FORM = (
    "the report has the form of another version of fedaudit; its JSON and its signature stay as "
    "they are. Run its spec again for a report that this version reads"
)


def read_report(document: Mapping[str, Any]) -> Report:
    """A stored report, which may have fields that are gone since then; what has a default came
    later. Raises ValueError where one is missing that this version needs."""
    return Report.model_validate(document, extra="ignore")


def has_present_form(document: Mapping[str, Any]) -> bool:
    """Whether this version reads a stored report."""
    try:
        read_report(document)
    except ValidationError:
        return False
    return True


def assemble(material: ReportMaterial) -> dict[str, Any]:
    """Build the report as JSON values, without NaN or infinities. Raises KeyError where the
    material lacks a sensitive attribute of the spec."""
    return assembled(
        Report,
        RUN,
        material,
        judged=(
            lambda material, _: {"spec": material.spec.model_dump(mode="json")},
            worded,
            lambda material, so_far: gated(material.spec.gates, so_far),
            lambda _, so_far: judged(so_far),
        ),
        limits_first=("guarantee", "data", "fairness"),
        progressed=material.progressed,
    )


def report_hash(document: Mapping[str, Any]) -> str:
    """SHA-256, in hexadecimal, of the document's canonical JSON (RFC 8785)."""
    return document_hash(dict(document))


def worded(_material: object, so_far: Values) -> Values:
    """The fairness sections with their outcomes and groups in words."""
    return {"fairness": with_words(so_far)}


def gated(gates: Sequence[Gate], so_far: Values) -> Values:
    """Each gate judged by the sections so far."""
    found = evaluate(gates, so_far)
    why = None if found else "its spec has no gates"
    return {"gates": found, "gate_outcome": overall(found), "gate_outcome_reason": why}


def judged_later(
    report: Mapping[str, Any], sections: Sequence[Mapping[str, Any]], *, anew: bool = False
) -> dict[str, Any]:
    """The document with later findings among its attacks, and with its verdict recomputed and the
    gates that they change; `anew`: all, as earlier versions did. `sections`: those of every later
    attack, whatever it found: no one selects them, so the worst of several attacks of a kind
    decides. Raises KeyError, TypeError or ValueError for what is no report."""
    if not sections:
        return dict(report)
    found: dict[str, Any] = {**report, "attacks": [*(report.get("attacks") or []), *sections]}
    gates = [Gate.model_validate(gate) for gate in report["spec"]["gates"]]
    found |= gated(gates, found)
    if not anew:
        each = zip(report["gates"], evaluate(gates, report), found["gates"], strict=True)
        found["gates"] = [signed if now == then else now for signed, then, now in each]
        found["gate_outcome"] = overall(found["gates"])
    return found | judged(found)


Basis = Literal["repeated", "stored-model", "companions"]
"""What was attacked: the run, repeated to the same ledger; its stored hypotheses, where its noise
cannot be drawn again; or runs beside it alone, by today's code."""


@dataclass(frozen=True, kw_only=True)
class LaterStatement(Chained):
    """What one request for attacks found. Hashes are in hexadecimal."""

    NAME = "later-attacks"
    CALLED = "statement {} on later attacks"

    experiment_id: str
    number: Number
    """Number of the request, from 1; a number that is missing was not tried."""
    report_hash: str
    ledger_hash: str
    basis: Basis
    asked: list[Mapping[str, Any]]
    """The attacks, with every default explicit."""
    attacks: list[Mapping[str, Any]]
    """What became of each, as sections of a report."""
    asked_by: Mapping[str, Any]
    """Key and person, as they were then."""
    asked_at: str
    finished_at: str
    """Times by the clocks of the service and of the worker, in UTC."""
    code_version: str
    backend: Mapping[str, str]


def gate_checks(gates: Sequence[Gate], report: Mapping[str, Any]) -> Iterator[Check]:
    """Whether the report's gates follow from its figures, and their outcome from them."""
    try:
        stated = _without_words(report["gates"])
        # Earlier versions judged by the rounds that were played, and by the first of several seeds;
        # the answer knows what is proven.
        played = {**report, "privacy": {**report["privacy"], "epsilon_planned": None}}
        played["repeats"] = None
        found = [_without_words(evaluate(gates, one)) for one in (report, played)]

        def open_then(gate: Gate, one: dict[str, Any]) -> dict[str, Any]:
            by_seed = one["outcome"] == FAIL and is_simulated(gate, report)
            return {**one, "outcome": INSUFFICIENT} if by_seed else one

        # Nor did they let a gate fail by simulated noise.
        found += [[*map(open_then, gates, judged)] for judged in found]
        follows = any(same(stated, one) for one in found)
    except MALFORMED:
        yield Check.failed("report.gates", "the report lacks what its gates need")
    else:
        yield Check.of(
            "report.gates",
            follows,
            good="the gates follow from the report's figures",
            bad="the outcomes of the gates do not follow from the report's figures",
        )
    try:
        outcome = overall(report["gates"])
    except MALFORMED:
        yield Check.failed("report.gate_outcome", "the report's gates are malformed")
    else:
        yield agrees(report, "gate_outcome", outcome)


def _without_words(gates: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    fields = ("figure", "attribute", "op", "bound", "value", "outcome")
    return [{name: gate[name] for name in fields} for gate in gates]


def report_checks(found: RunEvidence) -> Iterator[Check]:
    """Every check of a run's report but that of its signature."""
    if not has_present_form(found.report):
        yield Check.unchecked("report.form", OTHER_FORM)
        # What contradicts the ledger does so in any form.
        known = [one for one in RUN if one.name in found.report]
        yield from section_checks(known, found, malformed="unchecked", why=OTHER_FORM)
        return
    yield from section_checks(RUN, found)
    if found.spec is not None:
        yield from gate_checks(found.spec.gates, found.report)
    if found.report.get("answer") is not None:
        yield answer_check(found.report, answer_of)


RUN: tuple[Section[ReportMaterial, RunEvidence], ...] = (
    *HEAD,
    UTILITY,
    PRIVACY,
    GUARANTEE,
    FAIRNESS,
    FAIRNESS_PRIVACY,
    ATTACKS,
    *OTHERS,
    DATA,
)
"""The sections of a run's report, in the order in which they are verified."""
