"""The report of an audit for people, on standard output."""

from collections.abc import Mapping
from typing import Any

from rich.box import HORIZONTALS
from rich.markup import escape
from rich.table import Table

from fedaudit.cli.display.output import standard_output
from fedaudit.reports.document.verdict_parts import verdict_lines
from fedaudit.reports.gates.gate_results import OUTCOME_WORDS, condition
from fedaudit.spec.metrics import RATES

_FIGURES = (*RATES, "accuracy")


def show_audit(report: Mapping[str, Any]) -> None:
    """The verdict, the rates of each group, the gaps, the gates and the limits."""
    console = standard_output()
    for title, text in verdict_lines(report):
        console.print(f"[bold]{title}[/bold]\n{escape(text)}")
    for section in report["fairness"]:
        console.print(_groups(section))
        console.print(_gaps(section))
    for gate in report["gates"]:
        outcome = OUTCOME_WORDS[gate["outcome"]]
        console.print(f"{escape(condition(gate))}: {outcome}. {escape(gate['reason'])}")
    console.print("\n[bold]Limits.[/bold]")
    for limit in report["limits"]:
        console.print(f"- {escape(limit)}")


def _groups(section: Mapping[str, Any]) -> Table:
    table = Table(box=HORIZONTALS, title=escape(f"by {section['attribute']}"))
    table.add_column("group")
    for name in _FIGURES:
        table.add_column(name.replace("_", " "), justify="right")
    for group in section["groups"]:
        called = escape(group.get("label") or group["value"])
        if group["suppressed"]:
            table.add_row(called, *["suppressed"] * len(_FIGURES))
        else:
            table.add_row(called, *(_figure(group[name]) for name in _FIGURES))
    return table


def _gaps(section: Mapping[str, Any]) -> Table:
    table = Table(box=HORIZONTALS)
    for name in ("gap", "value", "interval", "by chance, p"):
        table.add_column(name, justify="left" if name == "gap" else "right")
    for name, metric in section["metrics"].items():
        if metric["value"] is None:
            continue
        interval, null = metric["interval"], metric["null"]
        table.add_row(
            name,
            _figure(metric["value"]),
            "" if interval is None else f"{interval['low']:.3g} to {interval['high']:.3g}",
            "" if null is None else _figure(null["p_value"]),
        )
    return table


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
