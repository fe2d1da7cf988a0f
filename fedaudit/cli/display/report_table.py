"""Reports in a list for people: a line each."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.cli.display.output import print_records
from fedaudit.privacy.accounting.privacy_events import adjacency_words
from fedaudit.privacy.guarantees.guarantee import at_most
from fedaudit.reports.document.guarantee_facts import guarantee_words
from fedaudit.reports.document.privacy_costs import PRIVACY_COSTS, UNBOUNDED, is_unbounded

Json = Mapping[str, Any]

_NO_FIGURE = "–"
_ALWAYS = ("leakage_max", "log_ratio_max", "epsilon_max", "validation_loss", "accuracy")


def show_reports(reports: Sequence[Json], asked: Sequence[str]) -> None:
    """The reports with their main figures and those that were asked for, on standard output."""
    from rich.box import HORIZONTALS
    from rich.markup import escape
    from rich.table import Table

    known = {figure["figure"] for report in reports for figure in report["figures"]}
    names = [name for name in dict.fromkeys((*_ALWAYS, *asked)) if name in known]
    names = [name for name in names if name in asked or _has_value(reports, name)]
    table = Table(box=HORIZONTALS)
    table.add_column("id", no_wrap=True)
    for title in ("name", "guarantee", *names, "gates"):
        # A title in pieces could not be read, nor given to --sort.
        table.add_column(title, overflow="fold", min_width=len(title))
    for report in reports:
        cells = [_figures(report, name) for name in names]
        table.add_row(
            report["experiment"]["id"],
            escape(report["experiment"]["name"]) + ("\nDEGENERATE" if report["degenerate"] else ""),
            _guarantee(report),
            *(escape(cell) for cell in cells),
            (report["gate_outcome"] or "none").replace("_", " "),
        )
    print_records(table)


def shown(figure: str, value: float | None, *, unbounded: bool = False) -> str:
    """A figure in a cell: what bounds a cost is rounded up, never to less than was spent."""
    if unbounded:
        return UNBOUNDED
    if value is None:
        return _NO_FIGURE
    return at_most(value, digits=4) if figure in PRIVACY_COSTS else f"{value:.4g}"


def _has_value(reports: Sequence[Json], name: str) -> bool:
    return any(
        figure["figure"] == name and figure["value"] is not None
        for report in reports
        for figure in report["figures"]
    )


def _figures(report: Json, name: str) -> str:
    """The figure for each attribute it has, and what an epsilon is counted by."""
    guarantee = report["guarantee"]
    unbounded = guarantee is not None and is_unbounded(guarantee["kind"], name)
    lines = []
    for figure in report["figures"]:
        if figure["figure"] != name or figure["observer"] is not None:
            continue
        line = shown(name, figure["value"], unbounded=unbounded)
        if figure["delta"] is not None:
            line += f"\ndelta = {figure['delta']:g}\n{adjacency_words(figure['adjacency'])}"
        elif figure["attribute"] is not None:
            line = f"{figure['attribute']}: {line}"
        lines.append(line)
    return "\n".join(lines)


def _guarantee(report: Json) -> str:
    guarantee = report["guarantee"]
    if guarantee is None:
        return "unreadable"
    return f"{guarantee_words(guarantee)}\n{guarantee['mechanism']}"
