"""The command `export`."""

import sys
from pathlib import Path
from typing import assert_never

from fedaudit.cli.display.output import whole_file
from fedaudit.cli.failures import usage_error
from fedaudit.cli.forms import TableForm, TableName
from fedaudit.cli.remote import connected


def export_command(
    experiment_id: str, *, what: TableName, form: TableForm, out: Path | None
) -> None:
    """Write a whole table to a file or to standard output. Raises CommandError."""
    if form == "parquet" and out is None and sys.stdout.isatty():
        raise usage_error("--out: name a file; Parquet is no text for a terminal")
    match what:
        case "records":
            if form != "csv":
                raise usage_error("--format: records are there as csv only")
            with connected() as client, whole_file(out) as file:
                file.writelines(client.record_table(experiment_id))
        case "ledger" | "rounds" | "fairness":
            with connected() as client, whole_file(out) as file:
                file.writelines(client.export(experiment_id, what, form=form))
        case _:
            assert_never(what)
