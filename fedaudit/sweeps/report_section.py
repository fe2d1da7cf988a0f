"""The figures of a report under the names that tables over several runs give them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fedaudit.privacy.accounting.privacy_events import REPORT
from fedaudit.reports.figures import COUNTED, FIGURES, figures_of, parsed
from fedaudit.reports.report import gated
from fedaudit.reports.sections.guarantee import PRIVACY_COSTS
from fedaudit.reports.sections.other_runs import RepeatsSection, SweepEpsilonSection, SweepSection
from fedaudit.reports.verdict.verdict import judged
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.gates import Gate
from fedaudit.stored import CellPlace, IndexedFigure, ReservedCost
from fedaudit.sweeps.sweep_costs import sweep_costs
from fedaudit.sweeps.sweep_table import spread

_PLACES = {name: place for place, name in enumerate(FIGURES) if name not in COUNTED}


def named_figures(figures: Iterable[IndexedFigure]) -> dict[str, float | None]:
    """Figures by name, those of an attribute as name[attribute], in the order of reports, without
    counts and epsilons against one observer: the largest of all represents them."""
    found = [one for one in figures if not one.observer and one.figure in _PLACES]
    found.sort(key=lambda one: _PLACES[one.figure])
    return {
        f"{one.figure}[{one.attribute}]" if one.attribute else one.figure: one.value
        for one in found
    }


_MISSING = "{missing} of {asked} seeds have no report: they failed, were cancelled or go on"
_NAME_CHARACTERS = 200


@dataclass(frozen=True)
class SeedFigures:
    """The figures of the report of one seed."""

    seed: int
    experiment_id: str
    figures: Mapping[str, float | None]
    """Keyed as in `shown_figures`."""


def repeated(spec: ExperimentSpec) -> list[ExperimentSpec]:
    """The specs of all seeds, the given one first, with the number of repeats; none for one seed.
    The others follow one another from the next seed on, and are repeated no further. Attacks are on
    the given one alone."""
    others = [
        spec.model_copy(
            update={
                "seed": spec.seed + step,
                "repeats": 1,
                "attacks": [],
                "name": f"{spec.name}: seed {spec.seed + step}"[:_NAME_CHARACTERS],
            }
        )
        for step in range(1, spec.repeats)
    ]
    return [spec, *others] if others else []


def shown_figures(document: Mapping[str, Any]) -> dict[str, float | None]:
    """The figures of a report by name; those of an attribute as name[attribute]."""
    return named_figures(figures_of(parsed(document)))


def repeats_section(found: Sequence[SeedFigures], *, asked: int) -> RepeatsSection:
    """The spread over the seeds that have a report, the report's own first. Privacy costs are left
    out: their mean is no bound, and all seeds together cost what the sweep says."""
    every = dict.fromkeys(name for one in found for name in one.figures)
    names = [name for name in every if name not in PRIVACY_COSTS]
    missing = asked - len(found)
    reasons = {"seeds": _MISSING.format(missing=missing, asked=asked)} if missing else {}
    metrics = {}
    for name in names:
        values = [value for one in found if (value := one.figures.get(name)) is not None]
        metrics[name] = spread(name, values)
        if len(values) < len(found):
            reasons[name] = f"{len(found) - len(values)} of {len(found)} seeds have no such figure"
    return RepeatsSection(
        seeds=[one.seed for one in found],
        asked=asked,
        experiment_ids=[one.experiment_id for one in found],
        metrics=metrics,
        reasons=reasons,
    )


def with_repeats(
    document: Mapping[str, Any], section: RepeatsSection, *, gates: Sequence[Gate]
) -> dict[str, Any]:
    """An unsigned report with the section, and with gates and a verdict that know it."""
    sections = {**document, "repeats": section.model_dump(mode="json"), "repeats_reason": None}
    sections |= gated(gates, sections)
    return {**sections, **judged(sections)}


SUMS = ("sweep_epsilon_max", "sweep_log_ratio_max", "sweep_leakage")
"""What all cells cost together; null where there is no sum, as where nothing bounds one."""
_AS_CHARGED = (
    "of all {cells} cells together, in {tries} runs{at_delta}, as charged or reserved {when}; "
    "files count as the same people, and of generated data the largest cost counts; retried cells "
    "add to it: the sweep itself (its page, GET /v1/sweeps/{{id}}) has the present sum"
)


def sweep_section(
    place: CellPlace,
    reserved: Sequence[ReservedCost],
    *,
    tries: Collection[str],
    when: str = "when this report was made",
) -> SweepSection:
    """The section; a figure's reason says since when it is what it is, which is `when`. `tries`:
    the runs of all cells, those that were tried again among them; `reserved`: what they cost."""
    costs = sweep_costs(reserved, runs=tries, facts=place.facts)
    of_training = [one for one in costs["epsilon"] if one["observer"] != REPORT]
    largest = max(of_training, key=lambda one: one["value"], default=None)
    at_delta = "" if largest is None else f" at delta = {largest['delta']:g}"
    charged = partial(_AS_CHARGED.format, cells=place.cells, tries=len(tries), when=when)
    reasons = {
        "sweep_epsilon_max": costs["reasons"].get("epsilon") or charged(at_delta=at_delta),
        "sweep_log_ratio_max": costs["reasons"].get("log_ratio_max") or charged(at_delta=""),
        "sweep_leakage": costs["reasons"].get("leakage") or charged(at_delta=""),
    }
    return SweepSection(
        id=place.sweep_id,
        name=place.name,
        cells=place.cells,
        position=place.position,
        tries=len(tries),
        values=dict(place.values),
        sweep_epsilon_max=None if largest is None else largest["value"],
        sweep_log_ratio_max=costs["log_ratio_max"],
        sweep_leakage=costs["leakage"],
        # But for `cell_max`.
        epsilon=[
            SweepEpsilonSection.model_validate(one, extra="ignore") for one in costs["epsilon"]
        ],
        **{name: place.facts[name] for name in ("noises", "guarantees", "conditions")},
        reasons=reasons,
    )


def larger_sums(now: Mapping[str, Any], stated: Mapping[str, Any]) -> list[str]:
    """The SUMS that are larger in a later section of the same sweep; None (no longer bounded)
    counts as larger than any."""
    return [
        name
        for name in SUMS
        if stated[name] is not None and (now[name] is None or now[name] > stated[name])
    ]
