"""A report's figures once more, from nothing but its ledger: its table."""

from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from models.database import Database


def figures_by_sql(database: Database, experiment_id: str) -> dict[str, Any]:
    """The report's privacy figures, from nothing but the ledger's view."""
    query = text(
        """
        SELECT max(leakage_total) AS leakage_max,
               sum(CASE WHEN outcome = 'refused' THEN 1 ELSE 0 END) AS refusals,
               sum(CASE WHEN outcome = 'withheld' THEN 1 ELSE 0 END) AS withheld,
               max(round) AS rounds
        FROM privacy_ledger WHERE experiment_id = :id
        """
    )
    per_subject = text(
        """
        SELECT max(leakage_total) AS total, sum(CASE WHEN outcome = 'released' THEN 1 ELSE 0 END)
               AS releases, max(leakage) AS each
        FROM privacy_ledger WHERE experiment_id = :id GROUP BY subject
        """
    )
    per_cluster = text(
        """
        SELECT cluster, count(*) AS clients, max(leakage_total) AS leakage_max
        FROM (SELECT cluster, leakage_total,
                     row_number() OVER (PARTITION BY subject ORDER BY round DESC) AS newest
              FROM privacy_ledger WHERE experiment_id = :id AND outcome = 'released') AS releases
        WHERE newest = 1 GROUP BY cluster ORDER BY cluster
        """
    )
    with database.read() as session:
        clusters = session.execute(per_cluster, {"id": experiment_id}).mappings().all()
        figures = dict(session.execute(query, {"id": experiment_id}).mappings().one())
        subjects = session.execute(per_subject, {"id": experiment_id}).mappings().all()
    figures["participations_max"] = max(row["releases"] for row in subjects)
    figures["subjects"] = [dict(row) for row in subjects]
    figures["leakage_by_cluster"] = [dict(row) for row in clusters]
    return figures


def check_against_the_ledger(
    database: Database, experiment_id: str, report: dict[str, Any], spec: dict[str, Any]
) -> None:
    figures = figures_by_sql(database, experiment_id)
    privacy, nu = report["privacy"], spec["privacy"]["noise_multiplier"]
    n = report["data"]["parameters"]
    for name in ("leakage_max", "refusals", "withheld", "participations_max"):
        assert figures[name] == privacy[name], name
    assert figures["rounds"] == report["utility"]["rounds"]
    for subject in figures["subjects"]:
        # Exactly, not approximately: the number of releases times n / nu.
        assert subject["total"] == subject["releases"] * n / nu
    totals = sorted(subject["total"] for subject in figures["subjects"])
    totals = [0.0] * (report["data"]["training_clients"] - len(totals)) + totals
    middle = len(totals) // 2
    median = totals[middle] if len(totals) % 2 else (totals[middle - 1] + totals[middle]) / 2
    assert median == pytest.approx(privacy["leakage_median"], rel=1e-15)
    for name, quantile in privacy["leakage_quantiles"].items():
        share = int(name.removeprefix("p")) / 100
        assert np.quantile(totals, share) == pytest.approx(quantile, rel=1e-12), name
    reported = [
        {name: row[name] for name in ("cluster", "clients", "leakage_max")}
        for row in privacy["leakage_by_cluster"]
    ]
    assert figures["leakage_by_cluster"] == reported
