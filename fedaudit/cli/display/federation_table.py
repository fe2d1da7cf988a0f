"""A federation and its profile for people, in a table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.box import HORIZONTALS
from rich.markup import escape
from rich.table import Table

from fedaudit.cli.display.output import standard_output
from fedaudit.reports.sections.outcome_words import labels_of_spec, outcome_of_profile
from fedaudit.spec.labels import label_of

Json = Mapping[str, Any]

_SHOWN = 12
"""Names in a line; a table may have thousands of columns."""


def show(federation: Json, budgets: Sequence[Json] = ()) -> None:
    """What is known of a federation, on standard output; notes and faults below the table."""
    sections = (*_sections(federation), *_budgets(budgets))
    console = standard_output()
    console.print(_table(sections, title=federation["name"]))
    profile = federation["profile"] or {}
    for note in profile.get("notes", []):
        console.print(f"[bold]Note.[/bold] {escape(note)}")
    for warning in federation.get("warnings", []):
        console.print(f"[bold]Warning.[/bold] {escape(warning)}")
    if budgets:
        console.print(f"[bold]Budgets[/bold] count {escape(budgets[0]['scope'])}.")
    for title, faults in (
        ("Rejected.", federation["reasons"]),
        ("Warning.", profile.get("warnings", [])),
    ):
        for fault in faults:
            place = f"{fault['pointer']}: " if fault["pointer"] else ""
            console.print(f"[bold]{title}[/bold] {escape(place + fault['message'])}")


def show_budgets(budgets: Sequence[Json]) -> None:
    """A federation's budgets alone, on standard output."""
    console = standard_output()
    console.print(_table(_budgets(budgets)))
    console.print(f"They count {escape(budgets[0]['scope'])}.")


def _table(sections: Iterable[tuple[str, Mapping[str, str]]], *, title: str | None = None) -> Table:
    table = Table(box=HORIZONTALS, show_header=title is not None)
    table.add_column("", no_wrap=True)
    table.add_column(escape(title or ""), overflow="fold")
    for name, lines in sections:
        table.add_section()
        table.add_row(f"[bold]{escape(name)}[/bold]")
        for label, value in lines.items():
            table.add_row(f"  {escape(label)}", escape(value))
    return table


def _sections(federation: Json) -> Iterator[tuple[str, dict[str, str]]]:
    yield "federation", _federation(federation)
    profile = federation["profile"]
    if profile is None:
        return
    registration = federation.get("registration")
    labels = labels_of_spec(registration)
    yield "data", _data(profile, outcome_of_profile(profile, registration))
    if profile.get("class_balance"):
        yield "rows of each class", _counts(profile["class_balance"])
    missing = {column: rows for column, rows in profile.get("missing", {}).items() if rows}
    if missing:
        yield "empty cells", _counts(missing)
    for name, attribute in profile.get("attributes", {}).items():
        yield f"groups of {name}, by {attribute['of']}", _groups(attribute, labels.get(name, {}))


def _federation(federation: Json) -> dict[str, str]:
    size, policy = federation["size_bytes"], federation.get("disclosure")
    return {
        "id": federation["id"],
        "status": federation["status"],
        "source": federation["source"],
        "file": federation["file_name"] or "named by experiments",
        "size": "unknown" if size is None else f"{size:,} bytes",
        "fingerprint": federation["fingerprint"],
        "disclosure policy": ", ".join(policy) if policy else "none",
    }


def _budgets(budgets: Sequence[Json]) -> Iterator[tuple[str, dict[str, str]]]:
    for budget in budgets:
        left_out = [f"{one['runs']} of {one['mechanism']}" for one in budget["uncounted"]]
        others = budget["others"]
        parts = [budget["book"], budget["figure"], budget["observer"], budget["unit_key"]]
        yield (
            "budget: " + ", ".join(part for part in parts if part),
            {
                "spent, reserved": f"{budget['spent']:.4g}, {budget['reserved']:.4g}",
                "by other projects": f"{others['spent']:.4g}, {others['reserved']:.4g}",
                "left of the total": (
                    str(budget["reason"])
                    if budget["total"] is None
                    else f"{budget['remaining']:.4g} of {budget['total']:.4g}"
                ),
                "not counted": "; ".join(left_out) or "nothing",
            },
        )


def _data(profile: Json, favourable: str | None) -> dict[str, str]:
    lines = {
        "rows": _number(profile["rows"]),
        "clients": _number(profile["clients"]),
        "rows of a client": _spread(profile),
        "features": _names(profile["features"]),
        "target": profile["target"],
    }
    if profile["classes"]:
        lines["classes"] = _names(profile["classes"])
    if favourable is not None and profile.get("attributes"):
        lines["favourable outcome"] = favourable
    return lines


def _spread(profile: Json) -> str:
    each = profile["rows_per_client"]
    if each["minimum"] is None:
        return str(profile["reasons"]["rows_per_client"])
    return (
        f"{_number(each['minimum'])} to {_number(each['maximum'])}, "
        f"median {_number(each['median'])}"
    )


def _counts(counts: Json) -> dict[str, str]:
    lines = {str(name): _number(count) for name, count in list(counts.items())[:_SHOWN]}
    if len(counts) > _SHOWN:
        lines[f"and {len(counts) - _SHOWN} more"] = ""
    return lines


def _groups(attribute: Json, labels: Mapping[str, str]) -> dict[str, str]:
    lines = {}
    for group, rows in attribute["groups"].items():
        rate = attribute["base_rates"].get(group)
        favourable = "" if rate is None else f", {rate:.1%} with the favourable outcome"
        label = label_of(labels, group)
        lines[group if label is None else f"{label} ({group})"] = (
            "not shown, to hide a small group" if rows is None else f"{rows:,} rows{favourable}"
        )
    if attribute["missing"]:
        lines["(no value)"] = f"{attribute['missing']:,} rows"
    return lines


def _names(names: list[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)}: {', '.join(names[:_SHOWN])}{more}"


def _number(value: float | None) -> str:
    return "not shown" if value is None else f"{value:,.10g}"
