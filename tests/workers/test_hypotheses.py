"""Clusters and hypotheses of stored runs: over rounds, after interruptions, and in the report."""

from fedaudit.ledger.columns import EntryColumns
from fedaudit.ledger.rows import entry_of
from fedaudit.reports.ledger_totals import LedgerTotals
from fedaudit.reports.sections.between_hypotheses import between_checks
from fedaudit.spec.parse import parse_spec
from models.repositories import LedgerRepository
from tests.workers.admission import document_of, experiment_of, rounds_of, spec_with, submit
from workers.run_unit import run_unit


def test_the_report_is_held_against_the_stored_ledger(database, context):
    submitted = submit(database)
    run_unit(context, submitted.unit_id)
    report = document_of(database, submitted)
    totals = LedgerTotals(40, best_round=report["utility"]["best_round"])
    with database.read() as session:
        for row in LedgerRepository(session).rows_after(submitted.id, limit=1000):
            entry = entry_of(row)
            totals.add(EntryColumns.of_entries([entry]))
    spec = parse_spec(report["spec"])
    found = between_checks(spec, report, totals, entry.inputs)
    assert {one.name: one.outcome for one in found} == {"report.privacy.between_hypotheses": "pass"}


def test_lost_rounds_count_in_the_cluster_that_a_client_was_in(database, context, crash_in_block):
    submitted = submit(database, spec_with(privacy__noise="release"))
    crash_in_block(3, rounds=2)
    run_unit(context, submitted.unit_id)
    assert experiment_of(database, submitted).rounds_done == 4
    run_unit(context, submitted.unit_id)
    assert experiment_of(database, submitted).status == "succeeded"
    report, rounds = document_of(database, submitted), rounds_of(database, submitted)
    assert rounds[-1].leakage_by_cluster == report["privacy"]["leakage_by_cluster"]
    for row in rounds:
        assert row.leakage_max == max(one["leakage_max"] for one in row.leakage_by_cluster or ())
    # The best round's radii are found even where a lost release of it stands before them.
    assert report["privacy"]["between_hypotheses"]["pairs"][0]["epsilon_max"] > 0
