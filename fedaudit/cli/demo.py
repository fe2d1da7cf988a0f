"""`make demo`: a service, experiments over HTTP with their reports side by side, and an experiment
that is proposed for a table, whose model may leave."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from rich.markup import escape
from typer import Argument, Option, Typer

from fedaudit.cli.experiments import follow
from fedaudit.cli.installation import BROKER_URL, DATABASE_URL, python_module
from fedaudit.cli.main import main
from fedaudit.cli.options import read_spec, read_value
from fedaudit.cli.output import CommandError, json_text, say, standard_output, writable_folder
from fedaudit.cli.remote import connected
from fedaudit.cli.summary import summary_table
from fedaudit.reports.sections.part import verdict_lines
from fedaudit_client.client import Client

Json = Mapping[str, Any]
_STOP_SECONDS = 15
_EPSILON = 2
_LESSON = (
    "Above: one model for all treats the minority worse, two do not. Their noise is simulated: for "
    "a lesson, not for release.\nBelow: made-up clinics, an experiment that the service proposed, "
    "with secret noise and a formal guarantee."
)


app = Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def demonstrate(
    sources: Annotated[list[str], Argument(metavar="SPEC...")],
    *,
    table: Annotated[Path, Option(help="Your table.")],
    registration: Annotated[Path, Option(help="What its columns mean.")],
    out: Annotated[Path, Option(help="Folder for the reports.")],
) -> None:
    """Run the demonstration."""
    writable_folder(out)
    specs = [read_spec(source) for source in sources]
    meaning = read_value(str(registration))
    with tempfile.TemporaryDirectory(prefix="fedaudit-demo-") as folder:
        say("starting the service")
        with _service(Path(folder)) as facts, connected(facts["url"], facts["api_key"]) as client:
            say(f"the service is at {facts['url']}")
            experiments = [client.submit(spec.model_dump(mode="json")) for spec in specs]
            reports = [_report(client, experiment, out) for experiment in experiments]
            experiment = client.submit(_proposed(client, table, meaning))
            released = _report(client, experiment, out)
            model = out / "model.safetensors"
            with model.open("wb") as file:
                client.download_model(experiment["id"], file)
            layout = client.model_layout(experiment["id"])
            (out / "model-layout.json").write_text(f"{json_text(layout)}\n", encoding="utf-8")
        say("the service has stopped")
    console = standard_output()
    console.print(summary_table(reports))
    console.print(_LESSON)
    console.print(summary_table([released]))
    for title, text in verdict_lines(released):
        console.print(f"[bold]{title}[/bold]\n  {escape(text)}", soft_wrap=True)
    console.print(f"Its model: safetensors.torch.load_file({str(model)!r})")
    say(f"the reports as JSON and HTML are in {out}")


def _proposed(client: Client, table: Path, registration: Json) -> Json:
    """A spec as the service proposes it for a table at an epsilon of 2, but with secret noise, and
    with gates; small enough gaps are asked for between the groups that the registration names."""
    with table.open("rb") as file:
        federation = client.upload(file, registration, file_name=table.name)
    federation = client.profiled(federation["id"])
    if faults := federation["errors"]:
        raise CommandError(
            "\n".join(f"{table.name}: {one['pointer']}: {one['message']}" for one in faults)
        )
    say(f"uploaded {table.name}; asking for a proposal at an epsilon of {_EPSILON}")
    spec: Json = client.propose(federation["id"], epsilon=_EPSILON)["spec"]
    figure = {"figure": "equalized_odds_difference", "op": "le", "value": 0.15}
    groups = registration.get("fairness", {}).get("sensitive", [])
    return {
        **spec,
        "name": table.stem,
        "privacy": {**spec["privacy"], "noise": "release"},
        "gates": [
            {"figure": "epsilon_max", "op": "le", "value": _EPSILON},
            *({**figure, "attribute": name} for name in groups),
        ],
    }


def _report(client: Client, experiment: Json, out: Path) -> dict[str, Any]:
    """The report of an experiment once it has ended, saved in both forms."""
    name = experiment["name"]
    say(f"following {name}")
    ended = follow(client, experiment)
    if ended["status"] != "succeeded":
        raise CommandError(f"{name} {ended['status']} ({ended['status_reason']})")
    report = client.report(experiment["id"])
    (out / f"{name}.json").write_text(f"{json_text(report)}\n", encoding="utf-8")
    (out / f"{name}.html").write_text(client.report_page(experiment["id"]), encoding="utf-8")
    return report


@contextmanager
def _service(data_dir: Path) -> Iterator[dict[str, str]]:
    """`fedaudit up` as a separate process: its address, its key and its data folder."""
    own = (DATABASE_URL, BROKER_URL)  # the demonstration keeps to its folder, whatever is set
    environment = {name: value for name, value in os.environ.items() if name not in own}
    command = python_module("fedaudit.cli.main", "up", "--json", "--data-dir", str(data_dir))
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise CommandError("the service did not start")
            yield json.loads(line)
        finally:
            process.terminate()
            process.wait(_STOP_SECONDS)


if __name__ == "__main__":
    main(app)
