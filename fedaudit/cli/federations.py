"""The commands under `federations`, `propose` and `budget`: the data, and what they may cost."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from rich.markup import escape
from typer import Argument, Exit, Option, Typer

from fedaudit.cli import output
from fedaudit.cli.options import AdjacencyName, AsJson, NoiseMode, Yes, read_value
from fedaudit.cli.remote import confirm, connected
from fedaudit.number_text import bound_text, exact_text, room_text
from fedaudit.reports.sections.outcome_words import outcome_of_profile
from fedaudit.spec.registration import RegistrationFairness, parse_uploaded
from fedaudit.spec.table import TABLE_FORMATS

Json = Mapping[str, Any]
FederationId = Annotated[str, Argument(metavar="ID", help="The federation's id.")]

app = Typer()
federations = Typer(no_args_is_help=True)
app.add_typer(federations, name="federations")

_MAX_SCAFFOLD_ROWS = 1_000_000
_SHOWN = 12
"""Names, or groups, in a list; a table may have thousands of columns."""
_FACTS = ("id", "status", "source", "file_name", "size_bytes", "fingerprint", "disclosure")
_BELOW = ("warnings", "notes")
"""Parts of a profile that are sentences."""


def show(federation: Json, budgets: Sequence[Json] = ()) -> None:
    """What is known of a federation, on standard output; notes and faults below it."""
    console, profile = output.standard_output(), federation["profile"] or {}
    known = {"name": federation["name"]} | {name: federation.get(name) for name in _FACTS}
    known |= {name: part for name, part in profile.items() if part and name not in _BELOW}
    if favourable := outcome_of_profile(profile, federation.get("registration")):
        known["favourable outcome"] = favourable
    shown = {name: _shortened(part) for name, part in known.items()}
    output.write_line(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True).rstrip())
    for note in profile.get("notes", []):
        console.print(f"[bold]Note.[/bold] {escape(note)}")
    for warning in federation.get("warnings", []):
        console.print(f"[bold]Warning.[/bold] {escape(warning)}")
    if budgets:
        _show_budgets(budgets)
    faults = [("Rejected.", one) for one in federation["reasons"]]
    faults += [("Warning.", one) for one in profile.get("warnings", [])]
    for title, fault in faults:
        place = f"{fault['pointer']}: " if fault["pointer"] else ""
        console.print(f"[bold]{title}[/bold] {escape(place + fault['message'])}")


def _shortened(part: Any) -> Any:
    """The part, of each list and object in it the first entries, and how many more there are."""
    more = f"and {len(part) - _SHOWN} more" if isinstance(part, list | dict) else ""
    if isinstance(part, dict):
        kept = {name: _shortened(one) for name, one in [*part.items()][:_SHOWN]}
        return kept | ({more: "..."} if len(part) > _SHOWN else {})
    if isinstance(part, list):
        return part[:_SHOWN] + [more] * (len(part) > _SHOWN)
    return part


_TERMS = ("observer", "unit_key", "delta", "adjacency", "radius", "clip")


def _show_budgets(budgets: Sequence[Json]) -> None:
    """One table: what was spent is rounded up, what is left down."""
    columns = {
        "noise": [one["book"] for one in budgets],
        "figure": [one["figure"] for one in budgets],
        "of": [
            "\n".join(f"{name} {one[name]}" for name in _TERMS if one[name] is not None)
            for one in budgets
        ],
        "spent": [bound_text(one["spent"]) for one in budgets],
        "reserved": [bound_text(one["reserved"]) for one in budgets],
        "by others": [
            bound_text(one["others"]["spent"] + one["others"]["reserved"]) for one in budgets
        ],
        "left": [
            str(one["reason"])
            if one["total"] is None
            else f"{room_text(one['remaining'])} of {exact_text(one['total'])}"
            for one in budgets
        ],
        "not counted": [
            "\n".join(f"{left['runs']} of {left['mechanism']}" for left in one["uncounted"])
            for one in budgets
        ],
    }
    output.print_columns(
        {head: [*map(escape, cells)] for head, cells in columns.items() if any(cells)}
    )
    output.standard_output().print(f"They count {escape(budgets[0]['scope'])}.")
    left_out = (left for one in budgets for left in one["uncounted"])
    reasons = (f"{one['mechanism']} is not counted: {one['why']}." for one in left_out)
    for reason in dict.fromkeys(reasons):
        output.standard_output().print(escape(reason))


@federations.command("add")
def federations_add(
    file: Annotated[Path, Argument(metavar="FILE", help="The data, perhaps gzipped.")],
    *,
    registration: Annotated[
        str,
        Option(
            "--registration",
            "--spec",
            help="A YAML or JSON file with `federation` and `fairness`, or an experiment's spec to "
            "take those two from; - is stdin.",
        ),
    ],
    wait: Annotated[bool, Option("--wait", help="Until it is ready or rejected.")] = False,
    as_json: AsJson = False,
) -> None:
    """Upload a data file and have it profiled."""
    value = read_value(registration)
    if isinstance(value, dict):
        named = {"name": value.get("name") or file.name}
        value = {**(_of_spec(value) if "training" in value else value), **named}
    # Here first: what is wrong need not be sent.
    parse_uploaded(value, file_name=file.name)
    with connected() as client:
        with file.open("rb") as content, output.working(f"sending {file.name}"):
            federation = client.upload(content, value, file_name=file.name)
        if wait and federation["status"] == "profiling":
            output.say(f"uploaded as {federation['id']}; waiting for its profile")
            said = federation.get("warnings", [])
            with output.working("profiling"):
                federation = client.profiled(federation["id"])
            federation["warnings"] = [*dict.fromkeys([*said, *federation.get("warnings", [])])]
    output.write_answer(federation, show, as_json=as_json)
    if federation["status"] == "rejected":
        output.say("fedaudit: the federation was rejected")
        raise Exit(output.ExitCode.FAILED)


@federations.command("scaffold")
def federations_scaffold(
    file: Annotated[Path, Argument(metavar="FILE", help=f"A {TABLE_FORMATS} file.")],
    *,
    out: Annotated[
        Path | None, Option(help="Where to write it, rather than to standard output.")
    ] = None,
    client_key: Annotated[
        str | None, Option(help="The column that names clients, where you know it.")
    ] = None,
    target: Annotated[str | None, Option(help="The column to predict, where you know it.")] = None,
    header: Annotated[
        bool, Option("--header/--no-header", help="Whether the first line names columns.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Propose a registration for a table, as YAML with the reason of every guess.

    It reads the file alone and needs no service. Correct it, then give it to
    `fedaudit federations add FILE --registration`.
    """
    from fedaudit.federations.proposals.column_survey import survey_table
    from fedaudit.federations.proposals.proposal import proposal_yaml, propose
    from fedaudit.federations.reading.source_files import Files, open_path

    if not file.is_file():
        raise output.usage_error(f"cannot read {file}: it is no file")
    files = Files(file.parent)
    with open_path(file.name, files=files, pointer="/federation/path") as source:
        survey = survey_table(source, header=header, most_rows=_MAX_SCAFFOLD_ROWS)
    found = propose(survey, name=file.name, client_key=client_key, target=target)
    if as_json:
        output.write_json(asdict(found))
        return
    text = proposal_yaml(found)
    if out is None:
        output.write_line(text.rstrip("\n"))
        return
    if out.exists():
        raise output.usage_error(f"{out} exists; name another file, or delete it")
    output.write_bytes(text.encode(), out)
    output.say("read its comments, then")
    output.say(f"  fedaudit federations add {file} --registration {out}")


@app.command("propose")
def propose(
    federation_id: FederationId,
    *,
    epsilon: Annotated[float | None, Option(help="What the run may cost at most.")] = None,
    delta: Annotated[float | None, Option(help="That goes with the epsilon.")] = None,
    leakage: Annotated[float | None, Option(help="Of metric privacy, in its place.")] = None,
    no_privacy: Annotated[
        bool, Option("--no-privacy", help="To see what could be learnt.")
    ] = False,
    unit: Annotated[
        Literal["client", "record"] | None, Option(help="Whom the guarantee is for.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Propose an experiment on a federation, as YAML with the reason of each choice. Exit 3 where
    no useful model is expected.

    `fedaudit submit` takes it as it is.
    """
    privacy = "none" if no_privacy else None
    asked: dict[str, float | str | None] = {"epsilon": epsilon, "delta": delta, "leakage": leakage}
    asked |= {"unit": unit, "privacy": privacy}
    given = {name: value for name, value in asked.items() if value is not None}
    with connected() as client:
        found = client.propose(federation_id, **given)
    if as_json:
        output.write_json(found)
    else:
        from fedaudit.federations.proposals.proposal import commented

        reasons = {one["pointer"]: one["reason"] for one in found["reasons"]}
        output.write_line("\n".join(commented(found["spec"], reasons)))
    if not found["expected_useful"]:
        why = (
            ""
            if found["needs"].startswith("submission refuses")
            else "no useful model is expected: "
        )
        output.say(f"fedaudit: {why}{found['needs']}")
        raise Exit(output.ExitCode.NO_EVIDENCE)


@federations.command("list")
def federations_list(*, as_json: AsJson = False) -> None:
    """List the project's federations, newest first."""
    with connected() as client:
        found = list(client.items("federations"))
    if as_json:
        output.write_json(found)
        return
    for one in found:
        output.write_line(f"{one['id']}  {one['status']:9}  {one['source']:16}  {one['name']}")


@federations.command("show")
def federations_show(federation_id: FederationId, *, as_json: AsJson = False) -> None:
    """Show a federation and its profile."""
    with connected() as client:
        found = client.federation(federation_id)
        output.write_answer(
            found, lambda one: show(one, client.budgets(one["id"])), as_json=as_json
        )


@federations.command("remove")
def federations_remove(federation_id: FederationId, *, yes: Yes = False) -> None:
    """Delete a federation's file and profile; what was spent on the data stays."""
    with connected() as client:
        if not yes:
            name = client.federation(federation_id)["name"]
            confirm(f"delete {name!r} and its file for good?", command="federations remove")
        client.delete_federation(federation_id)
    output.say(f"deleted {federation_id}; what was spent on its data stays spent")


@federations.command("erase")
def federations_erase(
    federation_id: FederationId,
    *,
    reference: Annotated[
        str | None, Option(help="What you call the request; the receipt shows it.")
    ] = None,
    out: Annotated[Path | None, Option(help="Where to write the signed receipt, as JSON.")] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove what names a federation's people, for good, and show what remains and why."""
    with connected() as client:
        federation = client.federation(federation_id)
        if not yes:
            question = (
                f"erase {federation['name']!r} for good: its data, and the models, record tables "
                "and names of clients of its experiments?"
            )
            confirm(question, command="federations erase")
        client.erase_federation(federation_id, reference=reference)
        output.say(f"erasing {federation_id}")
        done = client.erased(federation_id)
    if out is not None:
        output.write_bytes(output.json_line(done["receipt"]), out)
    if as_json:
        output.write_json(done)
        return
    for name, count in done["removed"].items():
        output.write_line(f"removed: {count} {name.replace('_', ' ')}")
    for name, why in done["remains"].items():
        output.write_line(f"remains: {name}: {why}")


def _of_spec(spec: Json) -> Json:
    """The parts of an experiment's spec that describe its data, without where they come from."""
    found = {name: spec[name] for name in ("federation", "fairness") if name in spec}
    for name, part in found.items():
        if isinstance(part, dict):
            others = {"path", "id"}
            if name == "fairness":
                others = part.keys() - RegistrationFairness.model_fields.keys()
            found[name] = {field: part[field] for field in part if field not in others}
    return found


@app.command()
def budget(
    federation_id: Annotated[str, Argument(metavar="FEDERATION", help="The federation's id.")],
    *,
    total: Annotated[
        str | None,
        Option(
            "--set",
            metavar="FIGURE=TOTAL",
            help="leakage, log_ratio or epsilon, and what may be spent of it in all; "
            "`none` takes the total back.",
        ),
    ] = None,
    noise: Annotated[NoiseMode, Option(help="Of which runs: those with this noise.")] = "release",
    delta: Annotated[float | None, Option(help="Of an epsilon.")] = None,
    adjacency: Annotated[AdjacencyName | None, Option(help="Of an epsilon.")] = None,
    observer: Annotated[str | None, Option(help="Of an epsilon, as server.")] = None,
    radius: Annotated[
        str | None, Option(help="Of leakage: adaptive (the default), or a distance.")
    ] = None,
    clip: Annotated[float | None, Option(help="Of leakage: what updates are clipped to.")] = (None),
    unit_key: Annotated[
        str | None, Option(help="Whose clients, as client_key=zip; else the first that come.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what may be spent on a federation's data, and what was; or set one total."""
    terms = {"delta": delta, "adjacency": adjacency, "observer": observer}
    terms |= {"radius": radius, "clip": clip, "unit_key": unit_key}
    given: dict[str, Any] = {name: one for name, one in terms.items() if one is not None}
    if total is None and given:
        raise output.usage_error(f"budget: --{next(iter(given)).replace('_', '-')} goes with --set")
    if radius not in (None, "adaptive"):
        given["radius"] = _amount("--radius", str(radius))
    with connected() as client:
        if total is None:
            found = client.budgets(federation_id)
        else:
            figure, _, amount = total.partition("=")
            bound = None if amount == "none" else _amount("--set", amount)
            setting = {"book": noise, "figure": figure, "total": bound, **given}
            found = client.set_budget(federation_id, setting)
    if as_json:
        output.write_json(list(found))
        return
    if found:
        _show_budgets(found)
    else:
        output.say("nothing was spent on this data, and no total is set")


def _amount(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise output.usage_error(f"{option}: {text!r} is no number") from None
