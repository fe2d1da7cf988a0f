"""The command `model`."""

import sys
from pathlib import Path

from fedaudit.cli.display.output import json_text, whole_file
from fedaudit.cli.failures import usage_error
from fedaudit.cli.remote import connected


def model_command(experiment_id: str, *, out: Path | None, layout: Path | None) -> None:
    """Write an experiment's trained hypotheses to a file, or to standard output, and what goes into
    them and comes out to the file `layout`."""
    if layout is not None:
        with connected() as client, whole_file(layout) as file:
            file.write(f"{json_text(client.model_layout(experiment_id))}\n".encode())
        if out is None:
            return
    if out is None and sys.stdout.isatty():
        raise usage_error("--out: name a file; safetensors is no text for a terminal")
    with connected() as client, whole_file(out) as file:
        client.download_model(experiment_id, file)
