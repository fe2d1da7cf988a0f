"""The verdict: a few plain sentences, and the figures behind them."""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from fedaudit.fairness.gaps import NO_OUTCOME
from fedaudit.privacy.accounting.adjacencies import adjacency_words
from fedaudit.privacy.accounting.observers import observer_words
from fedaudit.privacy.guarantees.guarantee import at_most, number
from fedaudit.privacy.mechanisms.registry import known_facts, unbounded_release
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
_SIMULATED = (
    "The noise was simulated, so the guarantee is not in force: this run's model is not for "
    "release, and neither is this report, whose figures follow from the training data."
)
_THEOREM = "This rests on a theorem for the public, fixed radius."
_CONVENTION = "This rests on the paper's convention, not on a theorem."
_EPSILON_BASIS = {
    "formal": "This rests on theorems about the mechanism and its accountant.",
    "heuristic": (
        "This takes for known, or leaves to a fit, what the guarantee's statement names, and rests "
        "on no theorem as a whole."
    ),
}
_SERVER_SEES = (
    "The server sees every update, and who sent it: nothing here protects a client against it."
)
_EARLY_END = (
    "Validation losses ended the run early: what is proven is the larger epsilon of all rounds "
    "that were planned, which the guarantee's statement gives."
)


def verdict(report: Mapping[str, Any]) -> str:
    """The verdict on an otherwise complete report."""
    sentences = [_gates(report["gates"], report["gate_outcome"]), *_privacy(report)]
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
    privacy, guarantee = report["privacy"], report["guarantee"]
    if guarantee["kind"] == "none":
        how = unbounded_release(guarantee["mechanism"])
        return [f"There is no privacy guarantee. {_took_part(privacy)}, each time {how}."]
    in_force = [] if guarantee["in_force"] else [_SIMULATED]
    kind = f"The guarantee is {guarantee['label']}."
    if privacy["epsilon"]:
        early = chosen_by_losses(known_ending(report["utility"]["stopped_by"]))
        stated = [kind, *in_force, _epsilons(report), _EPSILON_BASIS[guarantee["kind"]]]
        return stated + [_EARLY_END] * early + _trust(guarantee)
    return [kind, *in_force, *_leakage(report)]


def _trust(guarantee: Mapping[str, Any]) -> list[str]:
    """That the server sees every update, where it does."""
    facts = known_facts(guarantee["mechanism"])
    if facts is None:
        return []
    match facts.applied_by:
        case "server":
            return [_SERVER_SEES]
        case "clients" | "local-steps":
            return []
        case _:
            assert_never(facts.applied_by)


def _took_part(privacy: Mapping[str, Any]) -> str:
    return f"A client took part in at most {privacy['participations_max']} rounds"


def _leakage(report: Mapping[str, Any]) -> list[str]:
    """The convention's figure, and beside it the distance within which it holds and the theorem's
    own sum."""
    privacy, asked = report["privacy"], report["spec"]["privacy"]
    each, most = (at_most(privacy[f"leakage_{name}"], digits=4) for name in ("per_release", "max"))
    stated = [
        f"{_took_part(privacy)}. By the convention n/nu it was charged a leakage of {each} for "
        f"each and {most} in all, and the median client {privacy['leakage_median']:.4g}."
    ]
    clip = asked["clip"]
    clipped = "are not clipped" if clip is None else f"are clipped to {number(clip)}"
    if asked["radius"] == "adaptive":
        return [*stated, f"The radius follows each update, and updates {clipped}.", _CONVENTION]
    stated.append(
        f"n/nu holds between uploads within the radius of {number(asked['radius'])}, and updates "
        f"{clipped}."
    )
    bound = privacy["log_ratio_max"]
    if bound is None:
        stated.append("Over all datasets of a client nothing is bounded.")
    else:
        several = report["spec"]["training"]["hypotheses"] > 1
        alike = " that choose the same hypothesis" if several else ""
        stated.append(
            f"Over all datasets of a client{alike} the theorem's sum is {at_most(bound, digits=4)}."
        )
    return [*stated, _THEOREM if report["guarantee"]["kind"] == "formal" else _CONVENTION]


def _epsilons(report: Mapping[str, Any]) -> str:
    stated = " and ".join(
        f"{at_most(one['value'], digits=4)} against {observer_words(one['observer'])}"
        for one in report["privacy"]["epsilon"]
    )
    guarantee = report["guarantee"]
    return (
        f"A {guarantee['unit']} spent at most an epsilon of {stated}, at delta = "
        f"{guarantee['delta']:g} under {adjacency_words(guarantee['adjacency'])}."
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
