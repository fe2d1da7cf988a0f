"""The house stands: no circles, one meaning for a file's name, nothing too long or too full."""

from collections import defaultdict

import pytest

from tests.house import Room, circles, files, imports, rooms

MAX_LINES = 400
MAX_FILES = 25

# Names that several files bear because they mean the same in each room.
SAME_MEANING = {
    "__init__": "a package",
    "__main__": "a package as a command",
    "app": "the application of a process",
    "base": "what the files beside it share",
    "errors": "a room's exceptions",
    "registry": "which implementation bears which name",
    # One concept on several floors: the spec's words, the domain, tables, repositories, routes.
    "api_keys": "keys of the HTTP interface",
    "audit_entries": "entries of the audit log",
    "audit_log": "who did what",
    "audits": "audits of predictions",
    "artifacts": "files of parameters",
    "checkpoints": "where a run or its ledger stood",
    "later_attacks": "attacks that are asked for after a report was signed",
    "ledger_reports": "reports of trainings elsewhere",
    "declared_entries": "entries of declared rounds",
    "declared_ledgers": "ledgers of trainings elsewhere",
    "declared_rounds": "rounds that trainers declare",
    "disclosures": "what was disclosed of data",
    "erasures": "erasures of federations",
    "events": "an experiment's events",
    "expired_files": "files whose time was over",
    "experiment": "one experiment",
    "experiment_lists": "pages of experiments",
    "experiment_tables": "rounds, ledger and fairness of an experiment",
    "experiments": "experiments",
    "fairness": "fairness figures",
    "federation": "a federation",
    "federations": "federations",
    "gate_policies": "stored policies",
    "gates": "gates",
    "gaussian_central": "the mechanism of this name",
    "gaussian_local": "the mechanism of this name",
    "health": "whether a process is well",
    "idempotency": "idempotent requests",
    "keys": "keys of the HTTP interface",
    "laplace_l2": "the mechanism of this name",
    "ledger": "stored ledgers",
    "ledgers": "ledgers of trainings elsewhere",
    "metrics": "fairness metrics: their names, and how they are computed",
    "no_mechanism": "the mechanism of this name",
    "outbox": "messages that wait",
    "pending_uploads": "uploaded tables that nobody has registered yet",
    "policies": "policies",
    "predicted_rows": "predictions row by row",
    "projects": "projects",
    "queries": "questions to stored reports",
    "record_personalised": "the mechanism of this name",
    "report_figures": "a report's figures, one by one",
    "report_lists": "pages of reports",
    "reports": "reports",
    "rounds": "stored rounds",
    "setting_changes": "the history of what is set",
    "sign_offs": "what people state of reports",
    "signing": "stored signatures",
    "signing_keys": "keys that sign",
    "subject_sets": "stored subjects",
    "run": "a run, and the command that makes one",
    "sweeper_leases": "which sweeper is elected",
    "sweeps": "many experiments as one",
    "units": "units of work",
    "version": "the version of a distribution",
    "web_sessions": "sessions of pages",
    "webhook_deliveries": "events on their way to webhooks",
    "webhook_endpoints": "addresses that are told of events",
    "webhooks": "addresses that are told of events",
}


def test_no_circle_between_files() -> None:
    assert circles(imports()) == []


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.name)
def test_no_circle_between_the_boxes_of_a_room(room: Room) -> None:
    assert circles(room.boxes) == []


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.name)
def test_no_folder_is_a_bag(room: Room) -> None:
    # Migrations are a history, whose order is its structure.
    assert room.files <= MAX_FILES or room.name == "migrations.earlier.versions"


def test_a_file_name_has_one_meaning() -> None:
    found = defaultdict(list)
    for module in files():
        found[module.rpartition(".")[2]].append(module)
    shared = {name: modules for name, modules in found.items() if len(modules) > 1}
    assert {name: at for name, at in shared.items() if name not in SAME_MEANING} == {}


def test_no_source_file_is_too_long() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in files().items()}
    assert {name: count for name, count in lengths.items() if count > MAX_LINES} == {}


def test_circles_are_found() -> None:
    arrows = {"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]}
    assert circles(arrows) == [["b", "c"]]
    assert circles({"a": ["b"], "b": ["c"], "c": []}) == []
