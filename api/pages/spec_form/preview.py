"""What an experiment would cost, in words and figures for its author."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

import yaml

from api.pages.spec_form.cost_note import CostNote, cost_note
from api.pages.spec_form.profile_defaults import too_few_to_judge
from api.pages.wording import cost, small_number
from api.services.admission import Trial
from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.cost_projection import Projection, drowning_words
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.spec.experiment import spec_hash


@dataclass(frozen=True)
class CostLine:
    """One figure; `remark` says why it has no value, or what it is."""

    name: str
    value: str
    remark: str


@dataclass(frozen=True)
class Preview:
    """A spec that could be run, and its cost. Nothing was stored."""

    guarantee: GuaranteeKind
    mechanism: str
    note: CostNote
    """How much the worst case is."""
    lines: tuple[CostLine, ...]
    parameters: int
    clients: int
    training_clients: int
    refusal: str | None
    """Why the federation's budgets would refuse it; None where they have room, or none is set."""
    noise: str
    """Which noise mode's budgets count it."""
    is_bounded: bool
    """Whether a total is set that counts it."""
    doubts: tuple[str, ...]
    """What its report is likely to lack."""
    warnings: tuple[str, ...]
    document: str
    """The spec as YAML, every default explicit."""
    spec_hash: str


def preview(planned: ExperimentPlan, trial: Trial) -> Preview:
    """The preview of a plan, and of what its submission would meet."""
    return Preview(
        guarantee=mechanism_of(planned.spec).guarantee_kind,
        mechanism=planned.spec.privacy.mechanism,
        note=cost_note(planned),
        lines=tuple(_lines(planned)),
        parameters=planned.parameters,
        clients=planned.federation.clients,
        training_clients=planned.training_clients,
        refusal=trial.refusal,
        noise=planned.spec.privacy.noise,
        is_bounded=trial.is_bounded,
        doubts=tuple(_doubts(planned)),
        warnings=tuple(trial.warnings),
        document=as_yaml(planned.spec.model_dump(mode="json")),
        spec_hash=spec_hash(planned.spec),
    )


def as_yaml(value: dict[str, Any]) -> str:
    """A spec as YAML, in the order of its fields."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


def _doubts(planned: ExperimentPlan) -> Iterator[str]:
    spec = planned.spec
    drowned = drowning_words(
        spec,
        sizes=planned.ledger_context.inputs.noised_sizes,
        training_clients=planned.training_clients,
    )
    if drowned is not None:
        yield f"{drowned[0].upper()}{drowned[1:]}."
    fairness = spec.fairness
    asks = bool(fairness.sensitive) and fairness.intervals is not None and fairness.noise is None
    if asks and not spec.federation.holds_out_rows:
        missing = too_few_to_judge(planned.federation.clients - planned.training_clients)
        if missing is not None:
            yield missing


def _lines(planned: ExperimentPlan) -> list[CostLine]:
    projection, rounds = planned.projection, planned.spec.training.rounds
    reasons = projection.reasons
    lines = [*_cost_lines(planned), _noise_line(projection)]
    lines.append(_fairness_line(projection))
    ends = projection.budget_ends_in_round
    lines.append(
        CostLine(
            "A budget ends in round",
            "–" if ends is None else str(ends),
            reasons.get("budget_ends_in_round", f"of {rounds}: the earliest that could be refused"),
        )
    )
    return lines


def _cost_lines(planned: ExperimentPlan) -> list[CostLine]:
    projection = planned.projection
    match planned.ledger_context.inputs.cost_kind:
        case "leakage":
            return [
                CostLine(
                    "Leakage, worst case",
                    cost(projection.leakage_worst_case),
                    "of a client drawn in every round that its budget lets it take part in",
                ),
                CostLine(
                    "Theorem's sum, worst case",
                    cost(projection.log_ratio_worst_case),
                    projection.reasons.get(
                        "log_ratio_worst_case",
                        "of the same client, between any two datasets that choose alike",
                    ),
                ),
                CostLine(
                    "Leakage, expected",
                    cost(projection.leakage_expected),
                    "mean of a training client",
                ),
            ]
        case "epsilon":
            return [line for entry in projection.epsilon for line in _epsilon_lines(entry)]
        case "unbounded":
            return [CostLine("Privacy cost", "–", projection.reasons["epsilon"])]
        case other:
            assert_never(other)


def _fairness_line(projection: Projection) -> CostLine:
    entry = projection.fairness_epsilon
    if entry is None:
        why = projection.reasons["fairness_epsilon"]
        return CostLine("Epsilon of the fairness figures", "–", why)
    delta = f", at delta = {entry['delta']:g}" if entry["delta"] else ""
    return CostLine(
        "Epsilon of the fairness figures",
        cost(float(str(entry["value"]))),
        f"of one held-out {entry['unit']}, against {observer_words(str(entry['observer']))}{delta}",
    )


def _noise_line(projection: Projection) -> CostLine:
    noise = projection.noise_multiplier
    if noise is None:
        return CostLine("Noise multiplier", "–", projection.reasons["noise_multiplier"])
    return CostLine("Noise multiplier", small_number(noise), "of the mechanism; more is more noise")


def _epsilon_lines(entry: Mapping[str, Any]) -> list[CostLine]:
    observer = observer_words(entry["observer"])
    terms = f"at delta = {small_number(entry['delta'])}, {adjacency_words(entry['adjacency'])}"
    lines = [CostLine(f"Epsilon against {observer}", cost(entry["value"]), f"worst case, {terms}")]
    if "expected" in entry:
        lines.append(
            CostLine(
                f"Epsilon against {observer}, expected",
                cost(entry["expected"]),
                "mean over clients",
            )
        )
    return lines
