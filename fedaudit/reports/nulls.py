"""Gaps beside what chance alone makes of them."""

from collections.abc import Mapping

from fedaudit.fairness.permutation import NO_GAP, Null, permutation_nulls, score_nulls
from fedaudit.reports.document import MetricSection, NullSection
from fedaudit.reports.material import ReportMaterial

_OTHER_TAIL = {
    "quantile_05": "of a difference the upper tail counts",
    "quantile_95": "of a ratio the lower tail counts",
}


def with_nulls(
    metrics: Mapping[str, MetricSection],
    material: ReportMaterial,
    attribute: str,
    *,
    stream: int,
    reference_group: str | None,
) -> dict[str, MetricSection]:
    """The metrics of one attribute, each with its null or the reason why it has none.

    `stream`: the attribute's place, by which its random numbers are its own.
    """
    spec, values = material.spec, material.federation.attributes[attribute]
    size, scores = spec.fairness.minimum_group_size, material.result.scores.get(attribute)
    nulls = permutation_nulls(
        material.result.fairness[attribute],
        values,
        minimum_group_size=size,
        seed=spec.seed,
        stream=stream,
        reference_group=reference_group,
        combination=material.combination(attribute),
    )
    if scores is not None:
        nulls |= score_nulls(
            scores,
            values,
            rooted=spec.training.rooted,
            minimum_group_size=size,
            seed=spec.seed,
            stream=stream,
            reference_group=reference_group,
            combination=material.combination(attribute),
        )
    return {
        name: metric.model_copy(update=_null(name, nulls.get(name, NO_GAP)))
        for name, metric in metrics.items()
    }


def _null(metric: str, found: Null | str) -> dict[str, NullSection | str | None]:
    if isinstance(found, str):
        return {"null": None, "null_reason": found}
    tails = ("quantile_05", "quantile_95")
    own, other = tails if metric.endswith("_ratio") else reversed(tails)
    section = NullSection(
        unit=found.unit,
        permutations=found.permutations,
        mean=found.mean,
        p_value=found.p_value,
        reasons={other: _OTHER_TAIL[other]},
        **{own: found.tail, other: None},
    )
    return {"null": section, "null_reason": None}
