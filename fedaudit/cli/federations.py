"""The commands below `federations`, and `budget`: what may be spent on their data."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite, nan
from pathlib import Path
from typing import Annotated, Any

import typer

from fedaudit.cli.connection import confirm, connected
from fedaudit.cli.display.federation_table import show, show_budgets
from fedaudit.cli.display.output import say, write_each, write_json, write_line
from fedaudit.cli.failures import ExitCode, usage_error
from fedaudit.cli.options import AdjacencyName, AsJson, NoiseMode, Yes
from fedaudit.cli.specs import read_value
from fedaudit.spec.disclosure import parse_disclosure_policy
from fedaudit.spec.registration import RegistrationFairness, parse_uploaded
from fedaudit_client.client import Client
from fedaudit_client.result_types import Federation

app = typer.Typer()
federations = typer.Typer(no_args_is_help=True)
app.add_typer(federations, name="federations")

_MAX_SCAFFOLD_ROWS = 1_000_000
FederationId = Annotated[str, typer.Argument(metavar="ID", help="The federation's id.")]


@federations.command("add")
def federations_add(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The data, perhaps gzipped.")],
    *,
    registration: Annotated[
        str | None,
        typer.Option(help="A YAML or JSON file with `federation` and `fairness`; - is stdin."),
    ] = None,
    spec: Annotated[
        str | None, typer.Option(help="An experiment's spec, to take those two from; - is stdin.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Rather than the one in the registration.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until it is ready or rejected.")] = False,
    as_json: AsJson = False,
) -> None:
    """Upload a data file and have it profiled."""
    if (registration is None) == (spec is None):
        raise usage_error("federations add: give either --registration or --spec")
    value = _read_registration(spec) if spec is not None else _registration(str(registration))
    if isinstance(value, dict):
        value = {**value, "name": name or value.get("name") or file.name}
    # Here first: what is wrong need not be sent.
    parse_uploaded(value, file_name=file.name)
    with connected() as client:
        federation = _upload(client, file, value)
        if wait and federation["status"] == "profiling":
            say(f"uploaded as {federation['id']}; waiting for its profile")
            federation = client.profiled(federation["id"])
    if as_json:
        write_json(federation)
    else:
        show(federation)
    if federation["status"] == "rejected":
        say("fedaudit: the federation was rejected")
        raise typer.Exit(ExitCode.FAILED)


@federations.command("scaffold")
def federations_scaffold(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV or Parquet file.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="Where to write it, rather than to standard output.")
    ] = None,
    client_key: Annotated[
        str | None, typer.Option(help="The column that names clients, where you know it.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The column to predict, where you know it.")
    ] = None,
    header: Annotated[
        bool, typer.Option("--header/--no-header", help="Whether the first line names columns.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Propose a registration for a table, as YAML with the reason of every guess.

    It reads the file alone and needs no service. Correct it, then give it to
    `fedaudit federations add FILE --registration`.
    """
    from fedaudit.federations.proposals.proposal import proposal_yaml, propose_file
    from fedaudit.federations.reading.source_files import Files, open_path

    if not file.is_file():
        raise usage_error(f"cannot read {file}: it is no file")
    files = Files(file.parent)
    with open_path(file.name, files=files, pointer="/federation/path") as source:
        found = propose_file(
            source,
            name=file.name,
            most_rows=_MAX_SCAFFOLD_ROWS,
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


@federations.command("list")
def federations_list(*, as_json: AsJson = False) -> None:
    """List the project's federations, newest first."""
    with connected() as client:
        write_each(client.federations(), _line, as_json=as_json)


@federations.command("show")
def federations_show(federation_id: FederationId, *, as_json: AsJson = False) -> None:
    """Show a federation and its profile."""
    with connected() as client:
        federation = client.federation(federation_id)
        budgets = [] if as_json else client.budgets(federation_id)
    if as_json:
        write_json(federation)
    else:
        show(federation, budgets)


@federations.command("disclosure")
def federations_disclosure(
    federation_id: FederationId,
    *,
    policy: Annotated[
        str | None,
        typer.Option("--set", help="A YAML or JSON file of the whole policy; - is stdin."),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take the policy back.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show, or set, what may be asked of a federation's groups."""
    if policy is not None and clear:
        raise usage_error("federations disclosure: give --set or --clear, not both")
    value: Any = {} if clear else None if policy is None else read_value(policy)
    if value is not None:
        # Here first: what is wrong need not be sent.
        parse_disclosure_policy(value)
    with connected() as client:
        if value is None:
            found = client.disclosure(federation_id)
        else:
            found = client.set_disclosure(federation_id, value)
    if as_json:
        write_json(found)
        return
    for name, demanded in found.items():
        if name not in ("floor", "set_at") and demanded is not None:
            write_line(f"{name}: {json.dumps(demanded, ensure_ascii=False)}")
    for name, least in found["floor"].items():
        write_line(f"{name} of the service: {least}")


@federations.command("remove")
def federations_remove(federation_id: FederationId, *, yes: Yes = False) -> None:
    """Delete a federation's file and profile; what was spent on the data stays."""
    with connected() as client:
        federation = client.federation(federation_id)
        if not yes:
            question = f"delete {federation['name']!r} and its file for good?"
            confirm(question, command="federations remove")
        client.delete_federation(federation_id)
    say(f"deleted {federation_id}; what was spent on its data stays spent")


@federations.command("erase")
def federations_erase(
    federation_id: FederationId,
    *,
    reference: Annotated[
        str | None, typer.Option(help="What you call the request; it stands in the receipt.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the signed receipt, as JSON.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove what tells of a federation's people, for good, and show what remains and why."""
    with connected() as client:
        federation = client.federation(federation_id)
        if not yes:
            question = (
                f"erase {federation['name']!r} for good: its data, and the models, record tables "
                "and names of clients of its experiments?"
            )
            confirm(question, command="federations erase")
        client.erase_federation(federation_id, reference=reference)
        say(f"erasing {federation_id}")
        done = client.erased(federation_id)
    if out is not None:
        try:
            out.write_text(json.dumps(done["receipt"], indent=2) + "\n")
        except OSError as error:
            raise usage_error(f"--out: cannot write {out}: {error.strerror}") from None
    if as_json:
        write_json(done)
        return
    for name, count in done["removed"].items():
        write_line(f"removed: {count} {name.replace('_', ' ')}")
    for name, why in done["remains"].items():
        write_line(f"remains: {name}: {why}")


def _line(federation: Mapping[str, Any]) -> str:
    return (
        f"{federation['id']}  {federation['status']:9}  {federation['source']:16}  "
        f"{federation['name']}"
    )


def _upload(client: Client, file: Path, registration: Any) -> Federation:
    try:
        with file.open("rb") as content:
            return client.upload(content, registration, file_name=file.name)
    except OSError as error:
        raise usage_error(f"cannot read {file}: {error.strerror}") from None


def _registration(source: str) -> Any:
    value = read_value(source)
    if isinstance(value, dict) and "training" in value:
        raise usage_error(f"--registration: {source} is an experiment's spec; name it by --spec")
    return value


def _read_registration(source: str) -> Any:
    """The parts of an experiment's spec that describe its data, without where they come from."""
    spec = read_value(source)
    if not isinstance(spec, dict) or not isinstance(spec.get("federation"), dict):
        raise usage_error(f"--spec: {source} has no `federation`")
    elsewhere = ("path", "id")
    federation = {key: part for key, part in spec["federation"].items() if key not in elsewhere}
    fairness = spec.get("fairness")
    if isinstance(fairness, dict):
        known = RegistrationFairness.model_fields
        fairness = {key: part for key, part in fairness.items() if key in known}
    value = {"name": spec.get("name"), "federation": federation}
    return value if fairness is None else {**value, "fairness": fairness}


_FIGURES = ("leakage", "log_ratio", "epsilon")


@app.command()
def budget(
    federation_id: Annotated[
        str, typer.Argument(metavar="FEDERATION", help="The federation's id.")
    ],
    *,
    total: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="FIGURE=TOTAL",
            help="leakage, log_ratio or epsilon, and what may be spent of it in all; "
            "`none` takes the total back.",
        ),
    ] = None,
    noise: Annotated[
        NoiseMode, typer.Option("--noise", "--book", help="Of which runs: those with this noise.")
    ] = "release",
    delta: Annotated[float | None, typer.Option(help="Of an epsilon.")] = None,
    adjacency: Annotated[AdjacencyName | None, typer.Option(help="Of an epsilon.")] = None,
    observer: Annotated[str | None, typer.Option(help="Of an epsilon, as server.")] = None,
    radius: Annotated[
        str | None, typer.Option(help="Of leakage: adaptive (the default), or a distance.")
    ] = None,
    clip: Annotated[float | None, typer.Option(help="Of leakage: what updates are clipped to.")] = (
        None
    ),
    unit_key: Annotated[
        str | None, typer.Option(help="Whose clients, as client_key=zip; else the first that come.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what may be spent on a federation's data, and what was; or set one total."""
    terms = {
        "delta": delta,
        "adjacency": adjacency,
        "observer": observer,
        "radius": radius,
        "clip": clip,
        "unit_key": unit_key,
    }
    given = {name: value for name, value in terms.items() if value is not None}
    if total is None and given:
        raise usage_error(f"budget: {_option(next(iter(given)))} goes with --set")
    setting = None if total is None else {**_setting(total, noise), **_typed(given)}
    with connected() as client:
        if setting is None:
            found = client.budgets(federation_id)
        else:
            found = client.set_budget(federation_id, setting)
    if as_json:
        write_json(list(found))
        return
    if found:
        show_budgets(found)
    else:
        say("nothing was spent on this data, and no total is set")
    _warn(found)


def _setting(total: str, noise: NoiseMode) -> dict[str, Any]:
    figure, _, amount = total.partition("=")
    if figure not in _FIGURES:
        raise usage_error(f"--set: {figure!r} is not one of {', '.join(_FIGURES)}; as leakage=40")
    try:
        bound = None if amount == "none" else float(amount)
    except ValueError:
        bound = nan
    if bound is not None and not isfinite(bound):
        raise usage_error(f"--set: {amount!r} is no number; as {figure}=40, or {figure}=none")
    return {"book": noise, "figure": figure, "total": bound}


def _typed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with a radius that is a distance as a number."""
    radius = given.get("radius")
    if radius is None or radius == "adaptive":
        return dict(given)
    try:
        return {**given, "radius": float(radius)}
    except ValueError:
        raise usage_error(f"--radius: {radius!r} is neither `adaptive` nor a distance") from None


def _warn(budgets: Sequence[Mapping[str, Any]]) -> None:
    """A run is counted by leakage or by epsilon: with totals for both, one of them refuses it."""
    for noise in ("release", "simulation"):
        bound = {
            one["figure"]
            for one in budgets
            if one["book"] == noise and one["total"] is not None and one["observer"] != "report"
        }
        if "epsilon" in bound and bound & {"leakage", "log_ratio"}:
            say(
                f"{' and '.join(sorted(bound))} have totals for runs with {noise} noise: no run "
                "is counted by leakage and by an epsilon, so each is refused; take one back with "
                "--set FIGURE=none"
            )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
