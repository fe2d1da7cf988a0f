"""Gaps compared with the gaps that chance alone produces."""

from collections.abc import Mapping

from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.permutation import NO_GAP, Null, permutation_nulls, score_nulls
from fedaudit.reports.document.document import MetricSection, NullSection
from fedaudit.reports.document.material import ScoredMaterial
from fedaudit.spec.metrics import is_ratio

_OTHER_TAIL = {
    "quantile_05": "of a difference the upper tail counts",
    "quantile_95": "of a ratio the lower tail counts",
}


def with_nulls(
    metrics: Mapping[str, MetricSection],
    material: ScoredMaterial,
    attribute: str,
    disclosure: Disclosure,
    *,
    stream: int,
) -> dict[str, MetricSection]:
    """The metrics of one attribute, each with its null or the reason why it has none.

    `stream`: the attribute's position, which gives it random numbers of its own.
    """
    seed, scores = material.spec.seed, material.result.scores.get(attribute)
    nulls = permutation_nulls(
        material.result.fairness[attribute], disclosure, seed=seed, stream=stream
    )
    if scores is not None:
        nulls |= score_nulls(
            scores, disclosure, root_mean=material.spec.training.root_mean, seed=seed, stream=stream
        )
    return {
        name: metric.model_copy(update=_null(name, nulls.get(name, NO_GAP)))
        for name, metric in metrics.items()
    }


def _null(metric: str, found: Null | str) -> dict[str, NullSection | str | None]:
    if isinstance(found, str):
        return {"null": None, "null_reason": found}
    tails = ("quantile_05", "quantile_95")
    own, other = tails if is_ratio(metric) else reversed(tails)
    section = NullSection(
        unit=found.unit,
        permutations=found.permutations,
        mean=found.mean,
        p_value=found.p_value,
        reasons={other: _OTHER_TAIL[other]},
        **{own: found.tail, other: None},
    )
    return {"null": section, "null_reason": None}
