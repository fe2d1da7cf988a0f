"""A report for people: its main figures in a table, one column per report."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedaudit.cli.display.output import standard_output
from fedaudit.privacy.accounting.privacy_events import observer_words
from fedaudit.privacy.guarantees.cost_sentences import level_words
from fedaudit.privacy.guarantees.guarantee import at_most
from fedaudit.reports.document.endings import IN_TABLES
from fedaudit.reports.document.guarantee_facts import guarantee_words
from fedaudit.reports.document.outcomes import GateOutcome
from fedaudit.reports.document.participation import participation_label
from fedaudit.reports.document.privacy_costs import UNBOUNDED, is_unbounded
from fedaudit.reports.document.verdict_parts import verdict_lines
from fedaudit.reports.gates.gate_results import OUTCOME_WORDS, GateResults, condition

if TYPE_CHECKING:
    from rich.table import Table

Report = Mapping[str, Any]

_COLOURS: dict[GateOutcome, str] = {
    "pass": "green",
    "fail": "red",
    "insufficient_evidence": "yellow",
}
_OUTCOMES = {
    outcome: f"[{colour}]{OUTCOME_WORDS[outcome]}[/{colour}]"
    for outcome, colour in _COLOURS.items()
}
_NOTHING = "none"


def summary_table(reports: Sequence[Report]) -> "Table":
    """The figures of the reports side by side; a figure that one of them lacks shows its reason."""
    from rich.box import HORIZONTALS
    from rich.table import Table

    table = Table(box=HORIZONTALS)
    table.add_column("", no_wrap=True)
    for report in reports:
        table.add_column(_plain(report["experiment"]["name"]), overflow="fold")
    columns = [list(_sections(report)) for report in reports]
    for title in dict.fromkeys(title for column in columns for title, _ in column):
        found = [dict(column).get(title, {}) for column in columns]
        table.add_section()
        table.add_row(f"[bold]{title}[/bold]")
        for label in dict.fromkeys(label for figures in found for label in figures):
            table.add_row(f"  {label}", *(figures.get(label, "") for figures in found))
    return table


def show(report: Report) -> None:
    """The figures, the verdict, the guarantee and the limits of one report on standard output."""
    console = standard_output()
    for title, text in verdict_lines(report):
        console.print(f"[bold]{title}[/bold]\n{_plain(text)}")
    console.print(summary_table([report]))
    console.print(f"\n[bold]Guarantee.[/bold] {_plain(report['guarantee']['statement'])}")
    show_attacks(report.get("attacks") or [])
    if held_out := report.get("fairness_privacy"):
        console.print(f"\n[bold]Held-out people.[/bold] {_plain(held_out['statement'])}")
    console.print("\n[bold]Limits.[/bold]")
    for limit in report["limits"]:
        console.print(f"- {_plain(limit)}")


def show_attacks(attacks: Sequence[Mapping[str, Any]]) -> None:
    """What each attack tried and found, on standard output."""
    console = standard_output()
    for attack in attacks:
        console.print(f"\n[bold]Attack: {_plain(attack['kind'])}.[/bold]")
        if alarm := attack["alarm"]:
            claim, evidence = _plain(alarm["claim"]), _plain(alarm["evidence"])
            console.print(f"[red]Alarm.[/red] Claimed: {claim} Found: {evidence}")
        console.print(_plain(attack["statement"]))


def show_gates(results: GateResults) -> None:
    """A line for each evaluated gate on standard output, below the name of its policy."""
    console = standard_output()
    for evaluation in results.evaluations:
        if evaluation.policy is not None:
            console.print(f"[bold]{_plain(evaluation.policy)}[/bold]")
        for gate in evaluation.gates:
            console.print(f"{_condition(gate)}: {_outcome(gate)}")


def _sections(report: Report) -> Iterator[tuple[str, dict[str, str]]]:
    yield "experiment", _experiment(report)
    yield "privacy", _privacy(report)
    yield "utility", _utility(report)
    if held_out := report.get("fairness_privacy"):
        yield "privacy of held-out people", _held_out(held_out)
    for section in report["fairness"]:
        accurate = report["utility"]["accuracy"] is not None
        yield f"fairness by {_plain(section['attribute'])}", _fairness(section, accurate=accurate)
    if report["gates"]:
        yield "gates", {_condition(gate): _brief_outcome(gate) for gate in report["gates"]}


def _experiment(report: Report) -> dict[str, str]:
    experiment, data = report["experiment"], report["data"]
    return {
        "status": experiment["status"],
        "id": experiment["id"],
        "source": data["source"],
        "clients, rows": f"{data['clients']}, {data['rows']}",
    }


def _privacy(report: Report) -> dict[str, str]:
    guarantee, privacy = report["guarantee"], report["privacy"]
    epsilons = "\n".join(map(_epsilon, privacy["epsilon"]))
    costs = (
        {"epsilon": epsilons, "a guess": _level(report)}
        if epsilons
        else {
            "leakage of a release": _cost(report, "leakage_per_release"),
            "leakage, median client": _cost(report, "leakage_median"),
            "leakage, largest": _cost(report, "leakage_max"),
            "theorem's sum, largest": _cost(report, "log_ratio_max"),
        }
    )
    participations = participation_label(
        guarantee["mechanism"], of_clients="participations, largest"
    )
    return {
        "guarantee": f"{guarantee_words(guarantee)} ({guarantee['mechanism']})",
        **costs,
        participations: str(privacy["participations_max"]),
        "refused, withheld": f"{privacy['refusals']}, {privacy['withheld']}",
    }


def _level(report: Report) -> str:
    guarantee = report["guarantee"]
    return level_words(
        report["privacy"]["epsilon_max"],
        delta=guarantee["delta"] or 0.0,
        kind=guarantee["kind"],
        in_force=guarantee.get("in_force"),
    )


def _epsilon(one: Mapping[str, Any]) -> str:
    value = f"{at_most(one['value'], digits=4)} at delta = {one['delta']:g}"
    return f"{value}, against {_plain(observer_words(one['observer']))}"


def _held_out(section: Mapping[str, Any]) -> dict[str, str]:
    force = "" if section["in_force"] else ", not in force"
    return {
        "epsilon": f"{_epsilon({**section, 'value': section['epsilon']})}{force}",
        "unit": section["unit"],
    }


def _utility(report: Report) -> dict[str, str]:
    utility = report["utility"]
    stopped_by = utility["stopped_by"]
    ending = IN_TABLES.get(stopped_by, stopped_by)  # a newer service may know another reason
    figures = {
        "rounds": f"{utility['rounds']} ({ending})",
        "validation loss": _figure(utility, "validation_loss"),
        **_known(utility, "loss of a constant", "baseline_loss"),
        **_known(utility, "accuracy", "accuracy"),
        **_known(utility, "accuracy of a constant", "baseline_accuracy"),
    }
    if utility.get("degenerate"):
        figures["degenerate"] = f"yes: {_plain(utility['reasons']['degenerate'])}"
    return figures


def _known(utility: Mapping[str, Any], label: str, name: str) -> dict[str, str]:
    """The figure, where the report has it."""
    return {} if utility.get(name) is None else {label: _figure(utility, name)}


def _fairness(section: Mapping[str, Any], *, accurate: bool) -> dict[str, str]:
    """The gaps; that of accuracies only where the run has an accuracy."""
    return {
        name: _gap(metric)
        for name, metric in section["metrics"].items()
        if accurate or name != "accuracy_difference"
    }


def _gap(metric: Mapping[str, Any]) -> str:
    if metric["value"] is None:
        return f"{_NOTHING}: {_plain(metric['reason'] or '')}"
    interval = metric["interval"]
    within = f" ({interval['low']:.3f} to {interval['high']:.3f})" if interval else ""
    return f"{metric['value']:.3f}{within}"


def _condition(gate: Mapping[str, Any]) -> str:
    return _plain(condition(gate))


def _outcome(gate: Mapping[str, Any]) -> str:
    return f"{_OUTCOMES[gate['outcome']]}: {_plain(gate['reason'])}"


def _brief_outcome(gate: Mapping[str, Any]) -> str:
    if gate["outcome"] == "insufficient_evidence":
        return _outcome(gate)
    return f"{_OUTCOMES[gate['outcome']]} at {gate['value']:.4g}"


def _cost(report: Report, name: str) -> str:
    """A cost, rounded up. Reports of the first version have no `log_ratio_max`."""
    privacy = report["privacy"]
    value = privacy.get(name)
    if value is not None:
        return at_most(value, digits=4)
    word = UNBOUNDED if is_unbounded(report["guarantee"]["kind"], name) else _NOTHING
    reason = privacy["reasons"].get(name)
    return f"{word}: {_plain(reason)}" if reason else word


def _figure(section: Mapping[str, Any], name: str) -> str:
    value = section[name]
    if value is None:
        return f"{_NOTHING}: {_plain(section['reasons'].get(name, ''))}"
    return f"{value:.4g}"


def _plain(text: str) -> str:
    """The text as it is: square brackets are no markup."""
    from rich.markup import escape

    return escape(text)
