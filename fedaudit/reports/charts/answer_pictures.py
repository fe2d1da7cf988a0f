"""The pictures below a report's answer: what was spent, whom it treats worse, how good it is.

No picture looks better than the answer: the drawing itself states that a guarantee is not in force,
or that rates mean nothing for people, and no mark has the colour for good. In all three a blue
circle is a figure of the model, shades of red are bad for people, and a dashed line is the
reference.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from fedaudit.number_text import FigureTable, bound_text, exact_text, figure_text, interval_text
from fedaudit.privacy.accounting.privacy_events import observer_words
from fedaudit.privacy.guarantees.cost_sentences import LEVELS, level_ends
from fedaudit.reports.charts.drawing import (
    Chart,
    Drawing,
    Ground,
    Row,
    Scale,
    box_sample,
    element,
    fitted,
    label,
    line,
    line_sample,
    range_chart,
    together,
)
from fedaudit.reports.sections.guarantee import delta_gives_data_away, proven_cost
from fedaudit.reports.sections.ranking import misplaced_threshold, weighted_words
from fedaudit.reports.sections.utility import not_shown_words, personal_method, why_not_useful
from fedaudit.reports.verdict.cost import Bound
from fedaudit.reports.verdict.worst_off import Pair, by_unevenness, headline_metric, headline_pair
from fedaudit.spec.gates import PLAIN_FIGURES
from fedaudit.spec.metrics import RATES

Report = Mapping[str, Any]

_WIDTH = 290.0
"""Three cards fit beside one another on a page, their letters in the size of a caption."""
_MOST_GROUPS, _MOST_CLUSTERS = 8, 6
_SHARE = (0.0, 1.0)
_BANDS = ("up to 75 %", "up to 95 %", "nearly all", "all")
"""Short names of the levels of a cost: how many guesses may be right."""
_BETTER = {
    "selection_rate": "more is better for people",
    "true_positive_rate": "more is better for people",
    "false_positive_rate": "which end is better depends on the use",
    "accuracy": "more is better",
    "loss": "less is better",
}


def answer_pictures(report: Report) -> list[Chart]:
    """The pictures of a report of a run, of predictions or of a declared ledger, where it has their
    figures. `report`: with its groups in words (`for_readers`)."""
    treated, known = None, by_unevenness(report["fairness"])
    if known:
        doubt = _doubt_words(report) if report.get("utility", {}).get("reasons") else ""
        treated = treated_picture(known[-1], name="picture-treated", doubt=doubt)
    return [one for one in (_spent(report), treated, _quality(report)) if one is not None]


def _spent(report: Report) -> Chart | None:
    guarantee, exponent = report["guarantee"], Bound(report).exponent
    if guarantee["kind"] == "none" and "predictions" in report:
        return None
    if exponent is None:
        return _unbounded()
    rows, kinds, table = _spending_rows(report, exponent)
    off = guarantee.get("in_force") is False
    doubted = ": not proven" if guarantee["kind"] == "heuristic" else ""
    stated = f"{_cost_words(report, exponent)} {_budget_words(report, exponent)}".strip()
    if report["privacy"].get("records"):
        stated += " A row shows the records of one budget, the most that such a record may spend."
    if report.get("declared"):
        stated += " As declared by the trainer."
    unit = "leakage\n(it bounds no guess)"
    if Bound(report).of_every_dataset:
        unit = "largest epsilon" if report["privacy"]["epsilon"] else "exponent of the odds"
    whole, ground = (0.0, _budget(report) or 0.0), _ground(report, rows)
    drawing = range_chart(rows, kinds=kinds, unit=unit, whole=whole, ground=ground)
    if off:
        drawing = replace(drawing, body=element("g", drawing.body, class_="off"))
    return Chart(
        name="picture-spent",
        title=f"What was spent{': not in force' if off else doubted}",
        description=stated,
        caption=stated,
        drawing=drawing,
        table=table,
    )


def _ground(report: Report, rows: Sequence[Row]) -> Ground:
    """The budget as a dashed line, and whether what is drawn is in force. Behind a cost that bounds
    guesses are its levels; what clients were charged bounds none, so it is on no such scale."""
    privacy, budget = report["privacy"], _budget(report)
    bounds, key = Bound(report).of_every_dataset, []
    off = "not in force" if report["guarantee"].get("in_force") is False else ""
    if bounds and not privacy["epsilon"]:
        budget = None  # What a budget of leakage counts is no exponent of the theorem.
    elif not bounds and privacy.get("leakage_quantiles"):
        key = [(box_sample(), "middle half"), (line_sample("span"), "lowest 5 % to largest")]
    if budget is not None:
        key.append((line_sample("limit"), "budget"))

    def behind(x: Scale, top: float, bottom: float) -> Markup:
        height = top - (60 if bounds else 4)
        force = label(off, _WIDTH, height, anchor="end", kind="bad")
        limit = _limit(x, budget, top, bottom)
        if not bounds:
            return limit + force
        said = label("guesses that may be right:", 0, height, kind="axis")
        return together(said, force, _bands(x, report, top, bottom), limit)

    if not bounds:
        return Ground(_WIDTH, behind=behind, above=22.0, key=key)
    values = [one for row in rows for one in row.marks if one]
    lowest, highest = min([*values, 0.1]), max([*values, budget or 0.0, 100.0])
    powers = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    ticks = tuple(10.0**power for power in powers)
    return Ground(_WIDTH, ticks, behind, above=72.0, key=key)


def _limit(x: Scale, value: float | None, top: float, bottom: float) -> Markup:
    return Markup("") if value is None else line(x(value), top, x(value), bottom, "limit")


def _cost_words(report: Report, exponent: float) -> str:
    start = f"A {report['guarantee']['unit']}"
    if not Bound(report).of_every_dataset:
        return f"{start} was charged at most {bound_text(exponent)}, which bounds no guess."
    charged = report["privacy"].get("leakage_max")
    beside = "" if charged is None else f" (by the convention n/nu {bound_text(charged)})"
    return f"{start} spent at most {bound_text(exponent)}{beside}: {Bound(report).in_words}."


def _spending_rows(
    report: Report, exponent: float
) -> tuple[list[Row], tuple[str, ...], FigureTable]:
    """What each kind of subject spent: budgets of records, clients and clusters, or the most; the
    names of the marks where they are of several kinds; and all figures."""
    privacy, unit = report["privacy"], report["guarantee"]["unit"]
    records = [
        one for one in (privacy.get("records") or {}).get("groups", []) if one["epsilon_max"]
    ]
    if records:
        rows, shares = [], []
        for one in records:
            many, share = one["budget_low"] != one["budget_high"], one["budget_used_share"]
            name = f"budget{' up to' if many else ''} {figure_text(one['budget_high'])}"
            rows.append(Row(name, (one["epsilon_max"],)))
            used = bound_text(None) if share is None else f"{bound_text(100 * share)} %"
            shares.append((name, bound_text(one["epsilon_max"]), used))
        head = ("Records with budgets", "Largest epsilon", "Largest share of a budget")
        return rows, (), FigureTable(head, shares)
    if privacy.get("leakage_quantiles"):
        rows, kinds, table = client_rows(privacy)
        if Bound(report).of_every_dataset:
            rows, kinds = [Row(f"any {unit}", (exponent,))], ()
        return rows, kinds, table
    planned = None if report.get("repeats") else privacy.get("epsilon_planned")
    rows = [Row(f"any {unit}", (exponent if planned is None else privacy["epsilon_max"], planned))]
    costs = [
        (one["observer"], proven_cost(report, "epsilon_max", observer=one["observer"])[0])
        for one in privacy["epsilon"]
    ]
    cells = [(f"Against {observer_words(observer)}", bound_text(cost)) for observer, cost in costs]
    kinds = () if planned is None else ("largest", "of all planned rounds")
    return rows, kinds, FigureTable(("Whose", "Spent"), cells)


def client_rows(privacy: Mapping[str, Any]) -> tuple[list[Row], tuple[str, ...], FigureTable]:
    """What clients were charged under metric privacy, together and in each of several clusters:
    rows with largest and median leakage, the names of these marks, and all figures."""
    quantiles, most = privacy["leakage_quantiles"], privacy["leakage_max"]
    box, span = (quantiles["p25"], quantiles["p75"]), (quantiles["p05"], most)
    rows = [Row("all clients", (most, quantiles["p50"]), box=box, span=span)]
    cells = [
        (f"Clients, {name.removeprefix('p').lstrip('0')} % at most", bound_text(value))
        for name, value in quantiles.items()
    ]
    cells.append(("Clients, largest", bound_text(most)))
    clusters = privacy["leakage_by_cluster"] or []
    for one in clusters if len(clusters) > 1 else []:
        name = f"cluster {one['cluster']}"
        rows.append(Row(name, (one["leakage_max"], one["leakage_median"])))
        clients = f"{name} ({one['clients']} client{'' if one['clients'] == 1 else 's'})"
        cells.append((f"{clients}, median", bound_text(one["leakage_median"])))
        cells.append((f"{clients}, largest", bound_text(one["leakage_max"])))
    shown = rows if len(rows) <= _MOST_CLUSTERS + 1 else rows[:1]
    return shown, ("largest", "median"), FigureTable(("Whose", "Leakage"), cells)


def _budget(report: Report) -> float | None:
    """What one client may spend, where that was set."""
    if report.get("declared"):
        budget = report["privacy"]["budget"] or {}
        return next((value for value in budget.values() if value), None)
    asked = report["spec"]["privacy"]
    found: float | None = asked.get("client_budget") or asked.get("epsilon_budget")
    return found


_SPENT = {name for name, row in PLAIN_FIGURES.items() if row.rests_on_guarantee}


def _budget_words(report: Report, exponent: float) -> str:
    budget, spent = _budget(report), report["privacy"].get("leakage_max") or exponent
    if budget is None:
        # Records then have their own budgets, noise was made for a goal, or a gate judges what
        # was spent: none ends a run.
        gated = any(gate["figure"] in _SPENT for gate in report.get("gates", ()))
        if gated or report["privacy"].get("records") or report["privacy"].get("target"):
            return ""
        return "No limit was set to what may be spent."
    kept = "within" if spent <= budget else "above"
    return f"That is {kept} the budget of {exact_text(budget)}."


def _bands(x: Scale, report: Report, top: float, bottom: float) -> Markup:
    """The levels of a cost behind the rows, each with its name on one of three lines above them, so
    that none meets another, and below the name from where to where it reaches; that of the report
    is bold."""
    level, ends = Bound(report).level, level_ends(delta=report["guarantee"]["delta"] or 0.0)
    if delta_gives_data_away(report):
        ends, level = (0.0,) * len(ends), "nothing"
    here = list(LEVELS).index(level)
    parts, start, shown = [], x.start, 0
    for place, end in enumerate((*ends, math.inf)):
        until = x.end if math.isinf(end) else x(max(end, x.low))
        if until > start:
            size = {"x": start, "y": top, "width": until - start, "height": bottom - top}
            parts.append(element("rect", **size, class_=f"band b{place}"))
            middle, y = (start + until) / 2, top - 8 - 17 * (2 - shown % 3)
            kind = "here" if place == here else ""
            parts.append(line(start, y + 5, until, y + 5, "axis-line"))
            parts += [line(at, y + 3, at, y + 7, "axis-line") for at in (start, until)]
            parts.append(fitted(_BANDS[place], middle, y, width=_WIDTH, kind=kind))
            start, shown = until, shown + 1
    return together(*parts)


def _unbounded() -> Chart:
    body = [
        element("rect", x=0.0, y=8.0, width=_WIDTH, height=40.0, class_="band b3"),
        label("nothing limits what was disclosed", _WIDTH / 2, 32, anchor="middle", kind="here"),
    ]
    return Chart(
        name="picture-spent",
        title="What was spent",
        description="A bar without an end: nothing bounds what was spent.",
        caption="Nothing bounds what the model may disclose of its training data.",
        drawing=Drawing(together(*body), height=56, width=_WIDTH),
    )


def treated_picture(section: Mapping[str, Any], *, name: str, doubt: str = "") -> Chart | None:
    """The rates in which two groups of an attribute are furthest apart, with their uncertainty;
    None where fewer than two groups are shown. `doubt`: why they mean nothing for people."""
    pair = headline_pair(section)
    if pair is None:
        return None
    metric = headline_metric(section)
    gap, rate = section["metrics"][metric], pair.rate
    known = [one for one in section["groups"] if one.get(rate) is not None]
    groups = sorted(known, key=lambda one: one[rate])
    ends = {pair.worse["value"], pair.better["value"]}
    if len(groups) > _MOST_GROUPS:
        # The lowest and the highest, and those that must be seen.
        outer, must = range(_MOST_GROUPS // 2), ends | {section["reference_group"]}
        count = len(groups)
        groups = [
            one
            for place, one in enumerate(groups)
            if place in outer or count - 1 - place in outer or one["value"] in must
        ]
    rows, levels = [], set[float]()
    for one in groups:
        box, found = None, (one.get("rate_intervals") or {}).get(rate)
        if found is not None:  # Reports of earlier versions have none.
            box = (found["low"], found["high"])
            levels.add(100 * found["level"])
        stressed = one["value"] in ends
        rows.append(Row(one["value"], (one[rate],), box=box, span=box, stressed=stressed))
    edges = sorted((pair.worse[rate], pair.better[rate]))
    stated = _treated_words(section, pair)
    some = "" if len(rows) == len(known) else f"{len(rows)} of {len(known)} groups"
    if some:
        stated += f" {some} are drawn, the lowest and the highest."

    def behind(x: Scale, top: float, bottom: float) -> Markup:
        said = label(doubt, _WIDTH, top - 30, anchor="end", kind="bad")
        return together(_between(x, edges, f"gap {_gap_words(gap)}", (top, bottom)), said)

    return Chart(
        name=name,
        title=f"Who is treated worse: by {section['attribute']}",
        description=f"Dot chart of {some or f'{len(rows)} groups'}. {stated} {doubt}".strip(),
        caption=stated,
        drawing=range_chart(
            rows,
            kinds=(),
            unit="\n".join(one for one in (_rate_words(rate), _BETTER.get(rate), some) if one),
            whole=_SHARE if rate in RATES else (0.0, 0.0),
            ground=Ground(
                _WIDTH,
                behind=behind,
                above=46.0 if doubt else 28.0,
                key=[(box_sample(), f"{level:g}% interval of each group") for level in levels],
            ),
        ),
    )


def _between(x: Scale, edges: Sequence[float], words: str, heights: tuple[float, float]) -> Markup:
    """The stretch between the two groups, and above it a bracket with their gap in words."""
    low, high = x(edges[0]), x(edges[1])
    top, bottom = heights
    size = {"x": low, "y": top, "width": max(1.0, high - low), "height": bottom - top}
    bracket = (
        f"{low:.1f},{top:.1f} {low:.1f},{top - 7:.1f} {high:.1f},{top - 7:.1f} {high:.1f},{top:.1f}"
    )
    return together(
        element("rect", **size, class_="band b1"),
        element("polyline", points=bracket, class_="gap"),
        fitted(words, (low + high) / 2, top - 12, width=_WIDTH, kind="here"),
    )


def _gap_words(gap: Mapping[str, Any]) -> str:
    interval, value = gap["interval"], figure_text(gap["value"])
    if interval is None:
        return f"{value} (how sure is not known)"
    return f"{value} ({interval_text(interval)})"


def _treated_words(section: Mapping[str, Any], pair: Pair) -> str:
    metric, attribute = headline_metric(section), section["attribute"]
    gap = section["metrics"][metric]
    worse, better = (
        f"{figure_text(one[pair.rate])} for {one['value']}" for one in (pair.worse, pair.better)
    )
    stated = f"{_rate_words(pair.rate).capitalize()}: {worse}, {better}."
    stated += f" {metric.replace('_', ' ').capitalize()} by {attribute}: {_gap_words(gap)}."
    if section["reference_group"] is not None:
        stated += f" The reference is {section['reference_group']}."
    hidden = sum(group["suppressed"] for group in section["groups"])
    if hidden:
        stated += f" Hidden: {hidden} of {len(section['groups'])} groups."
    return stated


def _rate_words(rate: str) -> str:
    return RATES[rate].words if rate in RATES else rate


def _quality(report: Report) -> Chart | None:
    """The model on the axis of a figure, with a dashed line for the best constant."""
    utility, why = report.get("utility") or {}, why_not_useful(report)
    constants: dict[str, Any] = {
        "accuracy": utility.get("baseline_accuracy"),
        "validation_loss": utility.get("baseline_loss"),
    }
    weighted = weighted_words(report)
    if weighted and utility["balanced_accuracy"] is not None:
        # A threshold is moved for the sake of the rarer outcome, which accuracy hardly counts.
        constants = {"balanced_accuracy": 0.5}
    measured = [one for one in constants if None not in (utility.get(one), constants[one])]
    if not measured:
        return None
    figure, is_loss = measured[0], measured[0] == "validation_loss"
    value, constant, name = utility[figure], constants[figure], figure.replace("_", " ")
    gain = "loss_under_baseline" if is_loss else "accuracy_over_baseline"
    box, interval = None, utility.get(f"{gain}_interval")
    stated = f"{name.capitalize()} {figure_text(value)}; always the same answer has "
    stated += f"{figure_text(constant)}."
    key = [(line_sample("limit"), "always the same answer")]
    if weighted:
        stated += f" {weighted}"
        if figure != "accuracy" and utility["accuracy"] is not None:
            stated += f" With both counted alike it is {figure_text(utility['accuracy'])}, and "
            stated += f"always the same answer has {figure_text(utility['baseline_accuracy'])}."
    elif interval is None:
        stated += " How sure the gain is, is not known."
    else:
        sign, level = -1 if is_loss else 1, f"{100 * interval['level']:g}% interval"
        low, high = (constant + sign * interval[end] for end in ("low", "high"))
        box = (min(low, high), max(low, high))
        between = f"{interval['low']:.3g} to {interval['high']:.3g}"
        stated += f" The gain is {utility[gain]:.3g} ({level} {between})."
        key.append((box_sample(), f"{level} of the gain"))
    if why is not None:
        stated = f"{why[0].upper()}{why[1:]}. {stated}"
    if method := personal_method(report):
        stated += f" It is of clients' own models ({method}), and not of the common one."

    def behind(x: Scale, top: float, bottom: float) -> Markup:
        doubt = label(_doubt_words(report), _WIDTH, top - 6, anchor="end", kind="bad")
        return together(_limit(x, constant, top, bottom), doubt)

    return Chart(
        name="picture-quality",
        title="How good it is",
        description=f"{name.capitalize()} of the model and of the best constant. {stated}",
        caption=stated,
        drawing=range_chart(
            [Row("the model", (value,), box=box, span=box)],
            kinds=(),
            unit=f"{name}, {'less' if is_loss else 'more'} is better",
            whole=(0.0, constant) if is_loss else _SHARE,
            ground=Ground(_WIDTH, behind=behind, above=8.0 if why is None else 26.0, key=key),
        ),
    )


def _doubt_words(report: Report) -> str:
    """Why figures of the model say little, in the words of the verdict; '' where they do not."""
    if why_not_useful(report) is None:
        return ""
    if misplaced_threshold(report["utility"], who="the model"):
        return "the model needs another threshold"
    if report["utility"]["degenerate"] is True:
        return "the model decides nothing"
    return not_shown_words(report)
