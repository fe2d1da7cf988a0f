"""The commands on reports: one in several forms, a list by figures, some side by side, gates."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, assert_never

import typer
from rich.box import HORIZONTALS
from rich.markup import escape
from rich.table import Table

from fedaudit.cli.options import (
    AsJson,
    ExperimentId,
    GateForm,
    Most,
    Out,
    ReportForm,
    Sort,
    Where,
    query_parameters,
    read_policies,
)
from fedaudit.cli.output import (
    gate_exit,
    json_text,
    print_records,
    say,
    standard_output,
    usage_error,
    write_bytes,
    write_json,
    yaml_text,
)
from fedaudit.cli.remote import MAX_PAGE, Commands, Given, connected, first_of, option
from fedaudit.cli.summary import show, show_gates
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.privacy.guarantees.guarantee import at_most
from fedaudit.reports.comparison.compared_reports import difference_rows
from fedaudit.reports.gates.gate_results import Evaluation, GateResults
from fedaudit.reports.gates.gate_results import junit as junit_of
from fedaudit.reports.gates.gate_results import markdown as markdown_of
from fedaudit.reports.sections.guarantee import (
    PRIVACY_COSTS,
    UNBOUNDED,
    guarantee_words,
    is_unbounded,
)
from fedaudit.reports.sections.part import answer_words_of
from fedaudit.spec.gates import PolicyFile
from fedaudit_client.client import Client

if TYPE_CHECKING:
    from fedaudit.reports.readings.readings import ReadingName

Json = Mapping[str, Any]

_LABEL_WIDTH, _CELL_WIDTH = 32, 20
"""Of a table's first column and of each other, at the least."""
_BEST = (
    "* the best of those with protection whose model decides something, beyond the intervals, "
    "which count the people held out and not the chance of training"
)
_NO_FIGURE = "–"
_ALWAYS = ("leakage_max", "log_ratio_max", "epsilon_max", "validation_loss", "accuracy")


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
        return _NO_FIGURE
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
    if any(cell.get("best") for row in comparison["figures"] for cell in row["cells"]):
        console.print(_BEST)
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
    if cell.get("best"):
        text = f"[bold]{text} *[/bold]"
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
    best = _named(front["front"], numbers) or "nobody"
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


app = typer.Typer()


def _known_reading(name: str | None) -> str | None:
    if name is None:
        return None
    # Only where one is asked for: the readings take a second to import.
    from fedaudit.reports.readings.readings import READINGS

    if name not in READINGS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, READINGS))}.")
    return name


@app.command()
def clients(experiment_id: ExperimentId, *, as_json: AsJson = False) -> None:
    """Show what each client of an ended experiment paid, and how it fares.

    Confidential: needs the scope ledger:read.
    """
    with connected() as client:
        found = list(client.clients(experiment_id))
    if as_json:
        write_json(found)
        return
    table = Table(box=HORIZONTALS)
    for title in ("client", "participations", "refused", "spent", "remaining", "accuracy"):
        table.add_column(title, justify="left" if title == "client" else "right")
    table.add_column("note", overflow="fold")
    for one in found:
        left = [one[name] for name in ("participations", "refused")]
        figures = [one[name] for name in ("remaining", "accuracy")]
        table.add_row(
            escape(one["client"]),
            *(_NO_FIGURE if number is None else str(number) for number in left),
            _NO_FIGURE if one["spent"] is None else at_most(one["spent"], digits=4),
            *(_NO_FIGURE if number is None else f"{number:.4g}" for number in figures),
            escape(one["reason"] or ""),
        )
    print_records(table)


@app.command()
def report(
    experiment_id: ExperimentId,
    *,
    form: Annotated[
        ReportForm,
        typer.Option("--format", help="text is for reading here; pdf needs the extra `pdf`."),
    ] = "json",
    reading: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=_known_reading,
            help="In the form that its reader has to fill; see docs/readings.md.",
        ),
    ] = None,
    out: Out = None,
) -> None:
    """Fetch the audit report of a finished experiment."""
    if reading is not None:
        if form != "json":
            raise usage_error("--reading: a reading has its own form; leave --format out")
        _write_reading(experiment_id, reading, out=out)
        return
    if form == "text" and out is not None:
        raise usage_error("--out: goes with --format json, html and pdf; text is for reading here")
    if form == "pdf" and out is None:
        raise usage_error("--format pdf: name a file with --out")
    from fedaudit.publishing.published_figures import later_found

    with connected() as client:
        later = later_found(client, experiment_id)
        match form:
            case "text":
                show(later.judge(client.report(experiment_id)))
            case "html":
                write_bytes(client.report_page(experiment_id).encode(), out)
            case "pdf":
                write_bytes(_pdf(client.report_page(experiment_id)), out)
            case "json":
                write_bytes(f"{json_text(client.report(experiment_id))}\n".encode(), out)
            case _:
                assert_never(form)
    if later.alarms:
        say(
            f"fedaudit: {later.alarms} attacks after the report was signed raised an alarm: "
            "do not rely on its guarantee"
        )


def _pdf(page: str) -> bytes:
    """Made here rather than by the service: a long report keeps a processor busy for seconds."""
    from fedaudit.reports.page.pdf import PdfUnavailableError, pdf_of

    try:
        return pdf_of(page)
    except PdfUnavailableError as error:
        raise usage_error(f"--format pdf: {error}") from error


def _write_reading(experiment_id: str, reading: "ReadingName", *, out: Path | None) -> None:
    """As YAML where the file's name ends so."""
    with connected() as client:
        found = client.reading(experiment_id, reading)
    if isinstance(found, str):
        text = found
    elif out is not None and out.suffix in (".yaml", ".yml"):
        text = yaml_text(found)
    else:
        text = f"{json_text(found)}\n"
    write_bytes(text.encode(), out)


@app.command()
def reports(
    *, where: Where = None, sort: Sort = None, most: Most = 50, as_json: AsJson = False
) -> None:
    """List reports by any of their figures."""
    filters = query_parameters(where)
    with connected() as client:
        asked = client.reports(**filters, sort=sort, limit=min(most, MAX_PAGE))
        shown = first_of(asked, most, what="reports")
    if as_json:
        write_json(shown)
    else:
        named = [name.partition("[")[0] for name in filters]
        show_reports(shown, [*named, (sort or "").removeprefix("-")])


def _several(experiment_ids: list[str]) -> list[str]:
    if len(experiment_ids) < 2:
        raise usage_error("compare: name two experiments or more")
    return experiment_ids


Commands(app).add(
    "compare",
    "Put reports side by side: figures, specs and Pareto fronts.",
    "compare",
    show=lambda client, found: show_comparison(found),
    experiment_ids=Given(
        Annotated[
            list[str],
            typer.Argument(metavar="ID...", help="Two to fifty experiments.", callback=_several),
        ]
    ),
    fairness=option("The fairness figure of the Pareto fronts."),
    utility=option("Their utility figure: validation_loss or accuracy."),
)


@app.command()
def gate(
    experiment_id: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
    *,
    policy: Annotated[
        str | None,
        typer.Option(help="A YAML or JSON file of policies (and `experiment_id`); - is stdin."),
    ] = None,
    form: Annotated[
        GateForm, typer.Option("--format", help="junit for test reports, markdown for a comment.")
    ] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    out: Out = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="Write JUnit to this file as well.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write Markdown to this file as well.")
    ] = None,
) -> None:
    """Exit 0 where the experiment passes its gates, 1 where it fails, 3 where it is not decided."""
    if as_json and form not in ("text", "json"):
        raise usage_error("--json: is the same as --format json; give one of the two")
    form = "json" if as_json else form
    if form == "text" and out is not None:
        raise usage_error("--out: goes with --format json, junit and markdown")
    file = None if policy is None else read_policies(policy)
    experiment_id = experiment_id or (file.experiment_id if file else None)
    if experiment_id is None:
        raise usage_error("gate: name an experiment, or a --policy with an experiment_id")
    with connected() as client:
        results = _evaluated(client, experiment_id, file)
    if results.outcome is None:
        raise usage_error("gate: the experiment's spec has no gate; give some with --policy")
    if junit is not None:
        write_bytes(junit_of(results).encode(), junit, option="--junit")
    if markdown is not None:
        write_bytes(markdown_of(results).encode(), markdown, option="--markdown")
    if (written := _DOCUMENTS[form]) is not None:
        write_bytes(written(results).encode(), out)
    if written is None or out is not None:
        show_gates(results)
    raise typer.Exit(gate_exit(results.outcome))


def _evaluated(client: Client, experiment_id: str, file: PolicyFile | None) -> GateResults:
    if file is None:
        answer = client.evaluate_gates(experiment_id)
        return GateResults(experiment_id, (Evaluation(None, tuple(answer["gates"])),))
    evaluations = []
    for named in file.to_evaluate:
        gates = [gate.model_dump(mode="json") for gate in named.gates]
        answer = client.evaluate_gates(experiment_id, gates)
        evaluations.append(Evaluation(named.name, tuple(answer["gates"])))
    return GateResults(experiment_id, tuple(evaluations))


_DOCUMENTS: dict[GateForm, Callable[[GateResults], str] | None] = {
    "text": None,
    "json": lambda results: f"{json_text(results.as_dict())}\n",
    "junit": junit_of,
    "markdown": markdown_of,
}
"""What writes the results; None where they are only shown."""
