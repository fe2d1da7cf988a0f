"""The command `dossier`: a report as the folder that an output checker decides by."""

import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.output import (
    printed,
    usage_error,
    working,
    writable_folder,
    write_bytes,
    write_line,
)
from fedaudit.cli.remote import connected, is_id

app = typer.Typer()


@app.command("dossier")
def dossier_command(
    source: Annotated[
        str, typer.Argument(metavar="ID|BUNDLE", help="An experiment, or the file of its bundle.")
    ],
    *,
    out: Annotated[Path, typer.Option("--out", help="Write the files into this folder.")],
) -> None:
    """Write what an output checker decides by: the report by the controls of SATRE, with hashes."""
    files = _of_bundle(Path(source)) if Path(source).is_file() else _of_service(source)
    folder = writable_folder(out)
    if (folder / "dossier.json").exists():
        raise usage_error(f"--out: {folder} has a dossier; name another folder, or delete it")
    for name, content in files.items():
        write_bytes(content, folder / name)
    write_line(str(folder))


def _of_service(source: str) -> Mapping[str, bytes]:
    if not is_id(source):
        raise usage_error(f"{source} is neither a file nor the id of an experiment")
    with tempfile.TemporaryFile() as file:
        with connected() as client, working("making the dossier"):
            client.download_dossier(source, file)
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            # Plain names alone: nothing that a service sends is written outside the folder.
            return {Path(name).name: archive.read(name) for name in archive.namelist()}


def _of_bundle(path: Path) -> Mapping[str, bytes]:
    from fedaudit.ledger.bundle import NotABundleError, opened_bundle
    from fedaudit.reports.dossier.dossier_files import dossier_files

    try:
        with opened_bundle(path) as evidence:
            if evidence.faults:
                raise usage_error(f"{path}: its {evidence.faults[0].part} was altered; verify it")
            return dossier_files(evidence, printed=lambda page: printed(page, option="dossier.pdf"))
    except NotABundleError as error:
        raise usage_error(f"{path} is no bundle: it {error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise usage_error(f"{path} has no report that this version reads: {error}") from None
