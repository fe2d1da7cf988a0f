"""A comparison for people: figures by experiment, then specs, warnings and fronts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedaudit.cli.display.output import standard_output
from fedaudit.cli.display.report_table import shown
from fedaudit.privacy.accounting.adjacencies import adjacency_words
from fedaudit.privacy.accounting.observers import observer_words
from fedaudit.reports.document.guarantee_facts import guarantee_words

if TYPE_CHECKING:
    from rich.table import Table

Json = Mapping[str, Any]


def show_comparison(comparison: Json) -> None:
    """Everything on standard output; experiments are called by their position."""
    from rich.markup import escape

    console = standard_output()
    experiments = comparison["experiments"]
    numbers = {one["id"]: str(number) for number, one in enumerate(experiments, 1)}
    for one in experiments:
        guarantee = one["guarantee"]
        console.print(
            f"[bold]{numbers[one['id']]}[/bold]  {one['id']}  {escape(one['name'])}  "
            f"{guarantee_words(guarantee)} ({guarantee['mechanism']})"
        )
    console.print(_figures(comparison["figures"], list(numbers.values())))
    if comparison["spec_differences"]:
        console.print(_specs(comparison["spec_differences"], list(numbers.values())))
    for warning in comparison["warnings"]:
        console.print(f"[bold]Mind.[/bold] {escape(warning['message'])}")
    for front in comparison["fronts"]:
        for line in _front(front, numbers):
            console.print(escape(line))
    for one in comparison["without_front"]:
        console.print(f"{numbers[one['experiment_id']]} is on no front: {escape(one['reason'])}")


def _figures(rows: Sequence[Json], numbers: Sequence[str]) -> "Table":
    table = _table("figure", numbers)
    section = None
    for row in rows:
        if row["section"] != section:
            table.add_section()
            section = row["section"]
        cells = [shown(row["figure"], cell["value"]) for cell in row["cells"]]
        table.add_row(_plain(_label(row)), *cells)
    return table


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


def _specs(differences: Sequence[Json], numbers: Sequence[str]) -> "Table":
    longest = max(len(one["path"]) for one in differences)
    table = _table("spec", numbers, width=longest)
    for one in differences:
        values = [
            json.dumps(value["value"], ensure_ascii=False) if value["present"] else "-"
            for value in one["values"]
        ]
        table.add_row(_plain(one["path"]), *map(_plain, values))
    return table


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
    best = ", ".join(numbers[id_] for id_ in front["front"]) or "nobody"
    yield f"Pareto front over {', '.join(axes)} ({kind}): {best}"
    for id_, beaten_by in front["dominated_by"].items():
        yield f"  {numbers[id_]} is dominated by {', '.join(numbers[one] for one in beaten_by)}"
    for one in front["left_out"]:
        yield f"  {numbers[one['experiment_id']]} is left out: {one['reason']}"
    for caution in front["cautions"]:
        yield f"  {caution}"


def _table(title: str, numbers: Sequence[str], *, width: int | None = None) -> "Table":
    from rich.box import HORIZONTALS
    from rich.table import Table

    table = Table(box=HORIZONTALS)
    table.add_column(title, overflow="fold", min_width=width)
    for number in numbers:
        table.add_column(number, overflow="fold")
    return table


def _plain(text: str) -> str:
    """The text as it is: square brackets are no markup."""
    from rich.markup import escape

    return escape(text)
