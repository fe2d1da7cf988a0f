"""The section `privacy.between_hypotheses`: how far noise hides which hypothesis a client chose."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedaudit.arrays import Floats
from fedaudit.number_text import at_most, number
from fedaudit.privacy.accounting.privacy_events import GuaranteeKind, MechanismParameters
from fedaudit.privacy.leakage import (
    MAX_LISTED,
    MIN_RELEASES,
    clipped_reach,
    listed_pairs,
    part_distances,
)
from fedaudit.reports.checks import Check, same, value_at
from fedaudit.reports.sections.material import LedgerTotals, ReportMaterial
from fedaudit.reports.sections.part import Part, or_why, with_reasons
from fedaudit.spec.experiment import ExperimentSpec


class HypothesisPair(Part):
    """How well one release hides which of two hypotheses a client chose."""

    first: int
    second: int
    distance: float
    """Euclidean distance between the two, at the end of the run."""
    epsilon: float | None
    """n / (nu r) per unit of distance, for a fixed and public radius r."""
    epsilon_median: float | None
    """Over the releases of the best round. With an adaptive radius both are rounded up to two
    digits, so that they do not reveal the norm of any update."""
    epsilon_max: float | None
    indistinguishability_median: float | None
    """`epsilon_median` times `distance`."""
    indistinguishability: float | None
    """`epsilon_max` times `distance`: the logarithm of the largest ratio between the probabilities
    of what the server receives under the two hypotheses, for the same update. A small value hides
    the choice."""
    worst_case: float | None
    """The same for any two datasets that choose these two hypotheses, where updates are clipped."""
    guarantee: GuaranteeKind
    reasons: dict[str, str]


class BetweenHypotheses(Part):
    """How well an upload hides its client's hypothesis; the choice itself has no noise."""

    pairs: list[HypothesisPair]
    """All pairs, or with more than six hypotheses the nearest and the farthest pair."""
    pairs_in_all: int
    statement: str


_REPORTED = "clients report the hypothesis that they chose, without any noise: nothing hides it"
_SECRET_RATE = "the radius is adaptive: every release has a separate epsilon"
_BY_LAYER = "each layer has a separate epsilon; their exponents are added up"
_NO_CLIP = "updates are not clipped, so nothing bounds how far apart two of them are"
_FEW = (
    f"the best round has fewer than {MIN_RELEASES} releases: the figure would all but state the "
    "norm of one client's update"
)
_NO_ROUND = "no round was validated, so there is no best one"
_OF_ONE_NOISE = ("epsilon", "epsilon_median", "epsilon_max")
"""Figures that do not exist with noise layer by layer."""
_EXPONENTS = ("indistinguishability_median", "indistinguishability")
_FIGURES = (*_OF_ONE_NOISE, *_EXPONENTS, "worst_case")


@dataclass(frozen=True)
class Rates:
    """The epsilon of each release and part that the figures are computed from."""

    values: Floats
    """[releases, parts]; one release represents all where the radius is public."""
    public: bool

    def over(self, figures: Floats) -> tuple[float, float]:
        """Median and largest of a figure over the releases."""
        median, largest = float(np.median(figures)), float(figures.max())
        if self.public:
            return median, largest
        # Exact ones would reveal the norm of an update.
        return float(at_most(median, digits=2)), float(at_most(largest, digits=2))


def between_hypotheses(material: ReportMaterial) -> BetweenHypotheses | str:
    """The section of a run under metric privacy, or the reason why there is none."""
    hypotheses = material.hypotheses
    why = why_no_pairs(material.spec)
    if why is not None:
        return why
    if hypotheses is None:
        return "the hypotheses were not handed over"
    if not np.isfinite(hypotheses).all():
        return "a hypothesis is not finite"
    inputs, missing = material.inputs, _NO_ROUND if material.result.best_round == 0 else _FEW
    rates = rates_of(inputs, radii=material.radii)
    by_part = part_distances(hypotheses, parts=inputs.noised_sizes)
    distances = np.linalg.norm(by_part, axis=-1)
    pairs = [
        _pair(inputs, rates, pair, by_part[pair], missing=missing)
        for pair in listed_pairs(distances)
    ]
    k = len(distances)
    adaptive = inputs.radius is None
    layered = ", added up over the layers" if by_part.shape[-1] > 1 else ""
    sentences = [
        "The hypothesis that a client chose has no separate noise. Where the same update starts "
        "from one hypothesis or from another, the two uploads lie as far apart as the hypotheses. "
        + (
            "At a public epsilon what the server receives of one release would differ in "
            if adaptive
            else "What the server receives of one release then differs in "
        )
        + f"likelihood by a factor of at most exp(epsilon * distance{layered}).",
        "The distances are those at the end of the run: releases of earlier rounds started from "
        "other hypotheses, which may have lain further apart.",
        *_figures_words(pairs[0], adaptive=adaptive),
        "An exponent of several units hides next to nothing, and the exponents of a client's "
        "releases add up.",
        _bound_any_two(inputs, rates, by_part),
    ]
    if inputs.noise == "simulation":
        sentences.append(
            "This is what secret noise gives; the noise of this run can be drawn again from its "
            "seed and hides nothing."
        )
    return BetweenHypotheses(
        pairs=pairs, pairs_in_all=k * (k - 1) // 2, statement=" ".join(sentences)
    )


def why_no_pairs(spec: ExperimentSpec) -> str | None:
    """Why runs of a spec of metric privacy have no such section; None where they have one."""
    if spec.training.hypotheses == 1:
        return "there is one hypothesis, so no client chooses"
    return _REPORTED if spec.training.reports_choices else None


def rates_of(inputs: MechanismParameters, *, radii: Floats | None) -> Rates | None:
    """The rates of a public radius, or of releases with secret radii [releases, parts]. None where
    there are too few releases to be reported. Raises ValueError for inputs that are not of metric
    privacy."""
    if inputs.cost_kind != "leakage":
        raise ValueError(f"{inputs.mechanism} has no rates per unit of distance")
    if inputs.radius is not None:
        return Rates(inputs.release_epsilons(inputs.radius)[None], public=True)
    if radii is None or len(radii) < MIN_RELEASES:
        return None
    return Rates(inputs.release_epsilons(radii), public=False)


def _pair(
    inputs: MechanismParameters,
    rates: Rates | None,
    pair: tuple[int, int],
    by_part: Floats,
    *,
    missing: str,
) -> HypothesisPair:
    figures = or_why(pair_figures(by_part, rates, clip=inputs.clip), missing)
    if inputs.radius is None or inputs.clip is None:
        figures["worst_case"] = _SECRET_RATE if inputs.radius is None else _NO_CLIP
    if rates is not None and len(by_part) > 1:
        figures |= dict.fromkeys(_OF_ONE_NOISE, _BY_LAYER)
    elif inputs.radius is None:
        figures["epsilon"] = _SECRET_RATE
    return HypothesisPair(
        first=pair[0],
        second=pair[1],
        distance=float(np.linalg.norm(by_part)),
        guarantee=inputs.guarantee,
        **with_reasons(figures),
    )


def pair_figures(
    by_part: Floats, rates: Rates | None, *, clip: float | None
) -> dict[str, float | None]:
    """The figures of two hypotheses by name, from their distance within each part: [parts]. None
    for a figure that does not exist."""
    found: dict[str, float | None] = dict.fromkeys(_FIGURES)
    if rates is None:
        return found
    if len(by_part) > 1:
        summary = rates.over(rates.values @ by_part)
    else:
        # The reported epsilon is rounded, and the exponents follow from it.
        median, largest = rates.over(rates.values[:, 0])
        found |= {"epsilon_median": median, "epsilon_max": largest}
        found["epsilon"] = largest if rates.public else None
        summary = median * float(by_part[0]), largest * float(by_part[0])
    found |= zip(_EXPONENTS, summary, strict=True)
    if rates.public and clip is not None:
        reach = rates.values @ by_part + clipped_reach(rates.values, clip=clip)
        found["worst_case"] = float(reach[0])
    return found


def _figures_words(pair: HypothesisPair, *, adaptive: bool) -> Iterator[str]:
    if pair.indistinguishability is None:
        yield f"No exponent is reported: {pair.reasons['indistinguishability']}."
    elif adaptive:
        yield (
            "The figures are heuristic: the adaptive radius makes epsilon as secret as the update, "
            "and the theorem does not cover it. They are those of the releases of the best round, "
            "rounded up."
        )


def _bound_any_two(inputs: MechanismParameters, rates: Rates | None, by_part: Floats) -> str:
    """Over all pairs, listed or not: with layers the farthest pair need not have the largest
    exponent."""
    clip = inputs.clip
    if rates is None or not rates.public or clip is None:
        return "No figure bounds datasets whose updates differ as well."
    apart = float((by_part @ rates.values[0]).max())
    most = apart + float(clipped_reach(rates.values, clip=clip)[0])
    return (
        f"Between any two datasets of a client, with updates clipped to {number(clip)}, the "
        f"exponent of a release that starts from these hypotheses is at most {at_most(most)}."
    )


_MAX_VALUE = 1e300
_ROUNDING = 1e-9
_PAIRS = "privacy.between_hypotheses"


def between_checks(
    spec: ExperimentSpec,
    report: Mapping[str, Any],
    totals: LedgerTotals,
    inputs: MechanismParameters,
) -> Iterator[Check]:
    """One check of a run without an epsilon; none where the report lacks these figures."""
    between = value_at(report, *_PAIRS.split("."))
    if between is not None:
        yield Check.of(
            f"report.{_PAIRS}",
            inputs.cost_kind == "leakage" and _follow(spec, between, totals, inputs),
            good="what noise hides between hypotheses follows from their distances and the ledger",
            bad=f"{_PAIRS} does not follow from its distances, the spec and the ledger",
        )


def _follow(
    spec: ExperimentSpec, between: Any, totals: LedgerTotals, inputs: MechanismParameters
) -> bool:
    pairs, k = value_at(between, "pairs"), spec.training.hypotheses
    if why_no_pairs(spec) is not None or not isinstance(pairs, list):
        return False
    in_all = k * (k - 1) // 2
    listed = in_all if k <= MAX_LISTED else 2
    if value_at(between, "pairs_in_all") != in_all or len(pairs) != listed:
        return False
    parts = inputs.noised_sizes
    rates = rates_of(inputs, radii=totals.best_radii)
    for pair in pairs:
        distance = value_at(pair, "distance")
        if type(distance) not in (int, float) or not 0 <= distance < _MAX_VALUE:
            return False
        if len(parts) > 1:
            if not _within_reach(pair, float(distance), rates, clip=inputs.clip):
                return False
            continue
        figures = pair_figures(np.array([float(distance)]), rates, clip=inputs.clip)
        if not same({name: value_at(pair, name) for name in figures}, figures):
            return False
    return True


def _within_reach(pair: Any, distance: float, rates: Rates | None, *, clip: float | None) -> bool:
    """Whether exponents over layers are consistent with their rates and the whole distance. The
    report does not state each layer's distance. The sum of these is at least the whole distance in
    any case, and by Cauchy and Schwarz an exponent is at most the norm of the rates times it."""
    if any(value_at(pair, name) is not None for name in _OF_ONE_NOISE):
        return False
    said = {name: value_at(pair, name) for name in (*_EXPONENTS, "worst_case")}
    if rates is None:
        return all(value is None for value in said.values())
    if not all(type(said[name]) in (int, float) for name in _EXPONENTS):
        return False
    least = rates.values.min(axis=1) * distance
    most = np.linalg.norm(rates.values, axis=1) * distance
    for name, low, high in zip(_EXPONENTS, rates.over(least), rates.over(most), strict=True):
        if not low * (1 - _ROUNDING) <= said[name] <= high * (1 + _ROUNDING):
            return False
    worst = None
    if rates.public and clip is not None:
        worst = said["indistinguishability"] + float(clipped_reach(rates.values, clip=clip)[0])
    return same(said["worst_case"], worst)
