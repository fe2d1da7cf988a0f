"""What was spent, and how much that is."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.number_text import at_most, number
from fedaudit.privacy.accounting.privacy_events import (
    REPORT,
    CostKind,
    adjacency_words,
    observer_words,
)
from fedaudit.privacy.guarantees.cost_sentences import (
    CostLevel,
    cost_level,
    doubted_cost_words,
    guessed_words,
    level_words,
)
from fedaudit.privacy.mechanisms.base import AppliedBy
from fedaudit.privacy.mechanisms.registry import known_facts, unbounded_release
from fedaudit.reports.gates.gate_evidence import attack_evidence
from fedaudit.reports.sections.attacks import raised_alarms
from fedaudit.reports.sections.guarantee import condition_of, delta_gives_data_away, proven_cost
from fedaudit.reports.sections.utility import chosen_by_losses, known_ending
from fedaudit.spec.gates import AttackFigure

_RESTS_ON: Mapping[tuple[str, CostKind], str] = {
    ("formal", "epsilon"): "This rests on theorems about the mechanism and its accountant.",
    ("formal", "leakage"): "This rests on a theorem for the public, fixed radius.",
    ("heuristic", "epsilon"): (
        "This takes for known, or leaves to a fit, what the guarantee's statement names, and rests "
        "on no theorem as a whole."
    ),
    ("heuristic", "leakage"): "This rests on the paper's convention, not on a theorem.",
}
"""What a bound rests on, by the kinds of guarantee and cost that have one in a run's report."""
_WARM_START = (
    "Training started from an artifact whose own cost is not counted: this is what the run adds. "
    "If the artifact was trained on these people without protection, so is the model."
)
_TRUSTED: Mapping[AppliedBy, Sequence[str]] = {
    "server": ("Not protected: against the server, which sees every update and who sent it.",),
    "clients": (),
    "local-steps": (),
}
_FOUND: Mapping[AttackFigure, str] = {
    "epsilon_lower_bound": "canaries show an epsilon of at least {:.3g}",
    "membership_tpr_at_1pct": "guesses at members find {:.2%} of them where 1% is chance",
    "recovered_share": "gradient leakage recovers {:.1%} of the images it was tried on",
    "nu_protecting": "it recovers no image from a noise multiplier of {:.3g} on",
}
"""What an attack found."""


def cost_part(report: Mapping[str, Any]) -> str:
    """What was spent, and how much that is, from an otherwise complete report."""
    warm = [_WARM_START] if _starts_from_artifact(report) else []
    return " ".join([*_sentences(report), *_attacked(report), *warm, *_of_sweep(report)])


def _attacked(report: Mapping[str, Any]) -> list[str]:
    """What attacks on this model found, as far as a figure says it."""
    evidence = {figure: attack_evidence(figure, report) for figure in _FOUND}
    found = [
        _FOUND[figure].format(one.value)
        + (f" (no all-clear: {one.weakness})" if one.weakness else "")
        for figure, one in evidence.items()
        if not isinstance(one, str)
    ]
    return [f"It was attacked: {'; '.join(found)}."] if found else []


def _of_sweep(report: Mapping[str, Any]) -> list[str]:
    sweep = report.get("sweep")
    if sweep is None:
        return []
    repeated = bool(report.get("repeats"))
    which = f"The run is one of {sweep['cells']} of a sweep"
    if repeated:
        which = f"This report speaks of {sweep['cells']} runs, one for each seed"
    if sweep["sweep_epsilon_max"] is not None:
        delta = min(one["delta"] for one in sweep["epsilon"] if one["observer"] != REPORT)
        value = at_most(sweep["sweep_epsilon_max"], digits=4)
        figure = f"an epsilon of {value} at delta = {delta:g}"
        if report["spec"]["training"]["stopping"]["patience"] is not None:
            figure += ", of rounds that were played: where losses end a cell, more is proven"
    elif sweep["sweep_log_ratio_max"] is not None:
        figure = f"a theorem's sum of {at_most(sweep['sweep_log_ratio_max'], digits=4)}"
    elif sweep["sweep_leakage"] is not None:
        figure = f"a leakage of {at_most(sweep['sweep_leakage'], digits=4)}"
    else:
        return [f"{which}, and what all of them cost together is not bounded by a figure."]
    if repeated:
        return [f"{which}: what it reveals costs that of all together, {figure}."]
    chosen = f"{which}: if it was chosen among them, the cost is that of all together, {figure}"
    if (tries := sweep.get("tries")) is None:
        return [f"{chosen}."]
    return [
        f"{chosen}. That is of the {tries} runs that the sweep had when this report was signed; "
        "further ones add to it, and the sweep itself has the figure of today."
    ]


_BOUNDS = ("epsilon_max", "log_ratio_max", "leakage_max")


class Bound:
    """What the guarantee of a report bounds, if anything."""

    def __init__(self, report: Mapping[str, Any]) -> None:
        self._report = report

    @property
    def excludes_nothing(self) -> bool:
        """Whether the bound, were it in force, is too large to protect anyone."""
        return self.level in ("nothing", "unbounded")

    @property
    def is_proven(self) -> bool:
        """Whether the guarantee bounds every two datasets, by a proof."""
        figure = self.figure
        conditional = figure is not None and condition_of(self._report, figure) is not None
        formal = self._report["guarantee"]["kind"] == "formal" and not self.no_sum
        return formal and self.of_every_dataset and not conditional

    @property
    def figure(self) -> str | None:
        """The figure of costs that the report states; None where it states none."""
        return next((one for one in _BOUNDS if self._report["privacy"].get(one) is not None), None)

    @property
    def no_sum(self) -> str | None:
        """Why the costs that the report states bound nothing: no figure bounds those of all seeds
        together. None where one does, or the report is of one seed, or has no costs."""
        stated = self._report.get("repeats") and self.figure
        if not stated or self.exponent is not None:
            return None
        why = proven_cost(self._report, stated)[1]
        return f"no figure bounds what all seeds cost together: {why}"

    @property
    def level(self) -> CostLevel:
        """How much the report's guarantee is worth as a bound, were its noise secret."""
        return cost_level(self.exponent, delta=self._report["guarantee"]["delta"] or 0.0)

    @property
    def exponent(self) -> float | None:
        """The exponent of the odds between two datasets that the guarantee bounds; None if it
        bounds none. Of what is proven (`proven_cost`) the largest epsilon; for metric privacy the
        theorem's sum over all datasets if a clip bounds it, and otherwise the charge within the
        radius."""
        if self._report["guarantee"]["kind"] == "none":
            return None
        stated = (proven_cost(self._report, name)[0] for name in _BOUNDS)
        found: float | None = next((one for one in stated if one is not None), None)
        return found

    @property
    def in_words(self) -> str:
        """What `scale_words` says in a few words, of a bound between any two datasets."""
        report, guarantee = self._report, self._report["guarantee"]
        if (why := _void(report)) is not None:
            return why
        words = level_words(
            self.exponent or 0.0,
            delta=guarantee["delta"] or 0.0,
            kind=guarantee["kind"],
            in_force=guarantee["in_force"],
        )
        adds = not report.get("declared") and condition_of(report, "epsilon_max") is not None
        return f"of what this run adds alone, {words}" if adds else words

    @property
    def of_every_dataset(self) -> bool:
        """Whether something is bounded between any two datasets, and not within a radius alone."""
        privacy = self._report["privacy"]
        return bool(privacy["epsilon"]) or privacy.get("log_ratio_max") is not None


def sends_nothing(report: Mapping[str, Any]) -> bool:
    """Whether training sent nothing from any client."""
    method = report["utility"].get("method")
    return method is not None and method["sent"] is None


def _sentences(report: Mapping[str, Any]) -> list[str]:
    privacy, guarantee = report["privacy"], report["guarantee"]
    if sends_nothing(report):
        return [
            "Training sent nothing from any client, so there is no cost of it to bound. What is "
            "published of held-out people has no guarantee from it."
        ]
    if (why := Bound(report).no_sum) is not None:
        return [f"{why[0].upper()}{why[1:]}."]
    if Bound(report).exponent is None:
        how, formal = unbounded_release(guarantee["mechanism"]), "There is no privacy guarantee"
        if guarantee["kind"] == "heuristic":
            formal = "The guarantee is heuristic, not enforced as a formal one"
        took_part = _took_part(privacy, start="a")
        return [f"{formal}, so the cost is unbounded: {took_part}, each time {how}."]
    if not privacy["epsilon"]:
        return [*_leakage(report), _RESTS_ON[guarantee["kind"], "leakage"]]
    facts = known_facts(guarantee["mechanism"])
    stated = [
        epsilon_words(report),
        *(() if facts is None else _TRUSTED[facts.applied_by]),
        scale_words(report),
        f"The guarantee is {guarantee['label']}.",
        _RESTS_ON[guarantee["kind"], "epsilon"],
    ]
    if chosen_by_losses(known_ending(report["utility"]["stopped_by"])):
        planned, played = privacy.get("epsilon_planned"), at_most(privacy["epsilon_max"], digits=4)
        figure = "" if planned is None else f", {at_most(planned, digits=4)}"
        stated.append(
            f"Validation losses ended the run early, after {played}: what is proven is the larger "
            f"epsilon of all rounds that were planned{figure}."
        )
    return stated


_ADDED = "Of what this run adds alone, that is"


def scale_words(report: Mapping[str, Any]) -> str:
    """How much that is, from a report of a run or of a declared ledger; where the guarantee is not
    in force or not proven, how much it would be."""
    guarantee = report["guarantee"]
    if (why := _void(report)) is not None:
        return f"{why[0].upper()}{why[1:]}."
    bounds_every, declared = Bound(report).of_every_dataset, bool(report.get("declared"))
    sentence = doubted_cost_words(
        Bound(report).exponent,
        guessed=guessed_words(
            unit=guarantee["unit"],
            adjacency=guarantee["adjacency"] if report["privacy"]["epsilon"] else None,
            bounds_every_dataset=bounds_every,
            hypotheses=1 if declared else report["spec"]["training"]["hypotheses"],
        ),
        delta=guarantee["delta"] or 0.0,
        kind=guarantee["kind"],
        in_force=guarantee["in_force"] is not False,
        bounds_every_dataset=bounds_every,
    )
    if declared:
        return sentence.replace("That is", "If all was so, that is", 1)
    return sentence.replace("That is", _ADDED, 1) if _starts_from_artifact(report) else sentence


def _void(report: Mapping[str, Any]) -> str | None:
    """Why a bound says nothing; None where it says something."""
    if report.get("contradictions"):
        return "what was declared contradicts itself, so it bounds nothing"
    if raised_alarms(report) or (report.get("tests") or {}).get("alarm"):
        return "an attack contradicts that, so it bounds nothing"
    if delta_gives_data_away(report):
        return (
            f"a delta of {report['guarantee']['delta']:g} allows one person's data to be handed "
            "over whole, so no one in particular is protected"
        )
    return None


def _starts_from_artifact(report: Mapping[str, Any]) -> bool:
    return isinstance(report["spec"]["model"].get("start"), Mapping)


def _took_part(privacy: Mapping[str, Any], *, start: str = "A") -> str:
    most = privacy["participations_max"]
    return f"{start} client took part in at most {most} round{'' if most == 1 else 's'}"


def _leakage(report: Mapping[str, Any]) -> list[str]:
    """The convention's figure, and beside it the distance within which it holds and the theorem's
    own sum."""
    privacy, asked = report["privacy"], report["spec"]["privacy"]
    each = at_most(privacy["leakage_per_release"], digits=4)
    charged, bound = (proven_cost(report, name)[0] for name in ("leakage_max", "log_ratio_max"))
    most = "no known sum" if charged is None else at_most(charged, digits=4)
    of, median = "", f", and the median client {privacy['leakage_median']:.4g}"
    if report.get("repeats"):
        of, median = " of the first seed", " by all seeds"
    proven = "; over all datasets of a client nothing is bounded"
    within = "The radius follows each update"
    if bound is not None:
        several = report["spec"]["training"]["hypotheses"] > 1
        alike = " that choose the same hypothesis" if several else ""
        of_all = at_most(bound, digits=4)
        proven = f"; proven over all datasets of a client{alike} is only {of_all}"
    clip = asked["clip"]
    if asked["radius"] == "adaptive":
        proven = ""
    else:
        within = f"n/nu holds between uploads within the radius of {number(asked['radius'])}"
    clipped = "are not clipped" if clip is None else f"are clipped to {number(clip)}"
    return [
        f"{_took_part(privacy)}{of}. By the convention n/nu it was charged a leakage of {each} for "
        f"each and {most} in all{median}{proven}.",
        scale_words(report),
        f"{within}, and updates {clipped}.",
        f"The guarantee is {report['guarantee']['label']}.",
    ]


def epsilon_words(report: Mapping[str, Any]) -> str:
    """What was spent against each observer, from a report of a run or of a declared ledger."""
    proven = {
        one["observer"]: proven_cost(report, "epsilon_max", observer=one["observer"])[0]
        for one in report["privacy"]["epsilon"]
    }
    stated = " and ".join(
        f"{at_most(value, digits=4)} against {observer_words(observer)}"
        for observer, value in proven.items()
        if value is not None
    )
    guarantee, level = report["guarantee"], Bound(report).level
    protects = level not in ("nothing", "unbounded") and not delta_gives_data_away(report)
    # Neither what an attack contradicts, nor what covers the run's own addition alone.
    protects &= not raised_alarms(report) and condition_of(report, "epsilon_max") is None
    start = f"A {guarantee['unit']} spent"
    if protects and guarantee["in_force"] and guarantee["kind"] == "formal":
        word = "Weakly protected" if level == "nearly-all" else "Protected"
        start = f"{word}: a {guarantee['unit']}, which spent"
    return (
        f"{start} at most an epsilon of {stated}, at delta = "
        f"{guarantee['delta']:g} under {adjacency_words(guarantee['adjacency'])}."
    )
