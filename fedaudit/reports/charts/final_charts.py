"""The charts of the report's own figures, at the end of the run."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.reports.charts.chart import Chart, FigureTable, joined
from fedaudit.reports.charts.number_text import bound_text, figure_text
from fedaudit.reports.charts.ranges import Row, range_chart
from fedaudit.reports.sections.fairness import rate_of, why_no_rate
from fedaudit.reports.sections.part import number_or_some
from fedaudit.spec.metrics import RATES

_MAX_GROUPS = 40
_SHARE = (0.0, 1.0)
_ORDERED_BY = "selection_rate"


def spending_charts(report: Mapping[str, Any]) -> list[Chart]:
    """The spread of leakage over clients and clusters, or of epsilon over the records' budgets."""
    privacy = report["privacy"]
    found = []
    if privacy["leakage_quantiles"]:
        found.append(_leakage_chart(privacy))
    records = privacy["records"]
    if records and any(one["budget_used_share"] is not None for one in records["groups"]):
        found.append(_records_chart(records))
    return found


def rates_chart(section: Mapping[str, Any], *, name: str) -> Chart | None:
    """The rates of each group of one attribute, of which shares are drawn; None where no group has
    a rate to show."""
    groups = section["groups"]
    if not any(rate_of(group, rate) is not None for group in groups for rate in RATES):
        return None
    shown, shares = _shown(groups), [rate for rate in RATES.values() if rate.is_share]
    rows = [
        Row(
            name=group["value"],
            marks=tuple(rate_of(group, rate.name) for rate in shares),
            remark="suppressed" if group["suppressed"] else "no rates",
        )
        for group in shown
    ]
    kinds = [rate.words for rate in shares]
    return Chart(
        name=f"chart-{name}-rates",
        title=f"Rates of the groups of {section['attribute']}",
        description=f"Dot chart of {len(shown)} groups between 0 and 1: {joined(kinds)} of "
        "each. The figures are in the table below.",
        caption=_rates_words(groups, len(shown)),
        drawing=range_chart(rows, kinds=kinds, unit="share of the group's rows", whole=_SHARE),
        table=FigureTable(
            head=("Group", *(rate.label for rate in RATES.values())),
            rows=[
                (group["value"], *(_rate_text(group, rate) for rate in RATES)) for group in groups
            ],
        ),
    )


def _leakage_chart(privacy: Mapping[str, Any]) -> Chart:
    quantiles, most = privacy["leakage_quantiles"], privacy["leakage_max"]
    clusters = privacy["leakage_by_cluster"] or []
    rows = [
        Row(
            name="all clients",
            marks=(quantiles["p50"], most),
            box=(quantiles["p25"], quantiles["p75"]),
            span=(quantiles["p05"], most),
        ),
        *(
            Row(name=_cluster(one), marks=(one["leakage_median"], one["leakage_max"]))
            for one in clusters
        ),
    ]
    table = [
        (f"Clients, {_percent(name)}", figure_text(value)) for name, value in quantiles.items()
    ]
    table.append(("Clients, largest", figure_text(most)))
    for one in clusters:
        table.append((f"{_cluster(one)}, median", figure_text(one["leakage_median"])))
        table.append((f"{_cluster(one)}, largest", figure_text(one["leakage_max"])))
    stated = (
        f"By the convention n/nu, half of the training clients were charged at most "
        f"{bound_text(quantiles['p50'])}, nineteen in twenty at most "
        f"{bound_text(quantiles['p95'])}, and none more than {bound_text(most)}."
        " The thick bar spans the middle half of all clients."
    )
    if clusters:
        stated += " A client counts for the cluster of its last upload."
    return Chart(
        name="chart-leakage-spread",
        title="Leakage at the end, over clients and clusters",
        description="Range chart: a row for all training clients and one for each cluster, with "
        "median and largest leakage. The figures are in the table below.",
        caption=stated,
        drawing=range_chart(rows, kinds=("median", "largest"), unit="leakage", whole=(0, 0)),
        table=FigureTable(head=("Whose", "Leakage"), rows=table),
    )


def _records_chart(records: Mapping[str, Any]) -> Chart:
    groups = [one for one in records["groups"] if one["budget_used_share"] is not None]
    used = "largest share of a budget that was spent"
    within = "No record exceeded its budget"
    if records["overspent"] != 0:
        within = f"{number_or_some(records['overspent'])} records exceeded their budgets"
    return Chart(
        name="chart-records",
        title="Records' own budgets, and how much of them was spent",
        description=f"Dot chart of {len(groups)} groups of records: the {used}, in per cent. The "
        "figures are in the table below.",
        caption=f"{within}. {_left_out(records['left_out'])}.",
        drawing=range_chart(
            [
                Row(f"budget {_budget(group)}", (100 * group["budget_used_share"],))
                for group in groups
            ],
            kinds=(used,),
            unit="per cent of the budget",
            whole=(0, 100),
        ),
        table=FigureTable(
            head=("Budget", "Largest epsilon", "Largest share of a budget"),
            rows=[
                (
                    _budget(group),
                    bound_text(group["epsilon_max"]),
                    f"{bound_text(100 * group['budget_used_share'])} %",
                )
                for group in groups
            ],
        ),
    )


def _left_out(records: int | None) -> str:
    if records == 0:
        return "None was left out of the sampling"
    return f"{number_or_some(records)} records were never sampled"


def _shown(groups: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """All groups, or where there are many, those with the lowest and highest selection rates."""
    if len(groups) <= _MAX_GROUPS:
        return groups
    rated = [(rate, group) for group in groups if (rate := rate_of(group, _ORDERED_BY)) is not None]
    ordered = [group for _, group in sorted(rated, key=lambda one: one[0])]
    half = _MAX_GROUPS // 2
    return ordered if len(ordered) <= _MAX_GROUPS else [*ordered[:half], *ordered[-half:]]


def _rates_words(groups: Sequence[Mapping[str, Any]], shown: int) -> str:
    stated = []
    for name, rate in RATES.items():
        found = [
            (value, group["value"])
            for group in groups
            if (value := rate_of(group, name)) is not None
        ]
        if not found:
            continue
        (low, lowest), (high, highest) = min(found), max(found)
        between = f"from {figure_text(low)} ({lowest}) to {figure_text(high)} ({highest})"
        stated.append(
            f"{rate.label}: {between}." if low < high else f"{rate.label}: {figure_text(low)}."
        )
    hidden = sum(group["suppressed"] for group in groups)
    if hidden:
        stated.append(f"{hidden} of {len(groups)} groups are suppressed.")
    if shown < len(groups) - hidden:
        stated.append(
            f"{shown} groups are drawn, those with the lowest and the highest selection rates."
        )
    if shown < len(groups):
        stated.append("The table lists all groups.")
    return " ".join(stated)


def _rate_text(group: Mapping[str, Any], rate: str) -> str:
    value = rate_of(group, rate)
    if value is not None:
        return figure_text(value)
    return "suppressed" if group["suppressed"] else why_no_rate(group, rate) or "–"


def _cluster(one: Mapping[str, Any]) -> str:
    clients = one["clients"]
    return f"cluster {one['cluster']} ({clients} client{'s' if clients != 1 else ''})"


def _budget(group: Mapping[str, Any]) -> str:
    low, high = figure_text(group["budget_low"]), figure_text(group["budget_high"])
    return high if group["budget_low"] == group["budget_high"] else f"{low} to {high}"


def _percent(name: str) -> str:
    """`p05` as `5 %`."""
    return f"{int(name.removeprefix('p'))} % at most"
