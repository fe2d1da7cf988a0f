"""A sweep from its file to its table."""

from typing import Any

from fedaudit.cli.display.output import say, write_json, write_line
from fedaudit.cli.failures import ExitCode, usage_error
from fedaudit.cli.remote import checked_key, connected
from fedaudit.cli.specs import read_value
from fedaudit.cli.sweeps.sweep_display import (
    show_costs,
    show_planned_cells,
    show_sweep,
    show_table,
    statuses_words,
)
from fedaudit.cli.sweeps.watched_sweep import followed
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registered.inheritance import waits_for_registration
from fedaudit.spec.sweeps.sweep_cells import expand, parse_cells
from fedaudit.spec.sweeps.sweep_spec import SweepSpec, parse_sweep
from fedaudit_client.client import Client
from fedaudit_client.errors import ProblemError
from fedaudit_client.pages import sweep_page
from fedaudit_client.sweep_types import SubmittedSweep, Sweep, SweepTable


def sweep_command(
    source: str, *, wait: bool, as_json: bool, idempotency_key: str | None
) -> ExitCode:
    """Submit a sweep and print it; with `wait`, its table once all cells have ended."""
    checked_key(idempotency_key)
    asked = _checked(read_value(source))
    with connected() as client:
        submitted = client.submit_sweep(
            asked.model_dump(mode="json"), idempotency_key=idempotency_key
        )
        return _go_on(client, submitted, wait=wait, as_json=as_json)


def dry_run_command(source: str, *, as_json: bool) -> ExitCode:
    """Print the cells of a sweep and what they would cost together; nothing is stored."""
    asked = _checked(read_value(source))
    with connected() as client:
        found = client.project_sweep(asked.model_dump(mode="json"))
    cells = [dict(cell.values) for cell in expand(asked)]
    if as_json:
        write_json({**found, "values": cells})
    else:
        write_line(f"{found['cells']} cells")
        show_planned_cells(cells)
        if found["costs"] is not None:
            show_costs(found["costs"], found["facts"])
        _show_warnings(found["warnings"])
    if not found["has_room"]:
        say(f"it would be refused: {found['detail']}")
        return ExitCode.FAILED
    return ExitCode.DONE


def watch_sweep_command(sweep_id: str, *, as_json: bool) -> ExitCode:
    """Follow a sweep to its end, and print its table."""
    with connected() as client:
        return _end_of(client, client.sweep(sweep_id), as_json=as_json)


def retry_sweep_command(sweep_id: str, *, wait: bool, as_json: bool) -> ExitCode:
    """Queue cells again that did not succeed, and print the sweep; with `wait`, its table."""
    with connected() as client:
        return _go_on(client, client.retry_sweep(sweep_id), wait=wait, as_json=as_json)


def _checked(value: Any) -> SweepSpec:
    """Raises InvalidInputError with the faults of the sweep and of every cell that this machine can
    tell, and CommandError for an experiment."""
    if isinstance(value, dict) and "base" not in value and "federation" in value:
        raise usage_error(
            "this is one experiment: submit it with `fedaudit submit`, or put it below `base` and "
            "say in `grid` what varies"
        )
    sweep = parse_sweep(value)
    if not any(waits_for_registration(cell.document) for cell in expand(sweep)):
        parse_cells(sweep, parse_spec)
    return sweep


def _go_on(client: Client, sweep: SubmittedSweep, *, wait: bool, as_json: bool) -> ExitCode:
    _show_warnings(sweep["warnings"])
    if wait:
        say(f"submitted as {sweep['id']}, {sweep['progress']['cells']} cells")
        return _end_of(client, sweep, as_json=as_json)
    if as_json:
        write_json(sweep)
    else:
        show_sweep(sweep)
        say(f"its page: {sweep_page(client.url, sweep['id'])}")
    return ExitCode.DONE


def _end_of(client: Client, sweep: Sweep, *, as_json: bool) -> ExitCode:
    ended = followed(client, sweep)
    table = _table(client, ended["id"])
    if as_json:
        write_json({**ended, "table": table})
    else:
        if table is not None:
            show_table(table)
        show_costs(ended["costs"], ended["facts"])
        write_line(f"page: {sweep_page(client.url, ended['id'])}")
    return _outcome(ended)


def _table(client: Client, sweep_id: str) -> SweepTable | None:
    try:
        return client.sweep_table(sweep_id)
    except ProblemError as error:
        if error.slug != "forbidden":
            raise
    # A key that only runs experiments is good enough to have run these.
    say("the key may not read reports, so the table is not shown here")
    return None


def _outcome(sweep: Sweep) -> ExitCode:
    outcomes = [cell["gate_outcome"] for cell in sweep["cells"] if cell["gate_outcome"]]
    if outcomes:
        passed = sum(outcome == "pass" for outcome in outcomes)
        say(f"{passed} of {len(outcomes)} cells with gates passed them")
    progress = sweep["progress"]
    if progress["statuses"].get("succeeded", 0) == progress["cells"]:
        return ExitCode.DONE
    say(f"fedaudit: of {progress['cells']} cells {statuses_words(sweep)}")
    reasons = {cell["status_reason"] for cell in sweep["cells"] if cell["status_reason"]}
    if reasons:
        say(f"reasons: {', '.join(sorted(reasons))}")
    say(f"to try the others again: fedaudit sweeps retry {sweep['id']}")
    return ExitCode.FAILED


def _show_warnings(warnings: Any) -> None:
    for warning in warnings:
        say(f"mind: {warning}")
