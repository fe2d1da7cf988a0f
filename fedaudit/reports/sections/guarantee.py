"""The section `guarantee`: who is protected against whom, how far, and what that does not show."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from fedaudit.number_text import at_most
from fedaudit.privacy.count_release import held_out_units
from fedaudit.privacy.guarantees.guarantee import Guarantee, start_limit
from fedaudit.privacy.mechanisms.registry import bounds_nothing, known_facts, mechanism_of
from fedaudit.privacy.planning.plan import SubjectKind
from fedaudit.privacy.records.record_use import RecordSpending
from fedaudit.reports.checks import Check, agrees, same, shown, value_at
from fedaudit.reports.sections.epsilon import planned, records_section, spent
from fedaudit.reports.sections.material import ReportMaterial, RunEvidence
from fedaudit.reports.sections.part import Part, Section, number_or_some
from fedaudit.reports.sections.privacy import stated_layers
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec


class GuaranteeSection(Guarantee, Part):
    """Who is protected against whom, and how far."""


_ROUNDING = 1e-12


def is_in_force(report: Mapping[str, Any]) -> bool:
    """Whether the guarantee protects anyone: there is one, and the noise was secret. The spec
    decides, not what the report states of itself: its own statement cannot make it better."""
    secret = report["spec"]["privacy"].get("noise") == "release"
    return bool(report["guarantee"]["kind"] != "none" and secret)


def counts_give_data_away(report: Mapping[str, Any]) -> bool:
    """The same as `delta_gives_data_away` of the noised counts of held-out people."""
    noised = report.get("fairness_privacy")
    if noised is None:
        return False
    return bool(noised["delta"] * held_out_units(report["data"], unit=noised["unit"]) >= 1)


def delta_gives_data_away(report: Mapping[str, Any], *, delta: float | None = None) -> bool:
    """Whether delta is so large that one person's data may be handed over whole: at least one in as
    many units as train. `delta`: by default that of the guarantee."""
    guarantee = report["guarantee"]
    if report.get("declared"):
        units = report["terms"]["population"]
    else:
        data = report["data"]
        units = data["rows"] if guarantee["unit"] == "record" else data["training_clients"]
    held = guarantee["delta"] if delta is None else delta
    return bool((held or 0.0) * units >= 1)


def guarantee_words(guarantee: Mapping[str, Any]) -> str:
    """The label of a section, or of its copy in a list, and whether it is not in force."""
    label = str(guarantee.get("label") or guarantee["kind"])
    suspended = guarantee["kind"] != "none" and guarantee.get("in_force") is False
    return f"{label}, not in force" if suspended else label


def condition_of(report: Mapping[str, Any], figure: str) -> str | None:
    """Why this figure of a formal guarantee bounds some datasets only; None where it bounds all."""
    found: str | None = report["guarantee"]["conditions"].get(figure)
    return found


def beyond_radius(privacy: Mapping[str, Any]) -> str | None:
    """Why n/nu does not bound all datasets, by the figures of a section; None where it does."""
    charged, bound = privacy.get("leakage_max"), privacy.get("log_ratio_max")
    # Where 2c = r the two are equal, but for rounding.
    if charged is None or (bound is not None and bound <= charged * (1 + _ROUNDING)):
        return None
    return (
        "n/nu holds within the radius, and the report does not show that a clip keeps uploads there"
    )


_CHARGES_EVERYONE: Mapping[SubjectKind, bool] = {
    "client": False,
    "population": True,
    "record_group": False,
}


def charges_everyone(mechanism: str | None) -> bool:
    """Whether every client is charged for every round because participation is secret. The name is
    a stored one; False for a name that this version does not know."""
    facts = known_facts(mechanism)
    return facts is not None and _CHARGES_EVERYONE[facts.subject_kind]


PRIVACY_COSTS = (
    "leakage_median",
    "leakage_max",
    "leakage_per_release",
    "log_ratio_max",
    "epsilon_max",
)


OF_ALL_SEEDS: Mapping[str, str] = {
    "epsilon_max": "sweep_epsilon_max",
    "log_ratio_max": "sweep_log_ratio_max",
    "leakage_max": "sweep_leakage",
}
"""Costs of one run, and what all seeds of a report cost together."""
_NO_MEDIAN = "what all seeds cost the median client together is not known"


def proven_cost(
    report: Mapping[str, Any], figure: str, *, observer: str = ""
) -> tuple[float | None, str | None]:
    """What is proven of a cost that a report states of its run, and what is to be said beside it;
    None with the reason. Where a report speaks of several seeds, they cost what all cost together;
    where losses ended the run early, it is the epsilon of all planned rounds. Whatever states,
    lists, compares or judges a cost asks here. `observer`: of an epsilon; by default the largest.
    """
    privacy = report["privacy"]
    stated, reason = privacy.get(figure), privacy.get("reasons", {}).get(figure)
    if observer:
        [stated] = (one["value"] for one in privacy["epsilon"] if one["observer"] == observer)
    if stated is None:
        return None, reason
    if report.get("repeats"):
        if figure == "leakage_median":
            return None, _NO_MEDIAN
        if figure in OF_ALL_SEEDS:
            name, sweep = OF_ALL_SEEDS[figure], report["sweep"]
            of_observer = [one["value"] for one in sweep["epsilon"] if one["observer"] == observer]
            found = max(of_observer, default=None) if observer else sweep[name]
            return found, sweep["reasons"].get(name)
    planned = privacy.get("epsilon_planned")
    if figure != "epsilon_max" or planned is None:
        return stated, reason
    return max(stated, planned), (
        "of all planned rounds, which is what is proven where validation losses ended the run "
        f"early; those that were played spent {at_most(stated, digits=4)}"
    )


def is_unbounded(guarantee_kind: str, mechanism: str | None, figure: str) -> bool:
    """Whether this figure is a cost of a run without protection, so that nothing bounds it."""
    return figure in PRIVACY_COSTS and (guarantee_kind == "none" or bounds_nothing(mechanism))


def guarantee_of(material: ReportMaterial) -> Guarantee:
    """The guarantee of the run, with what it spent."""
    return mechanism_of(material.spec).guarantee(
        n=material.inputs.n,
        epsilons=spent(material),
        planned=planned(material),
        layers=material.inputs.component_sizes,
    )


_NOISE = "report.noise_multiplier"
_DIGITS = 1e-6
"""Relative: another library or machine may calibrate noise to slightly different digits."""


def noise_checks(spec: ExperimentSpec, report: Mapping[str, Any]) -> Iterator[Check]:
    """Whether the stated noise multiplier follows from the spec."""
    stated = value_at(report, "privacy", "noise_multiplier")
    try:
        found = mechanism_of(spec).noise_multiplier()
    except InvalidInputError as error:
        yield Check.failed(_NOISE, f"no noise follows from the spec: {error}")
        return
    known = None if isinstance(found, str) else found
    yield Check.of(
        _NOISE,
        same(stated, known, digits=_DIGITS),
        good="privacy.noise_multiplier follows from the spec",
        bad=f"privacy.noise_multiplier is {shown(stated)} in the report and {shown(known)} by "
        "the spec",
    )


_CHANCE = 2.0**-34
"""Chance that a noised number differs from one with real noise that is independent over rounds;
docs/guarantees.md says why."""


def floating_point_limits(material: ReportMaterial) -> list[str]:
    """What the numbers of this run's noise are, in double precision and rounded to a grid, and the
    chance by which they miss the theorem. Normal numbers have series with proven errors; the norm
    of Laplace noise takes the logarithm of a library."""
    mechanism = mechanism_of(material.spec)
    law, condition = mechanism.facts.noise_law, ""
    match law:
        case "laplace":
            condition = ", if the library's logarithm is right to one unit in the last place"
        case "gaussian":
            pass
        case "none":
            return []
        case _:
            assert_never(law)
    numbers = mechanism.noised_numbers(material.inputs.n)
    found = [
        "The mechanism is proven for real numbers. Noise is drawn in double precision from 64 "
        "random bits a number, and what has it is rounded to a public grid of 2^-12 to 2^-11 of "
        "its standard deviation, so that low bits (Mironov 2012) show nothing. No figure counts "
        f"that {mechanism.facts.noise_origin.noised}, {numbers:,} numbers, may be other than with "
        f"real noise, with a chance of at most {_above(numbers * _CHANCE)}{condition}; nor how "
        "long anything takes."
    ]
    if material.inputs.radius_floor is not None:
        found.append(
            "The radius is adaptive and the grid that of its floor, which is public: the chance is "
            "as many times as large as a radius is larger than the floor."
        )
    if mechanism.facts.unit == "record":
        found.append(
            "Gradients of records are computed in single precision and added up in double. Of "
            "networks with convolutions, or with a layer of more than 256 weights, a record's "
            "gradient may be rounded otherwise for the records beside it in a batch; that this "
            "moves no sum by more than the clip is measured, and not proven."
        )
    return found


def _above(chance: float) -> str:
    """Two digits, rounded up."""
    exponent = math.floor(math.log10(chance)) - 1
    return f"{math.ceil(chance / 10.0**exponent) * 10.0**exponent:.1e}"


SIMULATED = (
    "The noise was simulated and can be drawn again from the seed in the spec: the model of this "
    "run is protected by nothing and must not be released. This report is itself unprotected: "
    "losses, accuracy, gaps and every round's figures follow from training data, and anyone with "
    "two candidate datasets can replay the seed and see which one gives them."
)


def delta_limits(delta: float, units: int, unit: str) -> list[str]:
    """That delta is not below one in so many units, called so."""
    if delta * units < 1:
        return []
    return [
        f"delta = {delta:g} is not below one in the {units} {unit}: a mechanism that hands "
        "over somebody's data whole could satisfy it. Take delta well below that."
    ]


def _limit_records(material: ReportMaterial, records: RecordSpending) -> Iterator[str]:
    section = records_section(material, records)
    if section.overspent != 0:
        over = number_or_some(section.overspent)
        yield f"{over} records spent more than their own budgets allow."
    if section.left_out != 0:
        yield (
            f"{number_or_some(section.left_out)} records were never sampled: their budgets are "
            "too small for the accountant, or the baseline drops them. The model has learnt "
            "nothing from them."
        )


_EVER_STATED = ("kind", "mechanism", "unit", "delta")
"""Fields that reports of every version state."""


def _guarantee_checks(found: RunEvidence) -> Iterator[Check]:
    if found.spec is not None:
        if found.parameters is not None:
            yield from _checks_of_claim(found.spec, found.report, found.parameters)
        yield from noise_checks(found.spec, found.report)


def _checks_of_claim(
    spec: ExperimentSpec, report: Mapping[str, Any], parameters: int
) -> Iterator[Check]:
    try:
        found = mechanism_of(spec).guarantee(n=parameters, layers=stated_layers(spec, report))
    except (ValueError, OverflowError, InvalidInputError):
        return  # `ledger.inputs` says that parameters or layers are not those of the entries
    by_spec: dict[str, Any] = {name: getattr(found, name) for name in _EVER_STATED}
    by_spec["observers"] = list(found.observers)
    for name in ("label", "in_force", "conditions"):
        if value_at(report, "guarantee", name) is not None:
            by_spec[name] = getattr(found, name)
    if found.delta is not None:  # of metric privacy it is a sentence, which versions word
        by_spec["adjacency"] = found.adjacency
    for name, value in by_spec.items():
        yield agrees(report, f"guarantee.{name}", value, name=f"report.guarantee.{name}")


def _guarantee_limits(material: ReportMaterial) -> Iterator[str]:
    mechanism, inputs, plan = mechanism_of(material.spec), material.inputs, material.plan
    if (start := start_limit(material.spec.model.start)) is not None:
        yield start
    match inputs.cost_kind:
        case "epsilon":
            if plan is None:
                raise ValueError("a report of an epsilon needs the spending plan of its run")
            yield (
                f"Epsilon bounds how much one {mechanism.facts.unit} can raise the probability of "
                "any outcome: by a factor of at most exp(epsilon), plus delta."
            )
            units, unit = material.federation.training_clients, "clients"
            if plan.records is not None:
                units, unit = len(plan.records.group_of), "training records"
            yield from delta_limits(plan.delta, units, unit)
        case "leakage":
            yield (
                "Leakage is metric privacy: a cost within a distance. It is not the epsilon of "
                "(epsilon, delta)-differential privacy and must not be compared with it or added "
                "to it."
            )
        case "unbounded":
            pass
        case _:
            assert_never(inputs.cost_kind)
    if inputs.noise == "simulation" and mechanism.facts.noise_law != "none":
        yield SIMULATED
    yield from mechanism.limits()
    if inputs.cost_kind == "unbounded":
        return
    if inputs.cost_kind == "epsilon":
        if plan is not None and plan.records is not None:
            yield from _limit_records(material, plan.records)
        yield (
            "Epsilon covers this training alone: where its settings were chosen by earlier runs on "
            "the same data, those runs and the choice have a separate cost, which is not in it."
        )
    yield from floating_point_limits(material)
    if material.withheld:
        yield (
            f"{material.withheld} updates were withheld for not being finite; that they were "
            "depends on the data and is not covered by the guarantee."
        )


GUARANTEE = Section[ReportMaterial, RunEvidence](
    "guarantee",
    lambda material: GuaranteeSection(**vars(guarantee_of(material))),
    _guarantee_checks,
    _guarantee_limits,
)
