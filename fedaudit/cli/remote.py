"""The commands that speak to a running service."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from fedaudit.cli.confirmation import confirm
from fedaudit.cli.display.output import (
    json_text,
    say,
    write_bytes,
    write_json,
    write_line,
    yaml_text,
)
from fedaudit.cli.display.summary import show
from fedaudit.cli.failures import CommandError, ExitCode, gate_exit, usage_error
from fedaudit.cli.follow import follow
from fedaudit.cli.forms import ReportForm
from fedaudit.cli.specs import read_submission
from fedaudit.reports.document.verdict_parts import verdict_lines
from fedaudit_client.client import Client
from fedaudit_client.errors import NotConfiguredError, ProblemError, UnreachableError
from fedaudit_client.pages import experiment_page, report_page

if TYPE_CHECKING:
    from fedaudit.reports.readings.reading_choice import ReadingName

_CONFLICT, _TOO_MANY, _SERVER_ERROR = 409, 429, 500
_IDEMPOTENCY_KEY = re.compile("[ -~]{1,255}")


@contextmanager
def connected() -> Iterator[Client]:
    """A client of the service at FEDAUDIT_URL; its errors become CommandErrors."""
    try:
        with Client.from_environment() as client:
            yield client
    except NotConfiguredError as error:
        raise usage_error(str(error)) from None
    except UnreachableError as error:
        raise CommandError(str(error), ExitCode.UNREACHABLE) from None
    except ProblemError as error:
        raise CommandError(str(error), _exit_code(error.status)) from None


def _exit_code(status: int) -> ExitCode:
    if status >= _SERVER_ERROR or status == _TOO_MANY:
        return ExitCode.UNREACHABLE
    return ExitCode.FAILED if status == _CONFLICT else ExitCode.USAGE


def checked_key(key: str | None) -> None:
    """Raises CommandError for an idempotency key that the service would refuse."""
    if key is not None and not _IDEMPOTENCY_KEY.fullmatch(key):
        raise usage_error("--idempotency-key: give 1 to 255 printable ASCII characters")


def submit_command(
    source: str, *, wait: bool, as_json: bool, idempotency_key: str | None
) -> ExitCode:
    """Submit a spec and print the experiment; with `wait`, once it has ended."""
    checked_key(idempotency_key)
    spec = read_submission(source)
    with connected() as client:
        experiment = client.submit(spec, idempotency_key=idempotency_key)
        if not wait:
            show_submitted(client, experiment, as_json=as_json)
            return ExitCode.DONE
        return end_of(client, experiment, as_json=as_json)


def end_of(client: Client, experiment: Mapping[str, Any], *, as_json: bool) -> ExitCode:
    """Follow an experiment that was submitted just now, and print how it ended."""
    say(f"submitted as {experiment['id']}")
    ended = follow(client, experiment)
    _show_end(client, ended, as_json=as_json)
    return _outcome(ended)


def show_submitted(client: Client, experiment: Mapping[str, Any], *, as_json: bool) -> None:
    """Print an experiment that was submitted just now, and where it can be seen."""
    _show_experiment(experiment, as_json=as_json)
    if not as_json:
        say(f"its page: {experiment_page(client.url, experiment['id'])}")


def watch_command(experiment_id: str, *, as_json: bool) -> ExitCode:
    """Follow an experiment to its end; as JSON, an event on each line."""
    with connected() as client:
        experiment = client.get(experiment_id)
        if as_json:
            for event in client.watch(experiment_id):
                line = {"id": event.id, "type": event.type, "data": dict(event.data)}
                write_json(line, pretty=False)
            experiment = client.get(experiment_id)
        else:
            experiment = follow(client, experiment)
            _show_end(client, experiment, as_json=False)
        return _outcome(experiment)


def report_command(experiment_id: str, *, form: ReportForm, out: Path | None) -> None:
    """Print a report, or save it."""
    if form == "text" and out is not None:
        raise usage_error("--out: goes with --format json, html and pdf; text is for reading here")
    if form == "pdf" and out is None:
        raise usage_error("--format pdf: name a file with --out")
    from fedaudit.publishing.later_found import later_found

    with connected() as client:
        later = later_found(client, experiment_id)
        match form:
            case "text":
                show(later.judge(client.report(experiment_id)))
            case "html":
                write_bytes(client.report_page(experiment_id).encode(), out)
            case "pdf":
                write_bytes(_pdf(client.report_page(experiment_id)), out)
            case "json":
                write_bytes(f"{json_text(client.report(experiment_id))}\n".encode(), out)
            case _:
                assert_never(form)
    if later.alarms:
        say(
            f"fedaudit: {later.alarms} attacks after the report was signed raised an alarm: "
            "do not rely on its guarantee"
        )


def _pdf(page: str) -> bytes:
    """Made here rather than by the service: a long report keeps a processor busy for seconds."""
    from fedaudit.reports.page.pdf import PdfUnavailableError, pdf_of

    try:
        return pdf_of(page)
    except PdfUnavailableError as error:
        raise usage_error(f"--format pdf: {error}") from error


def reading_command(experiment_id: str, *, reading: "ReadingName", out: Path | None) -> None:
    """Print a reading of a report, or save it: as YAML where the file's name ends so."""
    with connected() as client:
        found = client.reading(experiment_id, reading)
    if isinstance(found, str):
        text = found
    elif out is not None and out.suffix in (".yaml", ".yml"):
        text = yaml_text(found)
    else:
        text = f"{json_text(found)}\n"
    write_bytes(text.encode(), out)


def list_keys_command(*, as_json: bool) -> None:
    """Print the keys of the project that FEDAUDIT_API_KEY opens."""
    with connected() as client:
        found = client.keys()
    if as_json:
        write_json(list(found))
        return
    for key in found:
        state = "revoked" if key.get("revoked_at") else "valid"
        person = (key.get("person") or {}).get("name", "nobody named")
        write_line(f"{key['id']}  {state:7}  {','.join(key['scopes'])}  {key['name']}  {person}")


def rotate_key_command(key_id: str, *, overlap_hours: int, as_json: bool) -> None:
    """Replace a key's secret, and print the new one."""
    with connected() as client:
        rotated = client.rotate_key(key_id, overlap_seconds=3600 * overlap_hours)
    if as_json:
        write_json(rotated)
        return
    write_line(rotated["key"])
    until = rotated["previous_until"]
    say("keep it: it is not shown again")
    say("the old secret ended" if until is None else f"the old secret opens the key until {until}")


def revoke_key_command(key_id: str, *, yes: bool) -> None:
    """End a key of that project, after asking."""
    with connected() as client:
        if not yes:
            known = client.keys()
            names = [key["name"] for key in known if key["id"] == key_id]
            confirm(f"revoke the key {(names or [key_id])[0]!r} for good?", command="keys revoke")
        client.revoke_key(key_id)
    say(f"revoked {key_id}")


def _outcome(experiment: Mapping[str, Any]) -> ExitCode:
    if experiment["status"] != "succeeded":
        reason = experiment.get("status_reason") or "no reason was given"
        ended = {"cancelled": "was cancelled"}.get(experiment["status"], experiment["status"])
        say(f"fedaudit: the experiment {ended} ({reason})")
        return ExitCode.FAILED
    if alarms := experiment["alarms"]:
        say(f"{alarms} of its attacks raised an alarm; see fedaudit report {experiment['id']}")
        return ExitCode.FAILED
    outcome = experiment["gate_outcome"]
    if outcome not in (None, "pass"):
        say(f"its gates: {outcome.replace('_', ' ')}; see fedaudit gate {experiment['id']}")
    return gate_exit(outcome)


def _show_end(client: Client, experiment: Mapping[str, Any], *, as_json: bool) -> None:
    """The experiment; for people also what its report says of it, and where that stands."""
    _show_experiment(experiment, as_json=as_json)
    if as_json or experiment["status"] != "succeeded":
        return
    try:
        report = client.report(experiment["id"])
    except ProblemError as error:
        if error.slug != "forbidden":
            raise
        # A key that only runs experiments is good enough to have run this one.
        say("the key may not read reports, so the verdict is not shown here")
    else:
        for title, text in verdict_lines(report):
            write_line(title)
            write_line(f"  {text}")
    write_line(f"report: {report_page(client.url, experiment['id'])}")


def _show_experiment(experiment: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        write_json(experiment)
        return
    progress = experiment["progress"]
    rounds = f"round {progress['round']} of {progress['rounds']}"
    write_line(f"{experiment['id']}  {experiment['status']}  {rounds}  {experiment['name']}")
