"""What an experiment would cost, and what a fresh form begins with on chosen data."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, assert_never

import yaml

from api.pages import experiment_form as fields
from api.pages.wording import cost, plural, small_number
from api.services.submission import Trial
from fedaudit.number_text import at_most
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.privacy.guarantees.cost_sentences import cost_words
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.cost_projection import Projection, drowning_words
from fedaudit.reports.checks import leaves
from fedaudit.reports.sections.guarantee import delta_gives_data_away
from fedaudit.reports.sections.outcome_words import outcome_of_profile
from fedaudit.reports.sections.part import FigureRow
from fedaudit.reports.verdict.cost import Bound, scale_words
from fedaudit.runs.declared_facts import nearest_power_of_two
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.runs.proposed_experiment import ProposedExperiment
from fedaudit.spec.experiment import spec_hash
from fedaudit.utility import MIN_CLIENTS
from models.tables.federations import Federation

Tone = Literal["good", "note", "warn"]


def as_yaml(value: dict[str, Any]) -> str:
    """A spec as YAML, in the order of its fields."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


def preview(planned: ExperimentPlan, trial: Trial) -> dict[str, Any]:
    """A spec that could be run, its cost, and what its submission would meet. `doubts`: what its
    report is likely to lack; `document`: the spec, every default explicit."""
    return {
        "planned": planned,
        "trial": trial,
        "guarantee": mechanism_of(planned.spec).guarantee_kind,
        "note": _cost_note(planned),
        "lines": list(_lines(planned)),
        "doubts": list(_doubts(planned)),
        "document": as_yaml(planned.spec.model_dump(mode="json")),
        "spec_hash": spec_hash(planned.spec),
    }


def _cost_note(planned: ExperimentPlan) -> dict[str, Any]:
    """The worst case on the scale of costs, which says of no cost more than its report could. The
    tone is good only of a small bound that is proven and would be in force; `holds`: whether it is
    proven, would be in force, and excludes something."""
    report = _as_reported(planned)
    level = Bound(report).level
    proven = bool(report["guarantee"]["in_force"]) and Bound(report).is_proven
    match level:
        case "unbounded":
            return {"words": cost_words(None, guessed=""), "tone": "warn", "holds": False}
        case "nothing":
            tone: Tone = "warn"
        case "nearly-all":
            tone = "note"
        case "up-to-75" | "up-to-95":
            tone = "good" if proven else "note"
        case _:
            assert_never(level)
    if delta_gives_data_away(report):
        tone = "warn"
    return {"words": scale_words(report), "tone": tone, "holds": proven and tone != "warn"}


def _as_reported(planned: ExperimentPlan) -> dict[str, Any]:
    """What a report of all planned rounds states of the cost, in the worst case."""
    projection, inputs = planned.projection, planned.ledger_context.inputs
    guarantee = mechanism_of(planned.spec).guarantee(n=inputs.n, layers=inputs.component_sizes)
    epsilon = projection.epsilon
    return {
        "guarantee": vars(guarantee),
        "privacy": {
            "epsilon": epsilon,
            "epsilon_max": max((float(str(one["value"])) for one in epsilon), default=None),
            "log_ratio_max": projection.log_ratio_worst_case,
            "leakage_max": projection.leakage_worst_case,
        },
        "data": {"rows": planned.federation.rows, "training_clients": planned.training_clients},
        "spec": planned.spec.model_dump(mode="json"),
    }


def _doubts(planned: ExperimentPlan) -> Iterator[str]:
    spec = planned.spec
    drowned = drowning_words(
        spec,
        sizes=planned.ledger_context.inputs.noised_sizes,
        training_clients=planned.training_clients,
        rows=nearest_power_of_two(planned.federation.rows / planned.federation.clients),
        noise_multiplier=planned.projection.noise_multiplier,
    )
    if drowned is not None:
        yield f"{drowned[0].upper()}{drowned[1:]}."
    fairness = spec.fairness
    asks = bool(fairness.sensitive) and fairness.intervals is not None and fairness.noise is None
    if asks and not spec.federation.holds_out_rows:
        held_out = planned.federation.clients - planned.training_clients
        if held_out < MIN_CLIENTS:
            yield (
                f"Gaps will be hard to judge: {plural(held_out, 'client')} held out, whose "
                f"intervals are wide; {MIN_CLIENTS} or more are better. Hold out rows of every "
                "client instead (Held out, under Data): all then train, and each is measured."
            )


def _lines(planned: ExperimentPlan) -> Iterator[FigureRow]:
    projection, rounds = planned.projection, planned.spec.training.rounds
    reasons = projection.reasons
    yield from _cost_lines(planned)
    noise = projection.noise_multiplier
    remark = "of the mechanism; more is more noise"
    if getattr(planned.spec.privacy, "target", None) is not None:
        remark = "found for the budget that was asked for"
    remark = reasons["noise_multiplier"] if noise is None else remark
    yield FigureRow("Noise multiplier", "–" if noise is None else small_number(noise), remark)
    yield _fairness_line(projection)
    ends = projection.budget_ends_in_round
    yield FigureRow(
        "The earliest round that a budget may refuse",
        "–" if ends is None else str(ends),
        reasons.get("budget_ends_in_round", f"of {rounds}"),
    )


def _cost_lines(planned: ExperimentPlan) -> Iterator[FigureRow]:
    projection, reasons = planned.projection, planned.projection.reasons
    match planned.ledger_context.inputs.cost_kind:
        case "leakage":
            drawn = "of a client drawn in every round that its budget lets it take part in"
            alike = "of the same client, between any two datasets that choose alike"
            alike = reasons.get("log_ratio_worst_case", alike)
            worst, theorem = projection.leakage_worst_case, projection.log_ratio_worst_case
            expected = cost(projection.leakage_expected)
            yield FigureRow("Leakage, worst case", cost(worst), drawn)
            yield FigureRow("Theorem's sum, worst case", cost(theorem), alike)
            yield FigureRow("Leakage, expected", expected, "mean of a training client")
        case "epsilon":
            for entry in projection.epsilon:
                yield from _epsilon_lines(entry)
        case "unbounded":
            yield FigureRow("Privacy cost", "–", reasons["epsilon"])
        case other:
            assert_never(other)


def _fairness_line(projection: Projection) -> FigureRow:
    name, entry = "Epsilon of the fairness figures", projection.fairness_epsilon
    if entry is None:
        return FigureRow(name, "–", projection.reasons["fairness_epsilon"])
    delta = f", at delta = {entry['delta']:g}" if entry["delta"] else ""
    observer = observer_words(str(entry["observer"]))
    remark = f"of one held-out {entry['unit']}, against {observer}{delta}"
    return FigureRow(name, cost(float(str(entry["value"]))), remark)


def _epsilon_lines(entry: Mapping[str, Any]) -> Iterator[FigureRow]:
    name = f"Epsilon against {observer_words(entry['observer'])}"
    terms = f"at delta = {small_number(entry['delta'])}, {adjacency_words(entry['adjacency'])}"
    yield FigureRow(name, cost(entry["value"]), f"worst case, {terms}")
    if "expected" in entry:
        yield FigureRow(f"{name}, expected", cost(entry["expected"]), "mean over clients")


def profile_defaults(
    row: Federation, found: ProposedExperiment
) -> tuple[dict[str, str], tuple[str, ...]]:
    """What a proposal for a federation says, as the texts of the form; and why."""
    registration, profile = row.registration or {}, row.profile or {}
    stated = {f"/{path.replace('.', '/')}": value for path, value in leaves(found.spec)}
    typed = {fields.SOURCE: row.id, fields.MECHANISM: found.spec["privacy"]["mechanism"]}
    for one in fields.FIELDS:
        if one.pointer in stated or one.pointer.startswith(_PROPOSED):
            typed[one.pointer] = fields.text_of(one, stated.get(one.pointer))
    notes = []
    for why in found.reasons:
        label = fields.LABELS.get(why.pointer, why.pointer.rpartition("/")[2].replace("_", " "))
        notes.append(f"{label}: {why.reason}.")
    if found.needs:
        notes.insert(0, f"No useful model is expected: {found.needs}.")
    notes += [_cost_stated(found.projection)]
    if sensitive := registration.get("fairness", {}).get("sensitive"):
        favourable = outcome_of_profile(profile, registration)
        notes.append(f"Sensitive attributes, as registered: {', '.join(sensitive)}.")
        notes.append(f"Favourable outcome, as registered: {favourable or 'none'}.")
    return typed, tuple(notes)


_PROPOSED = ("/training/local/", "/privacy/noise_multiplier")
"""Where fields begin that are emptied if the proposal leaves them out."""


def _cost_stated(projection: Projection) -> str:
    """What the proposal would cost, in the worst case."""
    if projection.leakage_worst_case is not None:
        most = at_most(projection.leakage_worst_case, digits=3)
        return f"Projected: a leakage of at most {most}."
    if not projection.epsilon:
        return "Projected: nothing bounds what this run reveals."
    most = at_most(max(float(str(entry["value"])) for entry in projection.epsilon), digits=3)
    delta = small_number(float(str(projection.epsilon[0]["delta"])))
    return f"Projected: an epsilon of at most {most} at delta = {delta}."
