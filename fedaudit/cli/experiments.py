"""The commands on experiments of the service at FEDAUDIT_URL, and on their reports."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, assert_never

from typer import Exit, Option, Typer

from fedaudit.cli import options, output
from fedaudit.cli.remote import MAX_PAGE, checked_key, connected
from fedaudit.spec.metrics import LEADING_METRICS
from fedaudit_client.client import Client
from fedaudit_client.errors import ForbiddenError

if TYPE_CHECKING:
    from fedaudit.reports.sections.part import GateOutcome

Json = Mapping[str, Any]

app = Typer()
_ID_WIDTH = 36
_OPEN = ("queued", "running", "cancelling")


@app.command()
def submit(
    spec: options.Spec,
    *,
    wait: Annotated[bool, Option("--wait", help="Follow it to its end.")] = False,
    as_json: options.AsJson = False,
    idempotency_key: options.IdempotencyKey = None,
) -> None:
    """Hand an experiment to the service at FEDAUDIT_URL."""
    checked_key(idempotency_key)
    asked = options.read_submission(spec)
    with connected() as client:
        submitted = client.submit(asked, idempotency_key=idempotency_key)
        output.show_warnings(submitted["warnings"])
        raise Exit(go_on(client, submitted, wait=wait, as_json=as_json))


@app.command("list")
def list_experiments(
    *,
    status: Annotated[
        str | None, Option(help="queued, running, cancelling, cancelled, succeeded or failed.")
    ] = None,
    name: Annotated[str | None, Option(help="Exactly this name.")] = None,
    tag: Annotated[str | None, Option(help="Those with this tag.")] = None,
    mechanism: Annotated[str | None, Option(help="As laplace-l2.")] = None,
    most: options.Most = 50,
    as_json: options.AsJson = False,
) -> None:
    """List experiments in every state, newest first."""
    asked = {"status": status, "name": name, "tag": tag, "mechanism": mechanism}
    with connected() as client:
        listed = client.list(**asked, limit=min(most, MAX_PAGE))
        found = list(islice(listed, most + 1))
    if len(found) > most:
        output.say(
            f"there are more experiments than the {most} shown; raise --most, or narrow the list"
        )
        found.pop()
    output.write_answer(found, show_experiments, as_json=as_json)


@app.command()
def show(experiment_id: options.ExperimentId, *, as_json: options.AsJson = False) -> None:
    """Show whether a model may be released, or the state of its experiment, and the figures."""
    with connected() as client:
        one = client.get(experiment_id)
    if as_json:
        output.write_json(one)
    else:
        for label, value in _facts(one, client.page("experiments/{}", one["id"])):
            if value:
                output.write_line(f"{label:20}{value}")


@app.command()
def cancel(experiment_id: options.ExperimentId, *, as_json: options.AsJson = False) -> None:
    """End an experiment that is queued or runs; what it has spent stays spent."""
    with connected() as client:
        one = client.cancel(experiment_id)
    if as_json:
        output.write_json(one)
    elif one["status"] == "cancelled":
        output.say(f"{one['id']} is cancelled; what it has spent stays spent")
    else:
        output.say(f"{one['id']} ends after its round; to wait for it: fedaudit watch {one['id']}")


@app.command()
def retry(
    experiment_id: options.ExperimentId,
    *,
    wait: Annotated[bool, Option("--wait", help="Follow the new one to its end.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Queue the spec of a failed or cancelled experiment again, as a new experiment."""
    with connected() as client:
        submitted = client.retry(experiment_id)
        raise Exit(go_on(client, submitted, wait=wait, as_json=as_json))


@app.command()
def watch(experiment_id: options.ExperimentId, *, as_json: options.AsJson = False) -> None:
    """Follow an experiment until it ends.

    With --json an event on each line.
    """
    with connected() as client:
        experiment = client.get(experiment_id)
        if as_json:
            for event in client.watch(experiment_id):
                line = {"id": event.id, "type": event.type, "data": dict(event.data)}
                output.write_json(line, pretty=False)
            raise Exit(_exit_of(client.get(experiment_id)))
        raise Exit(_end_of(client, experiment, as_json=False))


@app.command()
def export(
    experiment_id: options.ExperimentId,
    *,
    what: Annotated[options.TableName, Option()],
    form: Annotated[options.TableForm, Option("--format")] = "ndjson",
    out: options.Out = None,
) -> None:
    """Write an experiment's ledger, rounds or fairness to a file or to standard output."""
    if form == "parquet" and out is None and sys.stdout.isatty():
        raise output.usage_error("--out: name a file; Parquet is no text for a terminal")
    with connected() as client, output.whole_file(out) as file:
        file.writelines(client.export(experiment_id, what, form=form))


@app.command()
def model(experiment_id: options.ExperimentId, *, out: options.Out = None) -> None:
    """Write an experiment's trained hypotheses as safetensors.

    They may leave where a proven guarantee covers them and its noise was secret; see
    docs/models.md.
    """
    if out is None and sys.stdout.isatty():
        raise output.usage_error("--out: name a file; safetensors is no text for a terminal")
    with connected() as client, output.whole_file(out) as file:
        client.download_model(experiment_id, file)


@app.command()
def report(
    experiment_id: options.ExperimentId,
    *,
    form: Annotated[options.ReportForm, Option("--format")] = "json",
    reading: Annotated[
        str | None,
        Option(
            metavar="NAME", help="In the form that its reader has to fill; see docs/readings.md."
        ),
    ] = None,
    appendix: Annotated[
        bool, Option("--appendix", help="With --format html: the figures of every round as well.")
    ] = False,
    out: options.Out = None,
) -> None:
    """Fetch the audit report of a finished experiment."""
    if reading is not None:
        if form != "json":
            raise output.usage_error("--reading: a reading has its own form; leave --format out")
        with connected() as client:
            found = client.reading(experiment_id, reading)
        output.write_bytes(
            found.encode() if isinstance(found, str) else output.json_line(found), out
        )
        return
    if appendix and form != "html":
        raise output.usage_error("--appendix: goes with --format html")
    with connected() as client:
        later = client.later_attacks(experiment_id)["items"]
        match form:
            case "html":
                output.write_bytes(
                    client.report_page(experiment_id, appendix=appendix).encode(), out
                )
            case "json":
                output.write_bytes(output.json_line(client.report(experiment_id)), out)
            case _:
                assert_never(form)
    sections = [attack["section"] for one in later for attack in one["items"]]
    if alarms := sum(one.get("alarm") is not None for one in sections):
        output.say(
            f"fedaudit: {alarms} attacks after the report was signed raised an alarm: "
            "do not rely on its guarantee"
        )


def go_on(client: Client, submitted: Json, *, wait: bool, as_json: bool) -> output.ExitCode:
    """Print an experiment that was submitted just now; with `wait`, once it has ended."""
    if not wait:
        output.write_answer(submitted, _show_line, as_json=as_json)
        if not as_json:
            output.say(f"its page: {client.page('experiments/{}', submitted['id'])}")
        return output.ExitCode.DONE
    output.say(f"submitted as {submitted['id']}")
    return _end_of(client, submitted, as_json=as_json)


def follow(client: Client, experiment: Json) -> Json:
    """The experiment once it has ended; until then a progress bar at a terminal."""
    id_, total = experiment["id"], experiment["progress"]["rounds"]
    try:
        with output.progress_bars(experiment["name"], {"rounds": total}) as progress:
            for event in client.watch(id_):
                if event.type == "round.completed":
                    progress(event.data["round"])
    except KeyboardInterrupt:
        output.say(f"\nit goes on; to follow it again: fedaudit watch {id_}")
        output.say(f"to end it: fedaudit cancel {id_}")
        raise
    return client.get(id_)


def _exit_of(experiment: Json) -> output.ExitCode:
    if experiment["status"] != "succeeded":
        reason = experiment["status_detail"] or experiment["status_reason"] or "no reason was given"
        ended = {"cancelled": "was cancelled"}.get(experiment["status"], experiment["status"])
        output.say(f"fedaudit: the experiment {ended} ({reason})")
        return output.ExitCode.FAILED
    if alarms := experiment["alarms"]:
        output.say(
            f"{alarms} of its attacks raised an alarm; see fedaudit report {experiment['id']}"
        )
        return output.ExitCode.FAILED
    outcome = experiment["gate_outcome"]
    if outcome not in (None, "pass"):
        output.say(f"its gates: {outcome.replace('_', ' ')}; see fedaudit gate {experiment['id']}")
    return output.gate_exit(outcome)


def _end_of(client: Client, experiment: Json, *, as_json: bool) -> output.ExitCode:
    """Follow an experiment to its end, and print it; for people also what its report says of it,
    and where the report is."""
    experiment = follow(client, experiment)
    output.write_answer(experiment, _show_line, as_json=as_json)
    if as_json or experiment["status"] != "succeeded":
        return _exit_of(experiment)
    try:
        report = client.report(experiment["id"])
    except ForbiddenError:
        # A key that only runs experiments is good enough to have run this one.
        output.say("the key may not read reports, so the verdict is not shown here")
    else:
        from fedaudit.reports.sections.part import verdict_lines

        for title, text in verdict_lines(report):
            output.write_line(title)
            output.write_line(f"  {text}")
    output.write_line(f"report: {client.page('experiments/{}/report', experiment['id'])}")
    return _exit_of(experiment)


def _show_line(experiment: Json) -> None:
    rounds = f"round {_progress(experiment)}"
    output.write_line(f"{experiment['id']}  {experiment['status']}  {rounds}  {experiment['name']}")


def show_experiments(experiments: Sequence[Json]) -> None:
    """A table that fits a terminal of 80 columns: names above their ids."""
    if not experiments:
        output.say("no experiment fits")
        return
    from rich.box import HORIZONTALS
    from rich.markup import escape
    from rich.table import Table

    from fedaudit.reports.sections.part import answer_words_of

    table = Table(box=HORIZONTALS, padding=(0, 1, 0, 0), pad_edge=False)
    # Else this one, which is the widest, would be narrowed first, and no id could be copied.
    table.add_column("experiment", no_wrap=True, width=_ID_WIDTH)
    for title in ("status", "privacy cost", "result", "gates"):
        table.add_column(title, overflow="fold")
    for one in experiments:
        cells = (_cost(one), _result(one), _gates(one))
        under = _progress(one) if one["status"] in _OPEN else answer_words_of(one)
        status = f"{one['status']}\n{under}".strip()
        name = "\n".join(wrap(one["name"], _ID_WIDTH))
        table.add_row(f"{escape(name)}\n{one['id']}", status, *map(escape, cells))
    output.standard_output().print(table)


def _facts(experiment: Json, page: str) -> Iterator[tuple[str, str]]:
    """What is shown of one, the answer first; empty where it is not known."""
    from fedaudit.number_text import UNBOUNDED, figure_text

    spec, figures = experiment["spec"], experiment["figures"]
    yield "answer", _answer(experiment)
    reason = experiment["status_detail"] or experiment["status_reason"]
    yield "status", experiment["status"] + (f": {reason}" if reason else "")
    yield "gates", _gates(experiment).replace("\n", ", ")
    name, noise = spec["privacy"]["mechanism"], spec["privacy"]["noise"]
    cost = _cost(experiment).replace("\n", ", ")
    is_doubtful = cost and cost != UNBOUNDED and noise == "simulation"
    yield "privacy cost", f"{cost}, not in force" if is_doubtful else cost
    yield "mechanism", name if name == "none" else f"{name}, {noise} noise"
    yield "result", _result(experiment).replace("\n", " ")
    for gap in LEADING_METRICS:
        if figures[gap] is not None:
            words = gap.removesuffix("_difference").replace("_", " ")
            yield words, f"gap of {figure_text(figures[gap])}"
    yield "rounds", _progress(experiment)
    yield "name", experiment["name"]
    yield "tags", ", ".join(experiment["tags"])
    yield "data", f"{spec['federation']['source']}, federation {experiment['federation_id']}"
    for label in ("created", "started", "finished"):
        yield label, experiment[f"{label}_at"] or ""
    yield "retry of", experiment["retry_of"] or ""
    yield "id", experiment["id"]
    yield "page", page


def _answer(experiment: Json) -> str:
    """The answer with its most important reason."""
    from fedaudit.reports.sections.part import answer_words_of

    words, reasons = answer_words_of(experiment), (experiment.get("answer") or {}).get("reasons")
    if not reasons:
        return words
    rest = len(reasons) - 1
    more = f" (and {rest} more: fedaudit report {experiment['id']})" if rest else ""
    return f"{words}: {reasons[0]['text']}{more}"


def _progress(experiment: Json) -> str:
    progress = experiment["progress"]
    return f"{progress['round']} of {progress['rounds']}"


def _cost(experiment: Json) -> str:
    """Costs are rounded up. What has a report and no figure is bounded by nothing."""
    from fedaudit.number_text import UNBOUNDED, bound_text, exact_text

    figures = experiment["figures"]
    if figures["epsilon_max"] is not None:
        bound, delta = bound_text(figures["epsilon_max"]), exact_text(figures["delta"])
        return f"epsilon {bound}\ndelta {delta}"
    if figures["leakage_max"] is not None:
        return f"leakage {bound_text(figures['leakage_max'])}"
    return UNBOUNDED if experiment["status"] == "succeeded" else ""


def _result(experiment: Json) -> str:
    from fedaudit.number_text import figure_text

    figures = experiment["figures"]
    for name, label in (("accuracy", "accuracy"), ("validation_loss", "loss")):
        if figures[name] is not None:
            return f"{label}\n{figure_text(figures[name])}"
    return ""


def _gates(experiment: Json) -> str:
    from fedaudit.reports.gates.gate_results import OUTCOME_WORDS

    outcome: GateOutcome | None = experiment["gate_outcome"]
    words = "" if outcome is None else OUTCOME_WORDS[outcome]
    return f"{words}\nALARM".strip() if experiment["alarms"] else words
