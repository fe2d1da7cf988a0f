"""Every field of a report is made anew by verification, or listed as stated alone."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fedaudit.audits.audit_material import audit_report
from fedaudit.audits.audit_table import read_audit
from fedaudit.federations.reading.source_files import Files
from fedaudit.ledger.bundle import Evidence, opened_bundle
from fedaudit.reports.declared.declared_sections import DECLARED
from fedaudit.reports.report import RUN
from fedaudit.reports.sections.predictions import AUDIT
from fedaudit.reports.sections.provenance import RECORDED, sign_report
from fedaudit.reports.sections.utility import Utility
from fedaudit.reports.verification.verification import verify
from fedaudit.spec.audits import parse_audit
from tests.api.ledgers.trainings import LOCAL, declared, group, opened
from tests.api.service import KEY, running_api, settings_for
from tests.audits.tables import asking, people, write
from tests.reports.signed_run import signed_run
from tests.reports.verification.test_verification import failed
from workers.proof.declared_signing import DeclaredLedgerSigner

STATED_ALONE: Mapping[str, Mapping[str, set[str]]] = {
    "run": {
        "experiment": {"name", "status"},
        "provenance": {"data_fingerprint", "reasons", *RECORDED},
        "integrity": {"reasons"},
        "privacy": {"reasons"},
        "guarantee": {"adjacency", "statement", "reasons"},
        "data": {"rows", "notes"},
        "utility": set(Utility.model_fields) - {"rounds"},
    },
    "ledger": {
        "ledger": {
            *("first_declared_at", "last_declared_at", "minimum_group_size", "witness"),
            *("refused_rounds", "unreserved_rounds", "unanswered_reservations", "reasons"),
        },
        "integrity": {"reasons"},
        "guarantee": {"statement", "reasons"},
        "privacy": set(),
    },
    "audit": {
        "experiment": set(),
        "provenance": {"data_fingerprint", "reasons", *RECORDED},
        "guarantee": {"statement", "reasons"},
        "privacy": {"reasons"},
        "predictions": {"equal_truth", "rows_left_out"},
    },
}
"""By kind of report, what no check makes anew of the sections that have checks: words, and what
rows, or the service's tables, would show."""
_BESIDE = {"report.answer", "report.gates"}
SECTIONS = {"run": RUN, "ledger": DECLARED, "audit": AUDIT}


def _run(folder: Path) -> Path:
    return signed_run(KEY).write(folder / "run.zip")


def _ledger(folder: Path, template: Path) -> Path:
    database = folder / "service.db"
    database.write_bytes(template.read_bytes())
    groups = {"sex": {"f": group(20, 5, 40, 10), "m": group(50, 5, 30, 10)}}
    rounds = [declared(1, ["a", "b"], failures=["c"], groups=groups), declared(3, ["a"])]
    with running_api(settings_for(f"sqlite:///{database}", folder)) as api:
        ledger = opened(api, {**LOCAL, "budget": {"epsilon": 9.0}}, rounds=rounds)
        assert DeclaredLedgerSigner(api.database, KEY, seconds=0.0).sign_waiting(1) == 1
        found = api.get(f"/v1/ledgers/{ledger}/bundle").content
    path = folder / "ledger.zip"
    path.write_bytes(found)
    return path


def _audit(folder: Path) -> Evidence:
    write(folder, people())
    spec = parse_audit(asking(prediction=None, score="score", threshold=0.5, client_key="town"))
    rows = read_audit(spec, files=Files(folder))
    made = audit_report(rows, audit_id="here", started_at=datetime.now(UTC), key_id=KEY.key_id)
    report = sign_report(made, KEY)
    return Evidence(
        experiment_id="here", spec=spec.model_dump(mode="json"), report=report, keys=[KEY.public]
    )


@pytest.fixture(scope="module")
def evidence(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Of each kind of report; the rows may be read by several verifications."""
    folder, found = tmp_path_factory.mktemp("evidence"), {}
    for kind, path in {"run": _run(folder), "ledger": _ledger(folder, sqlite_template)}.items():
        with opened_bundle(path) as one:
            found[kind] = replace(one, rows=list(one.rows))
    return {**found, "audit": _audit(folder)}


def _another(value: Any) -> Any:
    if value is None or type(value) is float:
        return (value or 0.0) + 0.5
    if isinstance(value, bool | int):
        return type(value)(1 - value)
    if isinstance(value, str):
        return f"{value} "
    return type(value)() if value else {list: ["more"], dict: {"more": "words"}}[type(value)]


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, by_name in STATED_ALONE.items() for name in by_name]
)
def test_every_field_is_made_anew_though_the_report_was_signed_again_or_listed(
    evidence, kind, name
):
    """A new figure is in neither: it wants a check, or a place in the list."""
    found, whole = evidence[kind], evidence[kind].report
    checked = {one.name for one in SECTIONS[kind] if callable(one.checked)} - {"fairness"}
    assert STATED_ALONE[kind].keys() == checked
    unnoticed = set()
    for field, value in whole[name].items():
        if field in ("signature", "key_id"):
            continue
        changed = {**whole, name: {**whole[name], field: _another(value)}}
        signed = replace(found, report=sign_report(changed, KEY))
        if not failed(verify(signed, trusted=[KEY.public])).keys() - _BESIDE:
            unnoticed.add(field)
    assert unnoticed == STATED_ALONE[kind][name] & whole[name].keys()


def _counted_in_text(one: Evidence) -> Evidence:
    return replace(one, report={**one.report, "data": {**one.report["data"], "clients": "8"}})


@pytest.mark.parametrize(
    ("kind", "change", "name"),
    [
        ("run", _counted_in_text, "report.data"),
        ("ledger", lambda one: replace(one, names=[]), "report.privacy"),
    ],
)
def test_a_value_of_a_form_that_no_check_expects_is_altered(evidence, kind, change, name):
    found = verify(change(evidence[kind]), trusted=[KEY.public])
    assert found.verdict == "altered"
    assert name in failed(found)
