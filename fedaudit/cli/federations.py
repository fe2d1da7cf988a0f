"""The commands on federations of a running service."""

import json
from pathlib import Path
from typing import Any

from fedaudit.cli.confirmation import confirm
from fedaudit.cli.display.federation_table import show
from fedaudit.cli.display.output import say, write_json, write_line
from fedaudit.cli.failures import ExitCode, usage_error
from fedaudit.cli.remote import connected
from fedaudit.cli.specs import read_value
from fedaudit.spec.disclosure.disclosure_policy import parse_disclosure_policy
from fedaudit.spec.registration import RegistrationFairness, parse_uploaded
from fedaudit_client.client import Client
from fedaudit_client.result_types import Federation


def add_command(
    file: Path,
    *,
    registration: str | None,
    spec: str | None,
    name: str | None,
    wait: bool,
    as_json: bool,
) -> ExitCode:
    """Upload a file. Raises InvalidInputError and CommandError."""
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
        return ExitCode.FAILED
    return ExitCode.DONE


def list_command(*, as_json: bool) -> None:
    """Print the project's federations."""
    with connected() as client:
        found = list(client.federations())
    if as_json:
        write_json(found)
        return
    for federation in found:
        write_line(
            f"{federation['id']}  {federation['status']:9}  {federation['source']:16}  "
            f"{federation['name']}"
        )


def show_command(federation_id: str, *, as_json: bool) -> None:
    """Print a federation, its profile and its budgets."""
    with connected() as client:
        federation = client.federation(federation_id)
        budgets = [] if as_json else client.budgets(federation_id)
    if as_json:
        write_json(federation)
    else:
        show(federation, budgets)


def disclosure_command(
    federation_id: str, *, policy: str | None, clear: bool, as_json: bool
) -> None:
    """Print a federation's disclosure policy, after it was set where one is given.

    Raises InvalidInputError and CommandError.
    """
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


def remove_command(federation_id: str, *, yes: bool) -> None:
    """Delete a federation, after asking."""
    with connected() as client:
        federation = client.federation(federation_id)
        if not yes:
            question = f"delete {federation['name']!r} and its file for good?"
            confirm(question, command="federations remove")
        client.delete_federation(federation_id)
    say(f"deleted {federation_id}; what was spent on its data stays spent")


def erase_command(
    federation_id: str, *, reference: str | None, out: Path | None, yes: bool, as_json: bool
) -> None:
    """Erase a federation, after asking, and wait for the receipt. Raises CommandError."""
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
