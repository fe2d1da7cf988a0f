"""Pareto fronts of reports over privacy, fairness and utility.

A front holds experiments whose privacy figures mean the same: one family, guarantee, unit,
adjacency, delta, observer and, for a leakage, radius. Losses of different kinds are kept apart too.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.reports.checks import value_at
from fedaudit.reports.comparison.pareto import dominated_by
from fedaudit.reports.comparison.parts import Axis, Family, Front, FrontPoint, LeftOut
from fedaudit.reports.comparison.warnings import EARLY_END, ended_early
from fedaudit.reports.readings.document_fields import text_at
from fedaudit.reports.report import Report
from fedaudit.spec.metrics import is_ratio

# The fairness figure of a front by default: the first that any of its experiments has.
_FAIRNESS = ("equalized_odds_difference", "demographic_parity_difference", "loss_difference")
_HIGHER = ("accuracy",)
_NO_FIGURE = "it has no guarantee, so there is no privacy figure to weigh"
_OTHER_DATA = (
    "Its experiments ran on different data, so their gaps and losses were measured on other rows."
)
_OTHER_MODEL = (
    "Its models differ in size, and a leakage counts within distances between models of one kind."
)


class _Kind(NamedTuple):
    """What the privacy figures of one front share."""

    family: Family
    guarantee: GuaranteeKind
    unit: str
    adjacency: str | None
    delta: float | None
    observer: str
    radius: float | Literal["adaptive"] | None
    per_layer: bool
    loss: str | None


class _Weighed(NamedTuple):
    report: Report
    privacy: float


def fronts(
    reports: Sequence[Report], *, fairness: str | None, utility: str | None
) -> tuple[list[Front], list[LeftOut]]:
    """A front for every kind and sensitive attribute, and the experiments that belong to no front.

    `fairness`, `utility`: the figures of these axes; None chooses them for each front.
    """
    kinds: dict[_Kind, list[_Weighed]] = {}
    without = []
    for report in reports:
        found = list(_kinds(report))
        for kind, value in found:
            kinds.setdefault(kind, []).append(_Weighed(report, value))
        if not found:
            without.append(LeftOut(experiment_id=report.experiment.id, reason=_NO_FIGURE))
    made = [
        _front(kind, weighed, _axes(kind, weighed, attribute, fairness=fairness, utility=utility))
        for kind, weighed in kinds.items()
        for attribute in _attributes(weighed)
    ]
    return made, without


def _kinds(report: Report) -> Iterator[tuple[_Kind, float]]:
    """The kind of front that a report belongs to, and its privacy figure there."""
    guarantee, privacy = report.guarantee, report.privacy
    if guarantee.kind == "none":
        return
    loss = text_at(report.spec, "training", "loss")
    if privacy.leakage_max is not None:
        radius = value_at(report.spec, "privacy", "radius")
        per_layer = value_at(report.spec, "privacy", "per_layer") is True
        for observer in guarantee.observers:
            yield (
                _Kind(
                    family="leakage",
                    guarantee=guarantee.kind,
                    unit=guarantee.unit,
                    adjacency=guarantee.adjacency,
                    delta=guarantee.delta,
                    observer=observer,
                    radius=radius,
                    per_layer=per_layer,
                    loss=loss,
                ),
                privacy.leakage_max,
            )
    for one in privacy.epsilon:
        yield (
            _Kind(
                family="epsilon",
                guarantee=guarantee.kind,
                unit=guarantee.unit,
                adjacency=one.adjacency,
                delta=one.delta,
                observer=one.observer,
                radius=None,
                per_layer=False,
                loss=loss,
            ),
            one.value,
        )


def _attributes(weighed: Sequence[_Weighed]) -> list[str | None]:
    """The sensitive attributes of a front's experiments; a single None where there are none."""
    found = dict.fromkeys(section.attribute for one in weighed for section in one.report.fairness)
    return [*found] or [None]


def _axes(
    kind: _Kind,
    weighed: Sequence[_Weighed],
    attribute: str | None,
    *,
    fairness: str | None,
    utility: str | None,
) -> list[Axis]:
    axes = [_axis("privacy", "leakage_max" if kind.family == "leakage" else "epsilon_max")]
    if attribute is not None:
        measured = (
            name
            for name in _FAIRNESS
            if any(_gap(one.report, attribute, name)[0] is not None for one in weighed)
        )
        axes.append(_axis("fairness", fairness or next(measured, _FAIRNESS[0]), attribute))
    if utility is None:
        accurate = all(one.report.utility.accuracy is not None for one in weighed)
        utility = "accuracy" if accurate else "validation_loss"
    axes.append(_axis("utility", utility))
    return axes


def _axis(
    section: Literal["privacy", "utility", "fairness"], figure: str, attribute: str | None = None
) -> Axis:
    higher = figure in _HIGHER or is_ratio(figure)
    return Axis(
        section=section, figure=figure, attribute=attribute, better="higher" if higher else "lower"
    )


def _front(kind: _Kind, weighed: Sequence[_Weighed], axes: list[Axis]) -> Front:
    reports, values, left_out = [], [], []
    for one in weighed:
        found = [_value(one, axis) for axis in axes]
        reasons = [reason for value, reason in found if value is None]
        if reasons:
            stated = "; ".join(reason or "a figure is missing" for reason in reasons)
            left_out.append(LeftOut(experiment_id=one.report.experiment.id, reason=stated))
        else:
            reports.append(one.report)
            values.append([value for value, _ in found if value is not None])
    ids = [report.experiment.id for report in reports]
    losses = [
        [-value if axis.better == "higher" else value for value, axis in zip(of, axes, strict=True)]
        for of in values
    ]
    beaten = [[ids[i] for i in indices] for indices in dominated_by(losses)]
    points = [
        FrontPoint(experiment_id=id_, values=of, dominated_by=by)
        for id_, of, by in zip(ids, values, beaten, strict=True)
    ]
    return Front(
        **kind._asdict(),
        axes=axes,
        experiments=points,
        front=[one.experiment_id for one in points if not one.dominated_by],
        dominated_by={one.experiment_id: one.dominated_by for one in points if one.dominated_by},
        left_out=left_out,
        cautions=_cautions(kind, reports),
    )


def _value(one: _Weighed, axis: Axis) -> tuple[float | None, str | None]:
    """The position of an experiment on an axis; None with its reason where it has none."""
    if axis.section == "privacy":
        return one.privacy, None
    if axis.attribute is not None:
        return _gap(one.report, axis.attribute, axis.figure)
    utility = one.report.utility
    return getattr(utility, axis.figure), utility.reasons.get(axis.figure)


def _gap(report: Report, attribute: str, figure: str) -> tuple[float | None, str | None]:
    section = next((one for one in report.fairness if one.attribute == attribute), None)
    if section is None:
        return None, f"{attribute!r} is not one of its sensitive attributes"
    metric = section.metrics.get(figure)
    if metric is None:
        return None, f"its report was made before {figure} was computed"
    return metric.value, metric.reason


def _cautions(kind: _Kind, reports: Sequence[Report]) -> list[str]:
    cautions = []
    if len({one.provenance.data_fingerprint for one in reports}) > 1:
        cautions.append(_OTHER_DATA)
    if kind.family == "leakage" and len({one.data.parameters for one in reports}) > 1:
        cautions.append(_OTHER_MODEL)
    if any(map(ended_early, reports)):
        cautions.append(EARLY_END)
    return cautions
