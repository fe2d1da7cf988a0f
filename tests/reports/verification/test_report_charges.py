"""For which rounds the held-out people may stand charged, wherever a run came to its end."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fedaudit.cli.run import LocalRun, run_locally
from fedaudit.ledger.columns import EntryColumns
from fedaudit.ledger.rows import LedgerEntry, charges_report
from fedaudit.reports.sections.held_out_privacy import ReportCharges
from fedaudit.spec.parse import parse_spec
from tests.runs.test_blocks import NOISE
from tests.training.specs import groups_spec

SPEC = groups_spec(
    training__rounds=8,
    training__stopping={"validate_every": 3},
    fairness__noise={**NOISE, "rounds": True},
)


@pytest.fixture(scope="module")
def done() -> LocalRun:
    return run_locally(parse_spec(SPEC), sources_dir=None, device="cpu", progress=lambda _: None)


def test_a_whole_run_charges_validated_rounds_and_its_report(done: LocalRun) -> None:
    charges = ReportCharges(SPEC)
    for entry in done.ledger.entries:
        charges.read(EntryColumns.of_entries([entry]))
    assert [one.outcome for one in charges.checks(done.report)] == ["pass", "pass"]


@pytest.mark.parametrize(
    ("lost", "charged", "outcome"),
    [
        ([], [3, 6, 8], "pass"),  # it ended before its report
        ([], [3, 6, 8, 9], "pass"),
        ([], [3, 6, 9], "fail"),
        ([7, 8], [3, 6, 9], "pass"),
        # Training ended with a round that was played as one of many, or was known to be the last.
        ([8], [3, 6, 9], "pass"),
        ([8], [3, 6, 7, 9], "pass"),
        ([8], [3, 9], "fail"),
        ([8], [3, 6, 7, 8, 9], "fail"),
    ],
)
def test_where_rounds_are_lost_others_may_be_the_last(done, lost, charged, outcome):
    entries = done.ledger.entries
    held_out = [entry for entry in entries if charges_report(entry.observer)]
    charges = ReportCharges(SPEC)
    for entry in entries:
        if not charges_report(entry.observer):
            lost_or_not = replace(entry, interrupted=entry.round in lost)
            charges.read(EntryColumns.of_entries([lost_or_not]))
    for entry in _as_often(held_out, charged):
        charges.read(EntryColumns.of_entries([entry]))
    assert [one.outcome for one in charges.checks(None)] == [outcome]


def test_a_round_of_any_number_ends_in_a_verdict(done: LocalRun) -> None:
    """Nothing is counted up to it."""
    charges = ReportCharges(SPEC)
    first, *_ = done.ledger.entries
    for entry in (*done.ledger.entries, replace(first, round=2**63)):
        charges.read(EntryColumns.of_entries([entry]))
    assert next(iter(charges.checks(None))).outcome == "fail"


def _as_often(held_out: list[LedgerEntry], rounds: Sequence[int]) -> list[LedgerEntry]:
    """The charges of a run, the first ones in their order, for other rounds."""
    return [replace(held_out[place], round=round_) for place, round_ in enumerate(rounds[:4])]
