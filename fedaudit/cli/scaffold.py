"""Propose a registration for a file on this machine."""

from dataclasses import asdict
from pathlib import Path

from fedaudit.cli.display.output import say, write_json, write_line
from fedaudit.cli.failures import usage_error
from fedaudit.federations.proposals.proposal_yaml import proposal_yaml
from fedaudit.federations.proposals.propose_file import propose_file
from fedaudit.federations.reading.source_files import Files, open_path

_MAX_ROWS = 1_000_000


def scaffold_command(
    file: Path,
    *,
    out: Path | None,
    client_key: str | None,
    target: str | None,
    header: bool,
    as_json: bool,
) -> None:
    """Print or write the proposal. Raises InvalidInputError and CommandError."""
    if not file.is_file():
        raise usage_error(f"cannot read {file}: it is no file")
    files = Files(file.parent)
    with open_path(file.name, files=files, pointer="/federation/path") as source:
        found = propose_file(
            source,
            name=file.name,
            most_rows=_MAX_ROWS,
            header=header,
            client_key=client_key,
            target=target,
        )
    if as_json:
        write_json(asdict(found))
        return
    text = proposal_yaml(found)
    if out is None:
        write_line(text.rstrip("\n"))
        return
    try:
        with out.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise usage_error(f"{out} exists; name another file, or delete it") from None
    except OSError as error:
        raise usage_error(f"cannot write {out}: {error.strerror}") from None
    say(f"wrote {out}; read its comments, then")
    say(f"  fedaudit federations add {file} --registration {out}")
