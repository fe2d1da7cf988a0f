"""Chart of the privacy cost by group: what training cost the clients of each group."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.reports.charts.chart import Chart, FigureTable
from fedaudit.reports.charts.number_text import bound_text, figure_text
from fedaudit.reports.charts.ranges import Row, range_chart
from fedaudit.reports.sections.fairness import privacy_cost_of

_MAX_GROUPS = 40
_TEXTS = {"mean": figure_text, "largest": bound_text}


def privacy_cost_chart(section: Mapping[str, Any], *, name: str) -> Chart | None:
    """Mean cost of each group of one attribute; None where no cost can be shown.

    The cost is leakage where there is one, and otherwise participations. Reports of earlier
    versions have the largest cost too.
    """
    found = privacy_cost_of(section)
    if found is None:
        return None
    cost = "leakage"
    if all(group["leakage_mean"] is None for group in found["groups"]):
        cost = "participations"
    mean, largest = f"{cost}_mean", f"{cost}_max"
    visible = [group for group in found["groups"] if group[mean] is not None]
    if not visible:
        return None
    drawn = _drawn(visible, mean)
    kinds = {"mean": mean}
    if any(group[largest] is not None for group in visible):
        kinds["largest"] = largest
    named = " and ".join(kinds)
    rows = [
        Row(name=group["value"], marks=tuple(group[name] for name in kinds.values()))
        for group in drawn
    ]
    return Chart(
        name=f"chart-{name}-privacy-cost",
        title=f"Privacy cost: {cost} by group of {section['attribute']}",
        description=f"Range chart of {len(drawn)} groups: {named} {cost} of the training "
        "clients of each. The figures are in the table below.",
        caption=_words(found, visible, cost),
        drawing=range_chart(rows, kinds=tuple(kinds), unit=cost, whole=(0, 0)),
        table=FigureTable(
            head=("Group", *(f"{cost.capitalize()}, {kind}" for kind in kinds)),
            rows=[
                (group["value"], *(_TEXTS[kind](group[name]) for kind, name in kinds.items()))
                for group in drawn
            ],
            note="The groups with the lowest and the highest means"
            if len(drawn) < len(visible)
            else "",
        ),
    )


def _drawn(visible: Sequence[Mapping[str, Any]], mean: str) -> Sequence[Mapping[str, Any]]:
    """All groups, or where there are many, those with the lowest and highest means."""
    if len(visible) <= _MAX_GROUPS:
        return visible
    ordered = sorted(visible, key=lambda group: float(group[mean]))
    half = _MAX_GROUPS // 2
    return [*ordered[:half], *ordered[-half:]]


def _words(found: Mapping[str, Any], visible: Sequence[Mapping[str, Any]], cost: str) -> str:
    means = [(group[f"{cost}_mean"], group["value"]) for group in visible]
    (low, lowest), (high, highest) = min(means), max(means)
    stated = f"Mean {cost} is {figure_text(low)}."
    if low < high:
        stated = (
            f"Mean {cost} goes from {figure_text(low)} ({lowest}) to {figure_text(high)} "
            f"({highest})."
        )
    hidden = sum(group["suppressed"] for group in found["groups"])
    return f"{stated} {hidden} groups are suppressed." if hidden else stated
