"""Lists of reports, and reports side by side, for people."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.box import HORIZONTALS
from rich.markup import escape
from rich.table import Table

from fedaudit.cli.output import print_records, standard_output
from fedaudit.number_text import NO_FIGURE, UNBOUNDED, at_most, filled_columns
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.reports.comparison.compared_reports import difference_rows
from fedaudit.reports.sections.guarantee import PRIVACY_COSTS, guarantee_words, is_unbounded
from fedaudit.reports.sections.part import answer_words_of

Json = Mapping[str, Any]

_LABEL_WIDTH, _CELL_WIDTH = 32, 20
"""Of a table's first column and of each other, at the least."""
_ALWAYS = ("leakage_max", "log_ratio_max", "epsilon_max", "validation_loss", "accuracy")


def show_clients(clients: Sequence[Json]) -> None:
    """What each client paid and how it fares, on standard output."""
    titles = (
        "client",
        "participations",
        "refused",
        "spent",
        "remaining",
        "accuracy",
        "95 %",
        "note",
    )
    cells = []
    for one in clients:
        numbers = [shown(name, one[name]) for name in ("participations", "refused")]
        spent = NO_FIGURE if one["spent"] is None else at_most(one["spent"], digits=4)
        figures = [shown(name, one[name]) for name in ("remaining", "accuracy")]
        cells.append(
            (
                *(one["client"], *numbers, spent, *figures),
                *(_interval(one.get("accuracy_interval")), one["reason"] or ""),
            )
        )
    head, rows, missing = filled_columns(titles, cells)
    table = Table(box=HORIZONTALS, caption=missing or None, caption_justify="left")
    for title in head:
        is_text = title in ("client", "note")
        table.add_column(title, justify="left" if is_text else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    print_records(table)


def _interval(found: Json | None) -> str:
    return NO_FIGURE if found is None else f"{found['low']:.3g} to {found['high']:.3g}"


def show_reports(reports: Sequence[Json], asked: Sequence[str]) -> None:
    """The reports with their main figures and those that were asked for, on standard output."""
    known = {figure["figure"] for report in reports for figure in report["figures"]}
    names = [name for name in dict.fromkeys((*_ALWAYS, *asked)) if name in known]
    measured = {
        figure["figure"]
        for report in reports
        for figure in report["figures"]
        if figure["value"] is not None
    }
    names = [name for name in names if name in asked or name in measured]
    table = Table(box=HORIZONTALS)
    table.add_column("id", no_wrap=True)
    for title in ("name", "guarantee", *names, "gates"):
        # A title in pieces could not be read, nor given to --sort.
        table.add_column(title, overflow="fold", min_width=len(title))
    for report in reports:
        guarantee = report["guarantee"]
        cells = [_figures(report, name) for name in names]
        table.add_row(
            report["experiment"]["id"],
            _judged_name(report),
            "unreadable"
            if guarantee is None
            else f"{guarantee_words(guarantee)}\n{guarantee['mechanism']}",
            *(escape(cell) for cell in cells),
            (report["gate_outcome"] or "none").replace("_", " "),
        )
    print_records(table)


def shown(figure: str, value: float | None, *, unbounded: bool = False) -> str:
    """A figure in a cell: what bounds a cost is rounded up, never to less than was spent."""
    if unbounded:
        return UNBOUNDED
    if value is None:
        return NO_FIGURE
    return at_most(value, digits=4) if figure in PRIVACY_COSTS else f"{value:.4g}"


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


def _judged_name(report: Json) -> str:
    """Its name, the answer below it, and a word for a model that decides nothing."""
    words = [answer_words_of(report), "DEGENERATE" if report["degenerate"] else ""]
    return "\n".join([escape(report["experiment"]["name"]), *filter(None, words)])


def show_comparison(comparison: Json) -> None:
    """Everything on standard output; experiments are called by their position."""
    console = standard_output()
    experiments = comparison["experiments"]
    numbers = {one["id"]: str(number) for number, one in enumerate(experiments, 1)}
    for one in experiments:
        guarantee = one["guarantee"]
        console.print(
            f"[bold]{numbers[one['id']]}[/bold]  {one['id']}  {escape(one['name'])}  "
            f"{guarantee_words(guarantee)} ({guarantee['mechanism']})  {answer_words_of(one)}"
        )
    for columns in _columns(len(experiments), width=console.width):
        console.print(_figure_table(comparison["figures"], columns))
    differences = difference_rows(comparison["spec_differences"])
    if differences:
        for columns in _columns(len(experiments), width=console.width):
            table = _table("spec", columns)
            for row in differences:
                cells = [row.cells[place] or "–" for place in columns]
                table.add_row(escape(row.label), *map(escape, cells))
            console.print(table)
    said = [warning["message"] for warning in comparison["warnings"]]
    for message in said:
        console.print(f"[bold]Mind.[/bold] {escape(message)}")
    for line in _fronts(comparison["fronts"], numbers, said=said):
        console.print(escape(line))
    for one in comparison["without_front"]:
        console.print(
            f"no. {numbers[one['experiment_id']]} is on no front: {escape(one['reason'])}"
        )


def _columns(count: int, *, width: int) -> Iterator[range]:
    """The experiments of each table: as many as fit side by side."""
    most = max((width - _LABEL_WIDTH) // _CELL_WIDTH, 1)
    for start in range(0, count, most):
        yield range(start, min(start + most, count))


def _figure_table(rows: Sequence[Json], columns: range) -> Table:
    table = _table("figure", columns)
    for _, of_section in groupby(rows, key=lambda row: row["section"]):
        table.add_section()
        for row in of_section:
            cells = [_cell(row["figure"], row["cells"][place]) for place in columns]
            table.add_row(escape(_label(row)), *cells)
    return table


def _cell(figure: str, cell: Json) -> str:
    text = shown(figure, cell["value"], unbounded=cell.get("unbounded", False))
    interval = cell.get("interval")
    return f"{text}\n{interval['low']:.3g} to {interval['high']:.3g}" if interval else text


def _label(row: Json) -> str:
    """The figure, and what distinguishes it from others of its name."""
    stated = [row["attribute"], row["guarantee"], row["loss"]]
    if row["delta"] is not None:
        observer = observer_words(row["observer"] or "all observers")
        stated += [
            f"against {observer}",
            f"delta = {row['delta']:g}",
            adjacency_words(row["adjacency"]),
            row["unit"],
        ]
    marks = ", ".join(one for one in stated if one is not None)
    return f"{row['figure']} ({marks})" if marks else str(row["figure"])


def _fronts(
    fronts: Sequence[Json], numbers: Mapping[str, str], *, said: Sequence[str]
) -> Iterator[str]:
    """The fronts' lines; reasons and cautions that hold for several are said once."""
    known = set(said)
    for front in fronts:
        yield from _front(front, numbers)
        left_out = [
            f"no. {numbers[one['experiment_id']]} is left out: {one['reason']}"
            for one in front["left_out"]
        ]
        for text in (*left_out, *front["cautions"]):
            if text not in known:
                yield f"  {text}"
            known.add(text)


def _front(front: Json, numbers: Mapping[str, str]) -> Iterator[str]:
    """What a front weighs, who is on it, and who is beaten by whom."""
    axes = [
        axis["figure"] + ("" if axis["attribute"] is None else f" by {axis['attribute']}")
        for axis in front["axes"]
    ]
    kind = (
        f"{front['guarantee']} {front['family']} of a {front['unit']} "
        f"against {observer_words(front['observer'])}"
    )
    if front["delta"] is not None:
        kind += f", delta = {front['delta']:g}, {adjacency_words(front['adjacency'])}"
    if front["radius"] is not None:
        kind += f", radius {front['radius']}" + " of each layer" * front["per_layer"]
    best = _named(front["front"], numbers) or "none"
    yield f"Pareto front over {', '.join(axes)} ({kind}): {best}"
    for id_, beaten_by in front["dominated_by"].items():
        yield f"  no. {numbers[id_]} is dominated by {_named(beaten_by, numbers)}"


def _named(ids: Sequence[str], numbers: Mapping[str, str]) -> str:
    return ", ".join(f"no. {numbers[one]}" for one in ids)


def _table(title: str, columns: range) -> Table:
    table = Table(box=HORIZONTALS, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(title, overflow="fold", min_width=_LABEL_WIDTH - 2)
    for place in columns:
        table.add_column(f"no. {place + 1}", overflow="fold")
    return table
