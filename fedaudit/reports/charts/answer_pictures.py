"""The pictures below a report's answer: what was spent, whom it treats worse, how good it is.

None looks better than the answer: what is not in force, or says nothing of people, says so within
the drawing, and no mark has the colour of what is good.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from fedaudit.number_text import bound_text, exact_text, figure_text
from fedaudit.privacy.accounting.privacy_events import observer_words
from fedaudit.privacy.guarantees.cost_sentences import LEVELS, doubts, level_ends
from fedaudit.reports.charts.drawing import (
    Chart,
    Drawing,
    FigureTable,
    Ground,
    Row,
    Scale,
    drawn,
    element,
    label,
    line,
    range_chart,
    together,
)
from fedaudit.reports.sections.guarantee import delta_gives_data_away
from fedaudit.reports.sections.utility import why_not_useful
from fedaudit.reports.verdict.release import bounding_exponent, report_level
from fedaudit.reports.verdict.worst_off import (
    Pair,
    by_unevenness,
    doubt_of_gaps,
    headline_metric,
    headline_pair,
)
from fedaudit.spec.metrics import RATES

Report = Mapping[str, Any]

_WIDTH = 320.0
"""Three fit beside one another on a page."""
_MOST_GROUPS, _MOST_CLUSTERS = 8, 6
_SHARE = (0.0, 1.0)
_BANDS = ("to 75 %", "to 95 %", "nearly all", "excludes nothing")
"""What the levels of a cost are called where there is little room: how often a guess is right."""
_NO_TABLE = FigureTable((), ())
"""Of a picture whose caption, or the table of its section, has all its figures."""


def answer_pictures(report: Report) -> list[Chart]:
    """The pictures of a report of a run, of predictions or of a declared ledger, as far as it has
    what they show. `report`: with its groups in words (`for_readers`)."""
    found = [_spent(report), _treated(report), _quality(report)]
    return [one for one in found if one is not None]


def _spent(report: Report) -> Chart | None:
    guarantee, exponent = report["guarantee"], bounding_exponent(report)
    if guarantee["kind"] == "none" and "predictions" in report:
        return None
    if exponent is None:
        return _unbounded()
    rows, kinds, table = _spending_rows(report, exponent)
    budget = _budget(report)
    figure = "epsilon" if report["privacy"]["epsilon"] else "leakage"
    in_force = guarantee.get("in_force") is not False
    doubted = ": not proven" if guarantee["kind"] == "heuristic" else ""
    doubted = doubted if in_force else ": not in force"
    stated = [
        f"A {guarantee['unit']} at most {bound_text(exponent)}: {_level_words(report)}.",
        _budget_words(budget, exponent),
        *(["As declared by the trainer."] if report.get("declared") else []),
    ]
    return Chart(
        name="picture-spent",
        title=f"What was spent{doubted}",
        description=f"{figure.capitalize()} on the scale of what it lets others guess. "
        f"{' '.join(stated)}",
        caption=" ".join(stated),
        drawing=range_chart(
            rows,
            kinds=kinds,
            unit=f"{figure}; above: how often a guess is right",
            whole=None,
            ground=_scale_of_words(report, rows, budget),
        ),
        table=table,
    )


def _scale_of_words(report: Report, rows: Sequence[Row], budget: float | None) -> Ground:
    """The levels of a cost behind the rows, and the budget as a dashed line."""
    values = [one for row in rows for one in (*row.marks, *(row.span or ())) if one]
    lowest, highest = min([*values, 0.1]), max([*values, budget or 0.0, 100.0])
    powers = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    ends = level_ends(delta=report["guarantee"]["delta"] or 0.0)
    if delta_gives_data_away(report):
        ends = (0.0,) * len(ends)

    def behind(x: Scale, top: float, bottom: float) -> Markup:
        limit = [] if budget is None else [line(x(budget), top, x(budget), bottom, "limit")]
        return together(_bands(x, ends, top, bottom), *limit)

    return Ground(_WIDTH, tuple(10.0**power for power in powers), behind)


def _level_words(report: Report) -> str:
    guarantee = report["guarantee"]
    if delta_gives_data_away(report):
        delta = guarantee["delta"]
        return f"a delta of {delta:g} allows one person's data to be handed over whole"
    in_force = guarantee.get("in_force") is not False
    return doubts(guarantee["kind"], in_force=in_force).lower() + LEVELS[report_level(report)]


def _spending_rows(
    report: Report, exponent: float
) -> tuple[list[Row], tuple[str, ...], FigureTable]:
    """What each kind of subject spent: budgets of records, clients and clusters, or the most."""
    privacy, unit = report["privacy"], report["guarantee"]["unit"]
    records = [
        one for one in (privacy.get("records") or {}).get("groups", []) if one["epsilon_max"]
    ]
    if records:
        rows = [
            Row(f"up to {figure_text(one['budget_high'])}", (one["epsilon_max"],))
            for one in records
        ]
        shares = [
            (row.name, bound_text(row.marks[0]), _share_text(one["budget_used_share"]))
            for row, one in zip(rows, records, strict=True)
        ]
        head = ("Records with budgets", "Largest epsilon", "Largest share of a budget")
        return rows, ("largest epsilon",), FigureTable(head, shares)
    if privacy.get("leakage_quantiles"):
        return client_rows(privacy)
    planned = privacy.get("epsilon_planned")
    most = [one["value"] for one in privacy["epsilon"] if one["value"] is not None]
    rows = [Row(f"any {unit}", (max(most, default=exponent), planned))]
    cells = [
        (f"Against {observer_words(one['observer'])}", bound_text(one["value"]))
        for one in privacy["epsilon"]
    ]
    kinds = ("largest",) if planned is None else ("largest", "of all planned rounds")
    return rows, kinds, FigureTable(("Whose", "Spent"), cells)


def client_rows(privacy: Mapping[str, Any]) -> tuple[list[Row], tuple[str, ...], FigureTable]:
    """What clients were charged under metric privacy, all of them and in each cluster: rows with
    median and largest leakage, the names of these marks, and all figures."""
    quantiles, most = privacy["leakage_quantiles"], privacy["leakage_max"]
    box, span = (quantiles["p25"], quantiles["p75"]), (quantiles["p05"], most)
    rows = [Row("clients", (quantiles["p50"], most), box=box, span=span)]
    cells = [
        (f"Clients, {name.removeprefix('p').lstrip('0')} % at most", bound_text(value))
        for name, value in quantiles.items()
    ]
    cells.append(("Clients, largest", bound_text(most)))
    for one in privacy["leakage_by_cluster"] or []:
        name = f"cluster {one['cluster']}"
        rows.append(Row(name, (one["leakage_median"], one["leakage_max"])))
        clients = f"{name} ({one['clients']} client{'' if one['clients'] == 1 else 's'})"
        cells.append((f"{clients}, median", bound_text(one["leakage_median"])))
        cells.append((f"{clients}, largest", bound_text(one["leakage_max"])))
    shown = rows if len(rows) <= _MOST_CLUSTERS + 1 else rows[:1]
    return shown, ("median", "largest"), FigureTable(("Whose", "Leakage"), cells)


def _budget(report: Report) -> float | None:
    """What one client may spend, where that was set."""
    if report.get("declared"):
        budget = report["privacy"]["budget"] or {}
        return next((value for value in budget.values() if value), None)
    asked = report["spec"]["privacy"]
    found: float | None = asked.get("client_budget") or asked.get("epsilon_budget")
    return found


def _budget_words(budget: float | None, spent: float) -> str:
    if budget is None:
        return "No budget was set."
    kept = "within" if spent <= budget else "above"
    return f"That is {kept} the budget of {exact_text(budget)} (dashed)."


def _bands(x: Scale, ends: Sequence[float], top: float, bottom: float) -> Markup:
    """The levels of a cost behind the rows, each with its name where there is room for it."""
    parts, start = [], x.start
    for place, end in enumerate((*ends, math.inf)):
        until = x.end if math.isinf(end) else x(max(end, x.low))
        if until > start:
            size = {"x": start, "y": top, "width": until - start, "height": bottom - top}
            parts.append(element("rect", **size, class_=f"band b{place}"))
            if until - start >= 4.2 * len(_BANDS[place]):
                middle = (start + until) / 2
                parts.append(
                    label(_BANDS[place], middle, top - 4, anchor="middle", kind="band-name")
                )
            start = until
    return together(*parts)


def _unbounded() -> Chart:
    body = [
        element("rect", x=0.0, y=8.0, width=_WIDTH, height=40.0, class_="band b3"),
        label("no bound: nothing limits what was disclosed", _WIDTH / 2, 32, anchor="middle"),
    ]
    return Chart(
        name="picture-spent",
        title="What was spent",
        description="A bar without an end: nothing bounds what was spent.",
        caption="Nothing bounds what the model may disclose of its training data.",
        drawing=drawn(*body, height=56, width=_WIDTH),
        table=_NO_TABLE,
    )


def _treated(report: Report) -> Chart | None:
    if not report["fairness"]:
        return None
    known = by_unevenness(report["fairness"])
    if not known:
        section = report["fairness"][0]
        reason = section["metrics"][headline_metric(section)]["reason"]
        return _missing("picture-treated", "Whom it treats worse", f"No gap is known: {reason}.")
    doubt = doubt_of_gaps(report) if report.get("utility", {}).get("reasons") else ""
    return treated_picture(known[-1], name="picture-treated", doubt=doubt)


def treated_picture(section: Mapping[str, Any], *, name: str, doubt: str = "") -> Chart | None:
    """The rates in which two groups of an attribute are furthest apart, and how sure that is; None
    where fewer than two groups are shown. `doubt`: why they say nothing of people."""
    pair = headline_pair(section)
    if pair is None:
        return None
    metric = headline_metric(section)
    gap, rate = section["metrics"][metric], pair.rate
    groups = sorted(
        (one for one in section["groups"] if one.get(rate) is not None), key=lambda one: one[rate]
    )
    ends = {pair.worse["value"], pair.better["value"], section["reference_group"]}
    rows = [_group_row(one, rate, ends) for one in _outermost(groups, ends)]
    interval = gap["interval"]
    box = None if interval is None else (interval["low"], interval["high"])
    rows.append(Row("the gap", (None, gap["value"]), box=box, span=box))
    edges = sorted((pair.worse[rate], pair.better[rate]))
    is_share = rate in RATES and RATES[rate].is_share
    return Chart(
        name=name,
        title=f"Whom it treats worse: by {section['attribute']}",
        description=f"Dot chart of {len(rows) - 1} groups. {_treated_words(section, pair)}",
        caption=f"{doubt} {_treated_words(section, pair)}".strip(),
        drawing=range_chart(
            rows,
            kinds=("groups", "the two furthest apart, their gap"),
            unit=_rate_words(rate),
            whole=_SHARE if is_share else (0.0, 0.0),
            ground=Ground(
                _WIDTH, behind=lambda x, top, bottom: _between(x, edges, (top, bottom), doubt)
            ),
        ),
        table=_NO_TABLE,
    )


def _group_row(group: Mapping[str, Any], rate: str, ends: set[str]) -> Row:
    marked = group["value"] in ends
    return Row(group["value"], (None, group[rate]) if marked else (group[rate], None))


def _outermost(groups: Sequence[Mapping[str, Any]], ends: set[str]) -> list[Mapping[str, Any]]:
    """All groups; of more than fit, the lowest and the highest, and those that must be seen."""
    if len(groups) <= _MOST_GROUPS:
        return list(groups)
    half = _MOST_GROUPS // 2
    return [
        one
        for place, one in enumerate(groups)
        if place < half or place >= len(groups) - half or one["value"] in ends
    ]


def _between(x: Scale, edges: Sequence[float], heights: tuple[float, float], doubt: str) -> Markup:
    """The stretch between the two groups."""
    low, high = x(edges[0]), x(edges[1])
    top, bottom = heights
    size = {"x": low, "y": top, "width": max(1.0, high - low), "height": bottom - top}
    parts = [element("rect", **size, class_="band b1")]
    if doubt:
        parts.append(label("says nothing of people", x.end, top - 4, anchor="end", kind="bad"))
    return together(*parts)


def _treated_words(section: Mapping[str, Any], pair: Pair) -> str:
    metric, attribute = headline_metric(section), section["attribute"]
    gap = section["metrics"][metric]
    worse, better = (
        f"{figure_text(one[pair.rate])} for {one['value']}" for one in (pair.worse, pair.better)
    )
    stated = f"{_rate_words(pair.rate).capitalize()}: {worse}, {better}."
    stated += (
        f" {metric.replace('_', ' ').capitalize()} by {attribute}: {figure_text(gap['value'])}"
    )
    interval = gap["interval"]
    if interval is None:
        stated += ", without an interval."
    else:
        stated += f" ({figure_text(interval['low'])} to {figure_text(interval['high'])})."
    if section["reference_group"] is not None:
        stated += f" The reference is {section['reference_group']}."
    hidden = sum(group["suppressed"] for group in section["groups"])
    if hidden:
        stated += f" {hidden} of {len(section['groups'])} groups are hidden."
    return stated


def _rate_words(rate: str) -> str:
    return RATES[rate].words if rate in RATES else rate


def _quality(report: Report) -> Chart | None:
    utility = report.get("utility") or {}
    for figure, gain, sign in (
        ("accuracy", "accuracy_over_baseline", 1),
        ("validation_loss", "loss_under_baseline", -1),
    ):
        value, constant = utility.get(figure), utility.get(f"baseline_{figure.split('_')[-1]}")
        if value is not None and constant is not None:
            interval = utility.get(f"{gain}_interval")
            ends = (
                None
                if interval is None
                else sorted(constant + sign * interval[end] for end in ("low", "high"))
            )
            return _beside_constant(report, figure, (value, constant), ends)
    if utility.get("validation_loss") is None and utility.get("accuracy") is None:
        return None
    reason = (utility.get("reasons") or {}).get("baseline_loss", "no constant was fitted")
    return _missing("picture-quality", "How good it is", f"Compared with nothing: {reason}.")


def _beside_constant(
    report: Report, figure: str, values: tuple[float, float], ends: Sequence[float] | None
) -> Chart:
    value, constant = values
    why = why_not_useful(report)
    name = figure.replace("_", " ")
    box = None if ends is None else (ends[0], ends[1])
    stated = f"{name.capitalize()} {figure_text(value)}; always the same answer has "
    stated += f"{figure_text(constant)}."
    if box is None:
        stated += " The difference has no interval."
    if why is not None:
        stated = f"Not shown to be better than a constant: {why}. {stated}"
    rows = [Row("the model", (value, None), box=box, span=box), Row("a constant", (None, constant))]

    def behind(x: Scale, top: float, bottom: float) -> Markup:
        parts = [line(x(constant), top, x(constant), bottom, "limit")]
        if why is not None:
            parts.append(label("not shown to be better", x.end, top - 4, anchor="end", kind="bad"))
        return together(*parts)

    better = "more" if figure == "accuracy" else "less"
    return Chart(
        name="picture-quality",
        title="How good it is",
        description=f"{name.capitalize()} of the model and of the best constant. {stated}",
        caption=stated,
        drawing=range_chart(
            rows,
            kinds=("the model", "always the same answer"),
            unit=f"{name}, {better} is better",
            whole=_SHARE if figure == "accuracy" else (0.0, 0.0),
            ground=Ground(_WIDTH, behind=behind),
        ),
        table=_NO_TABLE,
    )


def _missing(name: str, title: str, why: str) -> Chart:
    body = label("nothing to draw", _WIDTH / 2, 32, anchor="middle", kind="remark")
    drawing: Drawing = drawn(body, height=56, width=_WIDTH)
    return Chart(name, title, why, why, drawing, _NO_TABLE)


def _share_text(share: float | None) -> str:
    return "–" if share is None else f"{bound_text(100 * share)} %"
