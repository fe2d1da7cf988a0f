"""The command `export`."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, assert_never

from fedaudit.cli.display.output import say
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
            with (
                connected() as client,
                _target(out) as file,
                client.record_table(experiment_id) as chunks,
            ):
                file.writelines(chunks)
        case "ledger" | "rounds" | "fairness":
            with (
                connected() as client,
                _target(out) as file,
                client.export(experiment_id, what, form=form) as chunks,
            ):
                file.writelines(chunks)
        case _:
            assert_never(what)


@contextmanager
def _target(out: Path | None) -> Iterator[IO[bytes]]:
    """Where to write; a named file appears whole or not at all."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    aside = out.with_name(f".{out.name}.partial")
    try:
        with aside.open("wb") as file:
            yield file
        os.replace(aside, out)
    except OSError as error:
        raise usage_error(f"--out: cannot write {out}: {error.strerror}") from None
    finally:
        aside.unlink(missing_ok=True)
    say(f"written to {out}")
