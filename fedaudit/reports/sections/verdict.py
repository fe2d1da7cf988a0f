"""The verdict: a few plain sentences, and the figures behind them."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.fairness.gaps import NO_OUTCOME
from fedaudit.privacy.accounting.observers import observer_words
from fedaudit.privacy.guarantees.guarantee import at_most
from fedaudit.privacy.mechanisms.registry import unbounded_release
from fedaudit.reports.document.earlier_versions import metric_of
from fedaudit.reports.document.endings import SENTENCES, chosen_by_losses, known_ending
from fedaudit.reports.document.outcomes import GateOutcome
from fedaudit.spec.metrics import HEADLINE, HEADLINE_WITHOUT_OUTCOME

_OUTCOMES: dict[GateOutcome, str] = {
    "pass": "All gates passed",
    "fail": "The gates failed",
    "insufficient_evidence": "The evidence does not suffice for the gates",
}
_COUNTS: dict[GateOutcome, str] = {
    "pass": "passed",
    "fail": "failed",
    "insufficient_evidence": "lacked evidence",
}
_BASIS = {
    "formal": (
        "This rests on a theorem for the public, fixed radius; it bounds datasets whose uploads "
        "stay within that radius of each other."
    ),
    "heuristic": "This rests on the paper's convention, not on a theorem.",
}

_EPSILON_BASIS = {
    "formal": "This rests on theorems about the mechanism and its accountant.",
    "heuristic": (
        "This takes for known, or leaves to a fit, what the guarantee's statement names, and rests "
        "on no theorem as a whole."
    ),
}
_EARLY_END = (
    "Validation losses ended the run early: what is proven is the larger epsilon of all rounds "
    "that were planned, which the guarantee's statement gives."
)


def verdict(report: Mapping[str, Any], *, simulated: bool) -> str:
    """The verdict on an otherwise complete report; `simulated` means noise from the seed."""
    sentences = [_gates(report["gates"], report["gate_outcome"]), *_privacy(report)]
    if simulated and report["guarantee"]["kind"] != "none":
        sentences.append("The noise was simulated, so this run's model is not for release.")
    sentences += [_fairness(section) for section in report["fairness"]]
    sentences.append(_utility(report["utility"]))
    return " ".join(sentence for sentence in sentences if sentence)


def headline_metric(section: Mapping[str, Any]) -> str:
    """The headline metric of an attribute: one of losses where no outcome is favourable."""
    counted = metric_of(section, HEADLINE)["reason"] != NO_OUTCOME
    return HEADLINE if counted else HEADLINE_WITHOUT_OUTCOME


def _gates(gates: Sequence[Mapping[str, Any]], outcome: GateOutcome | None) -> str:
    if outcome is None:
        return "No gate was set."
    counts = [
        f"{sum(gate['outcome'] == one for gate in gates)} {word}" for one, word in _COUNTS.items()
    ]
    return f"{_OUTCOMES[outcome]}: {', '.join(counts)}."


def _privacy(report: Mapping[str, Any]) -> list[str]:
    privacy, kind = report["privacy"], report["guarantee"]["kind"]
    took_part = f"A client took part in at most {privacy['participations_max']} rounds"
    if kind == "none":
        how = unbounded_release(report["guarantee"]["mechanism"])
        return [f"There is no privacy guarantee. {took_part}, each time {how}."]
    if privacy["epsilon"]:
        stated = [f"The guarantee is {kind}. {_epsilons(report)}", _EPSILON_BASIS[kind]]
        early = chosen_by_losses(known_ending(report["utility"]["stopped_by"]))
        return stated + [_EARLY_END] * early
    return [
        f"The guarantee is {kind}. {took_part}, at a leakage of "
        f"{at_most(privacy['leakage_per_release'], digits=4)} each: "
        f"{at_most(privacy['leakage_max'], digits=4)} in all, and "
        f"{privacy['leakage_median']:.4g} for the median client.",
        _BASIS[kind],
    ]


def _epsilons(report: Mapping[str, Any]) -> str:
    stated = " and ".join(
        f"{at_most(one['value'], digits=4)} against {observer_words(one['observer'])}"
        for one in report["privacy"]["epsilon"]
    )
    guarantee = report["guarantee"]
    return (
        f"A {guarantee['unit']} spent at most an epsilon of {stated}, at delta = "
        f"{guarantee['delta']:g} under {guarantee['adjacency']}."
    )


def _fairness(section: Mapping[str, Any]) -> str:
    metric = headline_metric(section)
    found = metric_of(section, metric)
    name = f"{metric} by {section['attribute']}"
    if found["value"] is None:
        return f"{name} is unknown: {found['reason']}."
    interval = found["interval"]
    stated = f"{name} is {found['value']:.4g}"
    if interval is not None:
        stated += (
            f" ({interval['level']:.0%} interval {interval['low']:.4g} to {interval['high']:.4g})"
        )
    return stated + (f"; {found['reason']}." if found["reason"] else ".")


def _utility(utility: Mapping[str, Any]) -> str:
    stated = SENTENCES[utility["stopped_by"]].format(rounds=utility["rounds"])
    stated += f". The best hypotheses are those of round {utility['best_round']}"
    if utility["validation_loss"] is not None:
        stated += f", with a validation loss of {utility['validation_loss']:.4g}"
    if utility["accuracy"] is not None:
        stated += f" and an accuracy of {utility['accuracy']:.4g}"
    return stated + "."
