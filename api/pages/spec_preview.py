"""What an experiment would cost, and what a fresh form begins with on chosen data."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, assert_never

import yaml

from api.pages import spec_fields as fields
from api.pages.wording import cost, plural, small_number
from api.services.experiments.admission import Trial
from fedaudit.fairness.permutation import MIN_CLIENTS
from fedaudit.federations.split import validation_clients
from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.privacy.guarantees.cost_sentences import (
    CostLevel,
    cost_level,
    cost_words,
    doubted_cost_words,
    guessed_words,
)
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.cost_projection import Projection, drowning_words
from fedaudit.reports.document.outcome_words import outcome_of_profile
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.spec.canonical import spec_hash
from fedaudit.spec.disclosure.disclosure_policy import DisclosureFloor, DisclosurePolicy
from fedaudit.spec.sources import Source
from models.tables.federations import Federation

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


def demanded(
    typed: Mapping[str, str], policy: DisclosurePolicy, floor: DisclosureFloor
) -> dict[str, str]:
    """Texts by field, in the place of those in `typed` that would be refused."""
    found = {}
    for name, least in vars(floor).items():
        pointer = f"/fairness/{name}"
        bounds = (int(typed[pointer]), least, getattr(policy, name) or 1)
        found[pointer] = str(max(bounds))
    if policy.split is not None:
        found["/seed"] = str(policy.split.seed)
        found["/federation/validation_fraction"] = repr(policy.split.validation_fraction)
    return found


_MOST_DRAWN = 70
_SHARE = "/federation/validation_fraction"
_DEFAULT_SHARE = float(Source.model_fields["validation_fraction"].default)


@dataclass(frozen=True)
class ProfileDefaults:
    """Texts by field, and in words why."""

    typed: dict[str, str]
    notes: tuple[str, ...]


def profile_defaults(row: Federation, policy: DisclosurePolicy) -> ProfileDefaults:
    """The defaults for a federation that is ready; what its policy fixes goes before."""
    registration, profile = row.registration or {}, row.profile or {}
    model, about_model = _model(profile)
    typed = {fields.SOURCE: row.id, "/name": row.name, fields.WHOSE_GROUPS: "source", **model}
    notes = [about_model] if about_model else []
    if clients := int(profile.get("clients", 0)):
        split, about_split = _split(clients, registration.get("federation", {}), policy)
        typed |= split
        notes += about_split
    registered = registration.get("fairness", {})
    if sensitive := registered.get("sensitive"):
        typed |= _smallest_groups(registered, policy)
        notes.append(f"Sensitive attributes, as registered: {', '.join(sensitive)}.")
        favourable = outcome_of_profile(profile, registration)
        if favourable is not None:
            notes.append(f"Favourable outcome, as registered: {favourable}.")
        elif not profile.get("classes"):
            notes.append(
                "No favourable outcome is registered, and a number has none by itself: under "
                "Fairness choose Others and give a rule."
            )
    return ProfileDefaults(typed, tuple(notes))


def _model(profile: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """The plainest model of the target and its loss; nothing where the profile names no target."""
    if "target" not in profile:
        return {}, ""
    target, classes = profile["target"], profile.get("classes") or ()
    if classes:
        kind, loss, what = "logistic", "cross-entropy", plural(len(classes), "class", "classes")
    else:
        kind, loss, what = "linear", "rmse", "a number"
    start = {"/model/kind": kind, "/model/start": "", "/training/loss": loss}
    return start, f"The target, {target}, is {what}: {kind} with {loss}."


def _split(
    clients: int, source: Mapping[str, Any], policy: DisclosurePolicy
) -> tuple[dict[str, str], list[str]]:
    """How many clients are held out, and how many are drawn of those that train."""
    if source.get("validation_unit", "client") == "record":
        cohort = _cohort(clients)
        return cohort, [_drawn(cohort, clients, held_out="rows of every client")]
    if clients < 2:
        return {}, []
    share = float(source.get("validation_fraction", _DEFAULT_SHARE))
    if policy.split is not None:
        share = policy.split.validation_fraction
    elif validation_clients(clients, validation_fraction=share) < MIN_CLIENTS:
        share = _share_to_judge(clients) or share
    held_out = validation_clients(clients, validation_fraction=share)
    cohort, training = _cohort(clients - held_out), clients - held_out
    notes = [_drawn(cohort, training, held_out=plural(held_out, "client"))]
    if missing := too_few_to_judge(held_out):
        notes.append(missing)
    return {_SHARE: f"{share:.6g}", **cohort}, notes


def too_few_to_judge(held_out: int) -> str | None:
    """Why gaps of so many held-out clients are hard to judge; None where they are enough."""
    if held_out >= MIN_CLIENTS:
        return None
    return (
        f"Gaps will be hard to judge: {plural(held_out, 'client')} held out, whose intervals are "
        f"wide, and comparing clients with chance needs {MIN_CLIENTS}."
    )


def _share_to_judge(clients: int) -> float | None:
    """The smallest share, in hundredths, that holds out enough; None where more than half would
    go."""
    for hundredths in range(1, 51):
        share = hundredths / 100
        if validation_clients(clients, validation_fraction=share) >= MIN_CLIENTS:
            return share
    return None


def _cohort(training: int) -> dict[str, str]:
    """Half of the clients that train, but enough for two hypotheses where there are two."""
    drawn = min(_MOST_DRAWN, max(training // 2, min(2, training)))
    return {"/training/cohort/clients": str(drawn)}


def _drawn(cohort: Mapping[str, str], training: int, *, held_out: str) -> str:
    drawn = cohort["/training/cohort/clients"]
    return f"Held out: {held_out}. Of {plural(training, 'client')} that train, {drawn} are drawn."


def _smallest_groups(registered: Mapping[str, Any], policy: DisclosurePolicy) -> dict[str, str]:
    """What the policy demands, else what was registered; the service's floor is applied later."""
    found = {}
    for name in ("minimum_group_size", "minimum_group_clients"):
        size = getattr(policy, name)
        if size is None:
            size = registered.get(name)
        if size is not None:
            found[f"/fairness/{name}"] = str(size)
    return found
