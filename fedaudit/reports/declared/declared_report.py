"""The report of a declared ledger, version 1: its shape, its verdict and how it is assembled."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from fedaudit.number_text import at_most
from fedaudit.privacy.accounting.privacy_events import adjacency_words
from fedaudit.privacy.declared.figures import has_unprotected
from fedaudit.reports.declared.declared_sections import (
    DECLARED,
    DeclaredPrivacy,
    DeclaredUtility,
    LedgerSection,
    counted,
)
from fedaudit.reports.declared.ledger_material import DeclaredMaterial
from fedaudit.reports.declared.tested_noise import TestedNoise, chance_words, status_of
from fedaudit.reports.sections.attacks import Alarm, alarm_words
from fedaudit.reports.sections.fairness import FairnessSection
from fedaudit.reports.sections.guarantee import GuaranteeSection, delta_gives_data_away
from fedaudit.reports.sections.part import Answer, AnswerReason, Part, Values, assembled, reason
from fedaudit.reports.sections.provenance import Integrity
from fedaudit.reports.verdict.cost import Bound, scale_words
from fedaudit.reports.verdict.worst_off import by_unevenness, headline_metric
from fedaudit.spec.base import stands_for
from fedaudit.spec.declared_ledgers import LedgerTerms


class DeclaredReport(Part):
    """The report of one declared ledger."""

    report_version: Literal[1] = 1
    declared: Literal[True] = True
    """All but hashes and compositions is as the trainer declares it."""
    ledger: LedgerSection
    answer: Answer | None = None
    """What was declared may speak against a release, and never for one; null in reports of earlier
    versions."""
    verdict: str
    guarantee: GuaranteeSection
    privacy: DeclaredPrivacy
    tests: TestedNoise | None = None
    """What is known of the noise besides the trainer's word; null in earlier versions' reports."""
    utility: DeclaredUtility
    fairness: list[FairnessSection]
    """Computed from the counts of the newest round that declared any."""
    fairness_round: int | None
    contradictions: list[str]
    """Where what was declared contradicts itself; gates then have no evidence."""
    terms: Annotated[dict[str, Any], stands_for(LedgerTerms)]
    limits: list[str]
    """What this report does not show."""
    integrity: Integrity


def declared_report(material: DeclaredMaterial) -> dict[str, Any]:
    """The report as JSON-able values, not signed yet."""
    return assembled(
        DeclaredReport,
        DECLARED,
        material,
        judged=(_judged,),
        limits_first=("guarantee", "ledger", "integrity", "fairness"),
        progressed=lambda: None,
    )


def _judged(material: DeclaredMaterial, so_far: Values) -> Values:
    newest = material.groups_round
    stated = {
        "declared": True,
        "terms": material.terms.model_dump(mode="json"),
        "fairness_round": None if newest is None else newest.round,
        "contradictions": material.contradicted,
    }
    report = {**so_far, **stated}
    answer = declared_answer(report)
    verdict = " ".join(_verdict(material, report, answer))
    return {**stated, "answer": answer.model_dump(mode="json"), "verdict": verdict}


def declared_answer(report: Mapping[str, Any]) -> Answer:
    """What speaks against a release, from an otherwise complete report: never to release, as the
    training was not observed."""
    if against := list(_objections(report)):
        return Answer(outcome="do-not-release", reasons=against)
    code, text = "training-not-observed", "every figure is as the trainer declares it"
    if not report["ledger"]["rounds"]:
        code, text = "no-rounds", "no round was declared yet"
    return Answer(outcome="not-decided", reasons=[reason(code, text)])


def declared_next(report: Mapping[str, Any]) -> str:
    """What to do next, from a report of any version."""
    ledger, terms, steps = report["ledger"], report["terms"], []
    if not ledger["rounds"]:
        return "Declare each round to this ledger as soon as it ran."
    if (report.get("tests") or {}).get("alarm"):
        steps.append(
            "Find out why the training adds less noise than it declares, correct it, and train "
            "anew with another ledger."
        )
    elif report["contradictions"]:
        steps.append(
            "Find out which declaration is wrong, and declare the training anew to another ledger: "
            "rounds are never corrected."
        )
    if (terms["budget"] or terms["federation_id"]) and ledger["unreserved_rounds"]:
        steps.append("Reserve each round before it runs: only then can a budget stop it.")
    if not report["fairness"]:
        steps.append("Declare counts of groups with a round, so that gaps between them are shown.")
    if status_of(report) == "declared" and report["guarantee"]["delta"]:
        steps.append(
            "Plant canaries in each round (`audit=Canaries(...)` of an adapter), which test the "
            "size of the noise."
        )
    steps.append(
        "Compare what was declared with the trainer's code and logs: only a training that this "
        "service runs is observed, and can have a report that allows a release."
    )
    return " ".join(steps)


def _objections(report: Mapping[str, Any]) -> Iterator[AnswerReason]:
    """The most important first."""
    ledger = report["ledger"]
    if not ledger["rounds"]:
        return
    if found := report["contradictions"]:
        words = "what was declared contradicts itself, so its figures are no evidence"
        yield reason("declarations-contradict", f"{words}: {'; '.join(found)}")
    if (tests := report.get("tests")) and tests["alarm"]:
        words = alarm_words("canaries", Alarm.model_validate(tests["alarm"]))
        yield reason("attack-raised-alarm", words)
    yield from _of_guarantee(report)
    if report["utility"]["degenerate"]:
        words = f"the model decides nothing: {report['utility']['reasons']['degenerate']}"
        yield reason("model-decides-nothing", words)
    if over := report["privacy"]["over_budget"]:
        words = f"{counted(over, 'client')} spent more than the budget of a client"
        yield reason("over-budget", words)
    if refused := ledger["refused_rounds"]:
        words = f"{counted(refused, 'round')} ran for clients to whom they had been refused"
        yield reason("refused-rounds-ran", words)


def _of_guarantee(report: Mapping[str, Any]) -> Iterator[AnswerReason]:
    guarantee = report["guarantee"]
    if guarantee["kind"] == "none":
        words = "no mechanism was declared, so nothing bounds what the rounds reveal"
        yield reason("no-guarantee", words)
    elif Bound(report).exponent is None:
        words = "no finite number bounds what the declared rounds reveal"
        yield reason("guarantee-bounds-nothing", words)
    elif Bound(report).excludes_nothing:
        words = "the bound that was declared is too large to protect anyone"
        yield reason("guarantee-bounds-nothing", words)
    if delta_gives_data_away(report):
        delta, unit = guarantee["delta"], guarantee["unit"]
        words = f"a delta of {delta:g} allows the data of one {unit} to be handed over"
        yield reason("delta-gives-data-away", words)


def _verdict(
    material: DeclaredMaterial, sections: Mapping[str, Any], answer: Answer
) -> Iterator[str]:
    """What was declared, what it comes to, and what speaks against it."""
    yield f"As declared by the trainer; the training was not observed: {_cost(material, sections)}"
    if answer.outcome == "do-not-release":
        yield f"Reasons not to release: {'; '.join(one.text for one in answer.reasons)}."
    elif (tests := sections["tests"])["status"] == "tested":
        power = chance_words(tests["power"])
        yield f"Its noise was tested by canaries, with a power of {power}: that is no proof."
    ledger = sections["ledger"]
    if ledger["missing_rounds"]:
        missing = counted(ledger["missing_rounds"], "number")
        yield f"{missing} below round {ledger['last_round']} never declared."
    if known := by_unevenness(sections["fairness"]):
        metric, attribute = headline_metric(known[-1]), known[-1]["attribute"]
        value = known[-1]["metrics"][metric]["value"]
        at = "" if material.groups_round is None else f", in round {material.groups_round.round}"
        yield f"The widest declared gap is {value:.4g}, {metric} by {attribute}{at}."
    elif ledger["rounds"]:
        yield "No gap between groups can be shown."


def _cost(material: DeclaredMaterial, sections: Mapping[str, Any]) -> str:
    terms, privacy, rounds = material.terms, sections["privacy"], len(material.rounds)
    what = counted(rounds, "round")
    if not rounds:
        return "no round yet."
    if terms.mechanism == "none" or has_unprotected(material.histories):
        noise = "noise that is counted" if terms.mechanism == "gaussian-distance" else "noise"
        return f"{what}, some or all without {noise}, so nothing bounds what they reveal."
    if privacy["epsilon_max"] is not None:
        epsilon = privacy["epsilon_max"]
        stated = (
            f"{what} spent an epsilon of at most {at_most(epsilon, digits=4)} at "
            f"delta = {terms.delta:g} under {adjacency_words(terms.adjacency or '')}."
        )
        return f"{stated} {scale_words(sections)}"
    if privacy["leakage_max"] is None:
        return f"{what}, and no finite number bounds what they reveal."
    leakage = at_most(privacy["leakage_max"], digits=4)
    return f"{what} have a leakage of at most {leakage} by n/nu a release."
