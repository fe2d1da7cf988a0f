"""Clusters and hypotheses of stored runs: over rounds, after interruptions, and in the report."""

from tests.workers.admission import document_of, experiment_of, rounds_of, spec_with, submit
from workers.run_unit import run_unit


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
