"""One spec with several seeds: its runs, and what the first one's report says of all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedaudit.reports.figures import figures_of, parsed
from fedaudit.reports.sections.guarantee import PRIVACY_COSTS
from fedaudit.reports.sections.other_runs import RepeatsSection, SpreadSection
from fedaudit.reports.verdict.verdict import verdict, verdict_parts
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.sweeps.named_figures import named_figures
from fedaudit.sweeps.seed_spread import spread

_MISSING = "{missing} of {asked} seeds have no report: they failed, were cancelled or go on"
_NAME_CHARACTERS = 200


@dataclass(frozen=True)
class SeedFigures:
    """The figures of the report of one seed."""

    seed: int
    experiment_id: str
    figures: Mapping[str, float | None]
    """As `shown_figures` names them."""


def repeated(spec: ExperimentSpec) -> list[ExperimentSpec]:
    """The specs of all seeds, the given one first, with the number of repeats; none for one seed.

    The others follow one another from the next seed on, and are repeated no further. Attacks are
    on the given one alone.
    """
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
    """The spread over the seeds that have a report, the report's own first.

    Privacy costs are left out: their mean is no bound, and all seeds together cost what the sweep
    says.
    """
    every = dict.fromkeys(name for one in found for name in one.figures)
    names = [name for name in every if name not in PRIVACY_COSTS]
    missing = asked - len(found)
    reasons = {"seeds": _MISSING.format(missing=missing, asked=asked)} if missing else {}
    metrics = {}
    for name in names:
        values = [value for one in found if (value := one.figures.get(name)) is not None]
        metrics[name] = SpreadSection(**spread(name, values))
        if len(values) < len(found):
            reasons[name] = f"{len(found) - len(values)} of {len(found)} seeds have no such figure"
    return RepeatsSection(
        seeds=[one.seed for one in found],
        asked=asked,
        experiment_ids=[one.experiment_id for one in found],
        metrics=metrics,
        reasons=reasons,
    )


def with_repeats(document: Mapping[str, Any], section: RepeatsSection) -> dict[str, Any]:
    """An unsigned report with the section, and a verdict that knows it."""
    sections = {**document, "repeats": section.model_dump(mode="json"), "repeats_reason": None}
    parts = verdict_parts(sections)
    return {**sections, "verdict": verdict(parts), "verdict_parts": parts.model_dump(mode="json")}
