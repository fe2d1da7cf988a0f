"""How much a projected cost is, in a sentence and in a colour."""

from dataclasses import dataclass
from typing import Literal, assert_never

from fedaudit.privacy.guarantees.cost_sentences import (
    CostLevel,
    cost_level,
    cost_words,
    doubted_cost_words,
    guessed_words,
)
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.runs.experiment_plan import ExperimentPlan

Tone = Literal["good", "note", "warn"]


@dataclass(frozen=True)
class CostNote:
    """The worst case on the scale of costs."""

    words: str
    tone: Tone
    """`good` only of a small bound that is proven, and would be in force."""
    holds: bool
    """Whether it is proven, would be in force, and excludes something."""


def cost_note(planned: ExperimentPlan) -> CostNote:
    """The note on a plan; it says of no cost more than its report could."""
    mechanism, exponent = mechanism_of(planned.spec), _bounding_exponent(planned)
    kind, in_force = mechanism.guarantee_kind, mechanism.noise_is_secret
    if kind == "none" or exponent is None:
        return CostNote(cost_words(None, guessed=""), "warn", holds=False)
    projection = planned.projection
    of_epsilon = projection.epsilon[0] if projection.epsilon else None
    bounds_every_dataset = of_epsilon is not None or projection.log_ratio_worst_case is not None
    delta = 0.0 if of_epsilon is None else float(str(of_epsilon["delta"]))
    words = doubted_cost_words(
        exponent,
        guessed=guessed_words(
            unit=mechanism.facts.unit,
            adjacency=None if of_epsilon is None else str(of_epsilon["adjacency"]),
            bounds_every_dataset=bounds_every_dataset,
            hypotheses=planned.spec.training.hypotheses,
        ),
        delta=delta,
        kind=kind,
        in_force=in_force,
        bounds_every_dataset=bounds_every_dataset,
        is_epsilon=of_epsilon is not None,
    )
    proven = kind == "formal" and in_force and bounds_every_dataset
    tone = _tone(cost_level(exponent, delta=delta), proven=proven)
    return CostNote(words, tone, holds=proven and tone != "warn")


def _bounding_exponent(planned: ExperimentPlan) -> float | None:
    """The worst case, as a report takes it: the largest epsilon, else the theorem's sum where there
    is one, else what is charged within the radius."""
    projection = planned.projection
    if projection.epsilon:
        return max(float(str(entry["value"])) for entry in projection.epsilon)
    if projection.log_ratio_worst_case is not None:
        return projection.log_ratio_worst_case
    return projection.leakage_worst_case


def _tone(level: CostLevel, *, proven: bool) -> Tone:
    match level:
        case "up-to-75" | "up-to-95":
            return "good" if proven else "note"
        case "nearly-all":
            return "note"
        case "nothing" | "unbounded":
            return "warn"
        case _:
            assert_never(level)
