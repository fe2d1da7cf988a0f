"""`make demo`: a service, experiments over HTTP, and their reports side by side."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedaudit.cli.experiments import follow
from fedaudit.cli.installation import BROKER_URL, DATABASE_URL, python_module
from fedaudit.cli.options import explain, read_spec
from fedaudit.cli.output import (
    CommandError,
    ExitCode,
    json_text,
    say,
    standard_output,
    writable_folder,
)
from fedaudit.cli.summary import summary_table
from fedaudit.spec.errors import InvalidInputError
from fedaudit_client.client import Client

_STOP_SECONDS = 15


def main(arguments: Sequence[str] | None = None) -> ExitCode:
    """Run the demonstration; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fedaudit.cli.demo", description=__doc__)
    parser.add_argument("specs", nargs="+", metavar="SPEC")
    parser.add_argument("--out", type=Path, required=True, help="folder for the reports")
    options = parser.parse_args(arguments)
    try:
        _demonstrate(options.specs, writable_folder(options.out))
    except CommandError as error:
        say(f"demo: {error}")
        return error.code
    except InvalidInputError as error:
        say(f"demo: {explain(error.errors)}")
        return ExitCode.USAGE
    return ExitCode.DONE


def _demonstrate(sources: Sequence[str], out: Path) -> None:
    specs = [read_spec(source) for source in sources]
    with tempfile.TemporaryDirectory(prefix="fedaudit-demo-") as folder:
        say("starting the service")
        with _service(Path(folder)) as facts, Client(facts["url"], facts["api_key"]) as client:
            say(f"the service is at {facts['url']}")
            experiments = [client.submit(spec.model_dump(mode="json")) for spec in specs]
            reports = [_report(client, experiment, out) for experiment in experiments]
        say("the service has stopped")
    standard_output().print(summary_table(reports))
    say(f"the reports as JSON and HTML are in {out}")


def _report(client: Client, experiment: Mapping[str, Any], out: Path) -> dict[str, Any]:
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
    """`fedaudit up` as a process of its own: its address, its key and its data folder."""
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
    sys.exit(main())
