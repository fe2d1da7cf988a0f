"""The commands below `artifacts`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedaudit.cli.connection import connected
from fedaudit.cli.display.output import say, write_each, write_json, write_line
from fedaudit.cli.failures import usage_error
from fedaudit.cli.options import AsJson

app = typer.Typer(
    help="Parameters that experiments start from: safetensors files, by the hash of their content.",
    no_args_is_help=True,
)
ArtifactId = Annotated[str, typer.Argument(metavar="ID", help="The SHA-256 of the file.")]


@app.command("add")
def artifacts_add(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="In safetensors.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Upload a file of parameters; a spec names it as `start: {artifact: ID}`."""
    try:
        source = file.open("rb")
    except OSError as error:
        raise usage_error(f"cannot read {file}: {error.strerror}") from None
    with source, connected() as client:
        added = client.upload_artifact(source, name=file.name[:200])
    if as_json:
        write_json(added)
        return
    write_line(added["id"])
    say(f"{added['hypotheses']} hypotheses of {added['parameters']} parameters")


@app.command("list")
def artifacts_list(*, as_json: AsJson = False) -> None:
    """Print the project's files of parameters, and the experiments that start from each."""
    with connected() as client:
        write_each(client.artifacts(), _line, as_json=as_json)


@app.command("show")
def artifacts_show(artifact_id: ArtifactId) -> None:
    """Print what is in a file of parameters."""
    with connected() as client:
        write_json(client.artifact(artifact_id))


@app.command("remove")
def artifacts_remove(artifact_id: ArtifactId) -> None:
    """Delete a file of parameters; experiments that wait to start from it will fail."""
    with connected() as client:
        client.delete_artifact(artifact_id)
    say(f"removed {artifact_id}")


def _line(one: Mapping[str, Any]) -> str:
    by = one["created_by"] or {}
    users = ", ".join(user["id"] for user in one["used_by"])
    more = f" and {one['uses'] - len(one['used_by'])} more" if one["uses"] > 20 else ""
    return (
        f"{one['id']}  {one['created_at'][:19]}  {one['size_bytes']:>10} bytes  "
        f"{one['hypotheses']} x {one['parameters']}  {one['name'] or 'no name'}, by "
        f"{by.get('person') or by.get('key_name') or 'an unknown key'}; "
        f"{f'starts {users}{more}' if users else 'unused'}"
    )
