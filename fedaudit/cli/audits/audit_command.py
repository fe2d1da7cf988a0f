"""Audit the predictions in a file, without a service."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uuid_utils

from fedaudit.audits.audit_page import render_audit
from fedaudit.audits.audit_report import AuditRequest, audit_report
from fedaudit.audits.audit_table import read_audit
from fedaudit.cli.audits.audit_summary import show_audit
from fedaudit.cli.display.output import json_text, say, writable_folder, write_json
from fedaudit.cli.failures import CommandError, ExitCode, gate_exit, usage_error
from fedaudit.cli.specs import explain, read_value
from fedaudit.federations.reading.source_files import Files
from fedaudit.reports.sections.disagreement import FiguresDisagreeError
from fedaudit.spec.audits.audit_spec import parse_audit
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.policies import parse_policies

_KEY_BYTES = 32


def audit_command(
    file: Path,
    asked: Mapping[str, Any],
    *,
    labels: str | None,
    policy: str | None,
    out: Path | None,
    as_json: bool,
) -> ExitCode:
    """Audit a table and show the report. Raises InvalidInputError and CommandError."""
    spec = parse_audit(
        {
            **asked,
            "path": file.name,
            "labels": {} if labels is None else read_value(labels),
            "gates": [] if policy is None else _gates(policy),
        }
    )
    folder = None if out is None else writable_folder(out)
    started = datetime.now(UTC)
    try:
        rows = read_audit(spec, files=Files(file.parent))
        report = audit_report(
            rows,
            AuditRequest(
                audit_id=str(uuid_utils.uuid7()),
                started_at=started,
                rounding_key=secrets.token_bytes(_KEY_BYTES),
            ),
        )
    except ImportError as error:
        raise CommandError(
            f"the figures are computed a second time by Fairlearn, which cannot be imported "
            f"({error}): pip install 'fedaudit[worker]'"
        ) from None
    except FiguresDisagreeError as error:
        raise CommandError(f"the audit failed: {error}") from None
    if folder is not None:
        (folder / "report.json").write_text(f"{json_text(report)}\n", encoding="utf-8")
        (folder / "report.html").write_text(render_audit(report), encoding="utf-8")
        say(f"report.json and report.html are in {folder}")
    if as_json:
        write_json(report)
    else:
        show_audit(report)
    return gate_exit(report["gate_outcome"])


def parsed_edges(given: Sequence[str]) -> dict[str, list[float]]:
    """The edges of `age=40,60`, by column. Raises CommandError."""
    found = {}
    for one in given:
        column, _, numbers = one.rpartition("=")
        try:
            found[column] = [float(number) for number in numbers.split(",")]
        except ValueError:
            raise usage_error(f"--edges: {one!r} is not as age=40,60") from None
    return found


def _gates(source: str) -> list[dict[str, Any]]:
    """The gates of every policy in a file."""
    try:
        policies = parse_policies(read_value(source)).to_evaluate
    except InvalidInputError as error:
        raise usage_error(f"--policy: {source}: {explain(error.errors)}") from None
    return [gate.model_dump(mode="json") for named in policies for gate in named.gates]
