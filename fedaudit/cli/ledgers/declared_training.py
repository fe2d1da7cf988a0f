"""What the commands below `ledgers` do."""

import json
from pathlib import Path
from typing import Any

from fedaudit.cli.display.output import say, write_json, write_line
from fedaudit.cli.failures import usage_error
from fedaudit.cli.remote import connected
from fedaudit.cli.specs import read_value


def create_command(source: str, *, as_json: bool) -> None:
    """Open a ledger on the terms in a file. Raises CommandError."""
    with connected() as client:
        made = client.create_ledger(_object(source, "terms"))
    if as_json:
        write_json(made)
    else:
        write_line(made["id"])


def post_command(ledger_id: str, source: str, *, as_json: bool) -> None:
    """Declare the rounds in a file. Raises CommandError."""
    rounds = _object(source, "rounds").get("rounds")
    if not isinstance(rounds, list):
        raise usage_error(f"{source}: must have a list `rounds`")
    with connected() as client:
        posted = client.declare_rounds(ledger_id, rounds)
    if as_json:
        write_json(posted)
        return
    for one in posted["rounds"]:
        over = f", {one['over_budget']} over their budget" if one["over_budget"] else ""
        write_line(f"round {one['round']}: {one['charged']} charged{over}, {one['chain_head']}")


def show_command(ledger_id: str, *, as_json: bool) -> None:
    """Show a ledger. Raises CommandError."""
    with connected() as client:
        found = client.ledger(ledger_id)
    if as_json:
        write_json(found)
        return
    write_line(f"{found['name']}, as declared by the trainer")
    write_line(f"rounds: {found['rounds']}, {found['missing_rounds']} numbers never declared")
    for one in found["epsilon"]:
        value = one["reason"] if one["value"] is None else f"{one['value']:.6g}"
        where = f"against {one['observer']}, {one['adjacency']}"
        write_line(f"epsilon at delta = {one['delta']:g} {where}: {value}")
    if found["leakage_max"] is not None:
        write_line(f"leakage: {found['leakage_max']:.6g}")
    write_line(f"over their budget: {found['over_budget']}")
    write_line(f"chain head: {found['chain_head']} ({found['entries']} entries)")


def report_command(ledger_id: str, *, out: Path | None, bundle: Path | None, as_json: bool) -> None:
    """Show or write a report, and write a bundle. Raises CommandError."""
    with connected() as client:
        document = client.ledger_report(ledger_id)
        if out is not None:
            page = client.ledger_report_page(ledger_id) if out.suffix == ".html" else None
            _write(out, (page or json.dumps(document, indent=2)).encode(), "--out")
        if bundle is not None:
            try:
                with bundle.open("wb") as file:
                    client.download_ledger_bundle(ledger_id, file)
            except OSError as error:
                raise usage_error(f"--bundle: cannot write {bundle}: {error.strerror}") from None
            say(f"written to {bundle}")
    if as_json:
        write_json(document)
    elif out is None:
        write_line(document["verdict"])


def list_command(*, as_json: bool) -> None:
    """List ledgers. Raises CommandError."""
    with connected() as client:
        found = list(client.ledgers())
    if as_json:
        write_json(found)
        return
    for one in found:
        cost = one["leakage_max"] if one["epsilon_max"] is None else one["epsilon_max"]
        shown = "no bound" if cost is None else f"{cost:.4g}"
        write_line(f"{one['id']}  {one['rounds']:>6} rounds  {shown:>10}  {one['name']}")


def _object(source: str, what: str) -> dict[str, Any]:
    value = read_value(source)
    if not isinstance(value, dict):
        raise usage_error(f"{source}: {what} must be an object with named fields")
    return value


def _write(path: Path, content: bytes, option: str) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise usage_error(f"{option}: cannot write {path}: {error.strerror}") from None
    say(f"written to {path}")
