"""Reports of runs and of audits for people: their main figures in tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from rich.markup import escape
from rich.table import Table

from fedaudit.cli.gates import COLOURED, outcome_text
from fedaudit.cli.output import print_columns, sections_table, standard_output
from fedaudit.number_text import NO_FIGURE, UNBOUNDED, at_most
from fedaudit.privacy.accounting.privacy_events import observer_words
from fedaudit.reports.gates.gate_results import OUTCOME_WORDS, condition, gate_value
from fedaudit.reports.page.html import report_on_page
from fedaudit.reports.page.report_tables import fairness_tables
from fedaudit.reports.report import section_rows
from fedaudit.reports.sections.guarantee import guarantee_words, is_unbounded, proven_cost
from fedaudit.reports.sections.part import FigureRow, figure_rows, verdict_lines
from fedaudit.reports.sections.ranking import RankingFigures
from fedaudit.reports.sections.utility import ENDING_WORDS
from fedaudit.reports.verdict.cost import Bound

Report = Mapping[str, Any]

_NOTHING = "none"


def summary_table(reports: Sequence[Report]) -> Table:
    """The figures of the reports side by side; a figure that one of them lacks shows its reason."""
    heads = [escape(report["experiment"]["name"]) for report in reports]
    return sections_table(heads, [dict(_sections(report)) for report in reports])


def show(report: Report) -> None:
    """The figures, the verdict, the guarantee and the limits of one report on standard output."""
    console = standard_output()
    for title, text in verdict_lines(report):
        console.print(f"[bold]{title}[/bold]\n{escape(text)}")
    console.print(summary_table([report]))
    console.print(f"\n[bold]Guarantee.[/bold] {escape(report['guarantee']['statement'])}")
    show_attacks(report.get("attacks") or [])
    if held_out := report.get("fairness_privacy"):
        console.print(f"\n[bold]Held-out people.[/bold] {escape(held_out['statement'])}")
    console.print("\n[bold]Limits.[/bold]")
    for limit in report["limits"]:
        console.print(f"- {escape(limit)}")


def show_attacks(attacks: Sequence[Mapping[str, Any]]) -> None:
    """What each attack tried and found, on standard output."""
    console = standard_output()
    for attack in attacks:
        console.print(f"\n[bold]Attack: {escape(attack['kind'])}.[/bold]")
        if alarm := attack["alarm"]:
            claim, evidence = escape(alarm["claim"]), escape(alarm["evidence"])
            console.print(f"[red]Alarm.[/red] Claimed: {claim} Found: {evidence}")
        console.print(escape(attack["statement"]))


def _sections(report: Report) -> Iterator[tuple[str, dict[str, str]]]:
    experiment, data = report["experiment"], report["data"]
    yield (
        "experiment",
        {
            "status": experiment["status"],
            "id": experiment["id"],
            "source": data["source"],
            "clients, rows": f"{data['clients']}, {data['rows']}",
        },
    )
    rows, guarantee = section_rows(report), report["guarantee"]
    figures = {name: _figures(own, guarantee) for name, own in rows.items()}
    yield "privacy", {**_costs(report), **figures.pop("privacy")}
    yield "utility", {**figures.pop("utility"), **_end(report["utility"])}
    yield from ((name.replace("_", " "), further) for name, further in figures.items())
    if held_out := report.get("fairness_privacy"):
        force = "" if held_out["in_force"] else ", not in force"
        epsilon = _epsilon({**held_out, "value": held_out["epsilon"]})
        lines = {"epsilon": f"{epsilon}{force}", "unit": held_out["unit"]}
        yield "privacy of held-out people", lines
    accurate = report["utility"]["accuracy"] is not None
    for section in report["fairness"]:
        # The gap of accuracies counts only where the run has an accuracy.
        gaps = {
            name: _gap(metric)
            for name, metric in section["metrics"].items()
            if accurate or name != "accuracy_difference"
        }
        yield f"fairness by {escape(section['attribute'])}", gaps
    if report["gates"]:
        yield "gates", {escape(condition(gate)): _brief_outcome(gate) for gate in report["gates"]}


def _costs(report: Report) -> dict[str, str]:
    guarantee, privacy = report["guarantee"], report["privacy"]
    costs = {"guarantee": f"{guarantee_words(guarantee)} ({guarantee['mechanism']})"}
    if privacy["epsilon"]:
        proven = (
            {**one, "value": proven_cost(report, "epsilon_max", observer=one["observer"])[0]}
            for one in privacy["epsilon"]
        )
        costs["epsilon"] = "\n".join(map(_epsilon, proven))
        costs["a guess"] = Bound(report).in_words
    return costs


_NAMES = ("AUC", "Brier")
"""Words that keep their capital within a line."""


def _figures(rows: Iterable[FigureRow], guarantee: Mapping[str, Any]) -> dict[str, str]:
    """Values by their labels, the figure of a constant prediction below that of the model."""
    found: dict[str, str] = {}
    for row in rows:
        unbounded = is_unbounded(guarantee.get("kind", ""), guarantee.get("mechanism"), row.name)
        missing = UNBOUNDED if unbounded else _NOTHING
        named = row.label.startswith(_NAMES)
        label = row.label if named else f"{row.label[0].lower()}{row.label[1:]}"
        found[label] = row.value
        if row.value == NO_FIGURE:
            found[label] = f"{missing}: {escape(row.note)}" if row.note else missing
        if row.constant:
            found[f"{label} of a constant"] = row.constant
    return found


def _epsilon(one: Mapping[str, Any]) -> str:
    known = UNBOUNDED if one["value"] is None else at_most(one["value"], digits=4)
    value = f"{known} at delta = {one['delta']:g}"
    return f"{value}, against {escape(observer_words(one['observer']))}"


def _end(utility: Mapping[str, Any]) -> dict[str, str]:
    stopped_by = utility["stopped_by"]
    # A newer service may know another reason.
    found = {"stopped by": ENDING_WORDS.get(stopped_by, stopped_by)}
    if utility.get("degenerate"):
        found["degenerate"] = f"yes: {escape(utility['reasons']['degenerate'])}"
    return found


def _gap(metric: Mapping[str, Any]) -> str:
    if metric["value"] is None:
        return f"{_NOTHING}: {escape(metric['reason'] or '')}"
    interval = metric["interval"]
    within = f" ({interval['low']:.3f} to {interval['high']:.3f})" if interval else ""
    return f"{metric['value']:.3f}{within}"


def _brief_outcome(gate: Mapping[str, Any]) -> str:
    if gate["outcome"] == "insufficient_evidence":
        return outcome_text(gate)
    return f"{COLOURED[gate['outcome']]} at {gate_value(gate['figure'], gate['value'])}"


def show_audit(report: Mapping[str, Any]) -> None:
    """The verdict, the rates of each group, the gaps, the gates and the limits."""
    console = standard_output()
    for title, text in verdict_lines(report):
        console.print(f"[bold]{title}[/bold]\n{escape(text)}")
    ranked = _figures(figure_rows(RankingFigures, report["utility"]), {})
    console.print(sections_table(["predictions"], [{"utility": ranked}]))
    by_section, notes = fairness_tables(report_on_page(report)["fairness"])
    for table in chain.from_iterable(by_section):
        console.print(f"[bold]{escape(table.caption)}[/bold]")
        columns = zip(table.head, zip(*table.rows, strict=True), strict=True)
        print_columns({head: [*map(escape, cells)] for head, cells in columns})
        console.print(escape(table.remark))
    for mark, note in notes.items():
        console.print(f"{mark}: {escape(note)}")
    for gate in report["gates"]:
        outcome = OUTCOME_WORDS[gate["outcome"]]
        console.print(f"{escape(condition(gate))}: {outcome}. {escape(gate['reason'])}")
    console.print("\n[bold]Limits.[/bold]")
    for limit in report["limits"]:
        console.print(f"- {escape(limit)}")
