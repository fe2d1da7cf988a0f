"""`fedaudit attack ID`: attacks on a run of the service that has succeeded."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.cli.attacks.attack_output import ATTACKS, write_attack_file
from fedaudit.cli.display.output import json_text, say, writable_folder, write_json
from fedaudit.cli.display.summary import show_attacks
from fedaudit.cli.failures import ExitCode, usage_error
from fedaudit.cli.remote import connected
from fedaudit.cli.specs import read_value

if TYPE_CHECKING:
    from fedaudit_client import Client
    from fedaudit_client.result_types import LaterAttacks

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_id(text: str) -> bool:
    """Whether a text has the form of an experiment's id."""
    return _ID.fullmatch(text) is not None


def attack_later(
    experiment_id: str, attacks: str, *, wait: bool, as_json: bool, out: Path | None
) -> ExitCode:
    """Ask for the attacks in a file, and with `wait` say what they found. Raises CommandError."""
    asked = _attacks_in(read_value(attacks))
    folder = None if out is None else writable_folder(out)
    with connected() as client:
        found = client.attack(experiment_id, asked)
        if wait:
            found = client.wait_attack(experiment_id, found["id"])
        if folder is not None:
            _write(client, found, folder)
    if as_json:
        write_json(found)
    elif not wait:
        say(f"queued {found['id']}, request {found['number']} on this run")
    else:
        show_attacks([one["section"] for one in found["items"]])
    return _exit(found) if wait else ExitCode.DONE


def _attacks_in(value: Any) -> list[Mapping[str, Any]]:
    """Those of a list, or of a spec. What each has to be is checked by the service."""
    found = value.get("attacks") if isinstance(value, Mapping) else value
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise usage_error("--attacks: name a list of attacks, or a spec with `attacks`")
    if not found:
        raise usage_error("--attacks: the list is empty; name at least one attack")
    return found


def _write(client: "Client", found: "LaterAttacks", folder: Path) -> None:
    (folder / ATTACKS).write_text(f"{json_text(found)}\n", encoding="utf-8")
    names = [ATTACKS]
    for attack in found["items"]:
        for file in attack["files"]:
            parts = client.later_attack_file(
                found["experiment_id"], found["id"], attack["position"], file["name"]
            )
            data = b"".join(parts)
            names.append(write_attack_file(folder, attack["position"], file["name"], data))
    say(f"{', '.join(names)} in {folder}; they are confidential")


def _exit(found: "LaterAttacks") -> ExitCode:
    if found["status"] != "succeeded":
        why = found["status_detail"] or found["status_reason"] or "no reason is known"
        say(f"fedaudit: the attacks are {found['status']}: {why}")
    if found["alarms"]:
        say(f"fedaudit: {found['alarms']} of {len(found['items'])} attacks raised an alarm")
        return ExitCode.FAILED
    done = [one["section"]["status"] == "done" for one in found["items"]]
    is_done = found["status"] == "succeeded" and all(done)
    return ExitCode.DONE if is_done else ExitCode.NO_EVIDENCE
